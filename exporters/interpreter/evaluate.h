#pragma once

#include "exporters/graph/graph.h"

#include <ATen/core/ivalue.h>

#include <functional>
#include <vector>

namespace exporters {

/// Runs one call on its own, for constant folding: `lookup` gives each input value's run-time value. Gives one value
/// for each output of the node. Throws Error that names the node when it fails, and for higher-order ops.
std::vector<c10::IValue> evaluate(const Node& node, const std::function<c10::IValue(const Value&)>& lookup);

}  // namespace exporters
