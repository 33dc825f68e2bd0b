#pragma once

#include "exporters/executorch/edge/partition.h"

#include <functional>

namespace exporters::executorch {

/// The edge program: functional, of ops that have a kernel or that the partitioner takes, on dense tensors. `fix` runs
/// after the decomposition: the backend's node fixes, since ops that they rewrite may come from it.
EdgeProgram lower_to_edge(const ExportedProgram& program, DecompositionTable table, const Partitioner* partitioner,
                          const std::function<void(ExportedProgram&)>& fix);

/// Throws Error that lists every call that neither a delegate takes nor a kernel computes, with module paths.
void check_kernels(const Delegation& delegation);

}  // namespace exporters::executorch
