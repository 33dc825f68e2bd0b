#include "exporters/onnx/optimize/small_integers.h"

#include <algorithm>
#include <limits>

namespace exporters::onnx {
namespace {

using Inputs = std::vector<SmallIntegers>;
using Result = std::optional<SmallIntegers>;

// Shapes have as many numbers as a tensor has axes; longer constants are no sizes.
constexpr size_t kMostNumbers = 64;

std::optional<int64_t> floor_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) {
    return b == 0 ? std::nullopt : std::optional<int64_t>(0);
  }
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

std::optional<int64_t> apply(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "Add") {
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  }
  if (op == "Sub") {
    return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  }
  if (op == "Mul") {
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  }
  if (op == "Div") {
    return b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min()) ? std::nullopt : std::optional(a / b);
  }
  if (op == "Mod") {
    return floor_mod(a, b);
  }
  if (op == "Max") {
    return std::max(a, b);
  }
  return op == "Min" ? std::optional(std::min(a, b)) : std::nullopt;
}

Result elementwise(std::string_view op, const Inputs& inputs) {
  if (inputs.size() != 2) {
    return std::nullopt;
  }
  const SmallIntegers& a = inputs[0];
  const SmallIntegers& b = inputs[1];
  const size_t count = a.numbers.size() == 1 ? b.numbers.size() : a.numbers.size();
  if (b.numbers.size() != 1 && b.numbers.size() != count) {
    return std::nullopt;
  }
  SmallIntegers result{{}, a.is_scalar && b.is_scalar};
  for (size_t i = 0; i < count; ++i) {
    const auto value = apply(op, a.numbers[a.numbers.size() == 1 ? 0 : i], b.numbers[b.numbers.size() == 1 ? 0 : i]);
    if (!value) {
      return std::nullopt;
    }
    result.numbers.push_back(*value);
  }
  return result;
}

Result concat(const Inputs& inputs) {
  SmallIntegers result;
  for (const SmallIntegers& input : inputs) {
    if (input.is_scalar) {
      return std::nullopt;
    }
    result.numbers.insert(result.numbers.end(), input.numbers.begin(), input.numbers.end());
  }
  return result;
}

Result gather(const Inputs& inputs) {
  if (inputs.size() != 2 || inputs[0].is_scalar) {
    return std::nullopt;
  }
  const auto count = static_cast<int64_t>(inputs[0].numbers.size());
  SmallIntegers result{{}, inputs[1].is_scalar};
  for (const int64_t index : inputs[1].numbers) {
    if (index < -count || index >= count) {
      return std::nullopt;
    }
    result.numbers.push_back(inputs[0].numbers[static_cast<size_t>(index < 0 ? index + count : index)]);
  }
  return result;
}

// Between a number and a list of one number.
Result changed_rank(const Inputs& inputs, bool to_scalar) {
  if (inputs.empty() || inputs[0].numbers.size() != 1 || inputs[0].is_scalar == to_scalar) {
    return std::nullopt;
  }
  return SmallIntegers{inputs[0].numbers, to_scalar};
}

}  // namespace

std::optional<SmallIntegers> evaluate_integers(const GraphEditor& graph, const OnnxNode& node) {
  if (!node.domain.empty() || node.inputs.empty()) {
    return std::nullopt;
  }
  Inputs inputs;
  for (const std::string& name : node.inputs) {
    const auto numbers = graph.integers(name);
    if (!numbers || numbers->size() > kMostNumbers) {
      return std::nullopt;
    }
    inputs.push_back({*numbers, graph.facts(name).rank() == 0u});
  }
  if (node.op_type == "Concat") {
    return int_attribute(node, "axis", 0) == 0 || int_attribute(node, "axis", 0) == -1 ? concat(inputs) : std::nullopt;
  }
  if (node.op_type == "Gather") {
    return gather(inputs);
  }
  if (node.op_type == "Squeeze" || node.op_type == "Unsqueeze") {
    return changed_rank(inputs, node.op_type == "Squeeze");
  }
  return elementwise(node.op_type, inputs);
}

}  // namespace exporters::onnx
