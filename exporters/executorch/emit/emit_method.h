#pragma once

#include "exporters/executorch/edge/partition.h"
#include "exporters/executorch/emit/memory_plan.h"
#include "exporters/executorch/emit/program.h"

#include <string>

namespace exporters::executorch {

struct EmitOptions {
  std::string method = "forward";
  bool plan_inputs = true;
  bool plan_outputs = true;
  bool plan_state = true;
};

/// Adds the edge program to `program` as a method, delegates included, and gives what planning its memory needs.
/// Inputs are the leaves of the forward's arguments, in order, also those that are no tensors; outputs are the inputs
/// that it writes to, then the leaves of its result. Throws Error, naming the node, for an argument that kernels do not
/// take.
MethodMemory emit_method(const EdgeProgram& edge, const Delegation& delegation, const Partitioner* partitioner,
                         const EmitOptions& options, Program& program);

}  // namespace exporters::executorch
