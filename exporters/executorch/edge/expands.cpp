#include "exporters/executorch/edge/passes.h"

#include <algorithm>
#include <array>

namespace exporters::executorch {
namespace {

// Elementwise ops whose kernels, and delegates, broadcast every tensor that they take.
constexpr auto kBroadcasting = std::to_array<std::string_view>({
    "aten.add.Tensor",         "aten.sub.Tensor",          "aten.mul.Tensor",         "aten.div.Tensor",
    "aten.eq.Tensor",          "aten.ne.Tensor",           "aten.lt.Tensor",          "aten.le.Tensor",
    "aten.gt.Tensor",          "aten.ge.Tensor",           "aten.where.self",         "aten.minimum.default",
    "aten.maximum.default",    "aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default",
    "aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor",   "aten.bitwise_xor.Tensor", "aten.pow.Tensor_Tensor",
});

// How many of the last axes a call does not broadcast; nothing for calls that broadcast none.
std::optional<int64_t> fixed_axes(const Node& node) {
  if (node.is_call("aten.matmul.default")) {
    return 2;
  }
  const bool broadcasts = std::find(kBroadcasting.begin(), kBroadcasting.end(), node.target()) != kBroadcasting.end();
  return broadcasts ? std::optional<int64_t>(0) : std::nullopt;
}

// The size that a tensor has at an axis counted from the last one (1).
Expr size_from_end(const TensorMeta& meta, int64_t from_end) {
  return from_end > meta.dim() ? Expr(1) : meta.sizes[static_cast<size_t>(meta.dim() - from_end)];
}

// Whether a call gives the same sizes with `input` in the place of `expanded`.
bool keeps_sizes(const Node& user, const Value* expanded, const Value* input) {
  const auto fixed = fixed_axes(user);
  if (!fixed || user.outputs().size() != 1 || input->meta().dim() < *fixed) {
    return false;
  }
  for (int64_t i = 1; i <= *fixed; ++i) {
    if (!(size_from_end(input->meta(), i) == size_from_end(expanded->meta(), i))) {
      return false;
    }
  }
  const TensorMeta& result = user.output()->meta();
  for (int64_t i = *fixed + 1; i <= result.dim(); ++i) {
    const Expr wanted = size_from_end(result, i);
    const std::vector<Value*> operands = user.inputs();
    const bool there = std::any_of(operands.begin(), operands.end(), [&](const Value* operand) {
      const Value* taken = operand == expanded ? input : operand;
      return taken->is_tensor() && size_from_end(taken->meta(), i) == wanted;
    });
    if (!there) {
      return false;
    }
  }
  return true;
}

}  // namespace

void drop_expands(ExportedProgram& program) {
  Graph& graph = *program.graph;
  for (Node& node : graph) {
    if (!node.is_call("aten.expand_copy.default")) {
      continue;
    }
    Value* input = node.arg(0).value();
    for (Node* user : node.output()->users()) {
      if (!user->is_output() && keeps_sizes(*user, node.output(), input)) {
        user->replace_input(node.output(), input);
      }
    }
    if (!node.output()->has_users()) {
      graph.erase(&node);
    }
  }
}

}  // namespace exporters::executorch
