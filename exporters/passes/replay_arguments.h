#pragma once

#include "exporters/graph/graph.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

namespace exporters {

/// What stands for a value of the graph in a call: a tensor, a list of tensors, a number or a symbolic one.
using ReplayedValue = std::function<const c10::IValue&(const Value*)>;

/// The arguments of a node as `op`, which need not be its target but takes the same arguments, is called with them.
/// Throws Error when one is missing.
torch::jit::Stack replay_arguments(const Node& node, const c10::OperatorHandle& op, const ReplayedValue& value_of);

}  // namespace exporters
