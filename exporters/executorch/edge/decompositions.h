#pragma once

#include "exporters/passes/decompose.h"

namespace exporters::executorch {

/// Core ATen but for: `linear`, which has a kernel that is many times faster than `addmm`'s; attention, which is taken
/// apart without what delegates do not run; and ops that have no kernel.
DecompositionTable edge_decompositions();

}  // namespace exporters::executorch
