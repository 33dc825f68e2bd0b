#pragma once

#include "exporters/onnx/optimize/graph_editor.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace exporters::onnx {

/// An int64 tensor of rank 0 or 1.
struct SmallIntegers {
  std::vector<int64_t> numbers;
  bool is_scalar = false;
};

/// What a node gives whose inputs are small int64 constants of rank 0 or 1, for the operators that sizes are computed
/// with; nothing for other nodes, for results of other ranks, and where the operator has no value (a division by zero).
std::optional<SmallIntegers> evaluate_integers(const GraphEditor& graph, const OnnxNode& node);

}  // namespace exporters::onnx
