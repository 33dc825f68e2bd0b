#pragma once

#include "exporters/graph/graph.h"

#include <cstddef>

namespace exporters {

/// Merges calls of the same op with the same arguments into the first of them. Random ops and assertions are left
/// alone, and so are calls whose results the program returns, since callers may write to what they get. Gives the
/// number of nodes removed. Linear in the graph. Throws Error when an op of the graph writes to its inputs, since equal
/// calls before and after it differ: functionalize first.
size_t merge_common_subexpressions(Graph& graph);

}  // namespace exporters
