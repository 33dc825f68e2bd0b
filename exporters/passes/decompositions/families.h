#pragma once

#include "exporters/passes/decompose.h"

#include <span>

namespace exporters {

/// One line of a family's table; without a function the op stays whole.
struct DecompositionEntry {
  const char* target;
  Results (*function)(const DecompositionCall&);
};

namespace decompositions {

using Table = std::span<const DecompositionEntry>;

Table activations();
Table arithmetic();
Table reductions();
Table layouts();
Table joins();
Table indexing();
Table factories();
Table normalization();
Table products();
Table losses();
Table resampling();

/// Every family.
std::span<Table (*const)()> all();

}  // namespace decompositions
}  // namespace exporters
