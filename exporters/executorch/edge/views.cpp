#include "exporters/executorch/edge/op_call.h"
#include "exporters/executorch/edge/passes.h"
#include "exporters/passes/emit.h"

#include <algorithm>
#include <array>

namespace exporters::executorch {
namespace {

struct Spelling {
  std::string_view view;
  std::string_view copy;
};
// Ops that give a view, and the same that give a tensor.
constexpr Spelling kCopies[] = {
    {"aten.permute.default", "aten.permute_copy.default"},
    {"aten.transpose.int", "aten.transpose_copy.int"},
    {"aten.slice.Tensor", "aten.slice_copy.Tensor"},
    {"aten.select.int", "aten.select_copy.int"},
    {"aten.expand.default", "aten.expand_copy.default"},
    {"aten.split.Tensor", "aten.split_copy.Tensor"},
    {"aten.split_with_sizes.default", "aten.split_with_sizes_copy.default"},
    {"aten.unbind.int", "aten.unbind_copy.int"},
    {"aten.as_strided.default", "aten.as_strided_copy.default"},
    {"aten.diagonal.default", "aten.diagonal_copy.default"},
    {"aten.unfold.default", "aten.unfold_copy.default"},
};
// Ops that keep the order of elements.
constexpr auto kReshapes = std::to_array<std::string_view>({
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unsqueeze_copy.default",
    "aten.squeeze_copy.dim",
    "aten.squeeze_copy.dims",
    "aten.flatten.using_ints",
});

const Spelling* copy_of(std::string_view target) {
  const auto* found =
      std::find_if(std::begin(kCopies), std::end(kCopies), [&](const Spelling& each) { return each.view == target; });
  return found == std::end(kCopies) ? nullptr : found;
}

// Whether a permutation leaves the order of elements: axes longer than 1 keep their order.
bool keeps_order(const Node& node) {
  if (!node.is_call("aten.permute.default") && !node.is_call("aten.permute_copy.default")) {
    return false;
  }
  const OpCall call(node);
  const TensorMeta& meta = call.tensor("self")->meta();
  const std::vector<int64_t> dims = call.integers("dims").value_or(std::vector<int64_t>());
  int64_t last = -1;
  for (int64_t axis : dims) {
    axis = axis < 0 ? axis + meta.dim() : axis;
    if (meta.sizes[static_cast<size_t>(axis)] == Expr(1)) {
      continue;
    }
    if (axis < last) {
      return false;
    }
    last = axis;
  }
  return true;
}

// Sizes of the result as arguments: numbers, the arguments that the op had for them, or sizes of the input.
Argument size_arguments(Emit& emit, Value* input, const TensorMeta& result) {
  Argument::List sizes;
  for (const Expr& size : result.sizes) {
    if (const auto number = size.as_int()) {
      sizes.emplace_back(*number);
      continue;
    }
    const auto& from = input->meta().sizes;
    const auto axis = std::find(from.begin(), from.end(), size);
    if (axis == from.end()) {
      return {};
    }
    sizes.push_back(emit.size(input, axis - from.begin()));
  }
  return Argument(std::move(sizes));
}

void to_view_copy(Graph& graph, Node& node) {
  const Argument given = node.arg_count() > 1 ? node.arg(1) : Argument();
  const bool has_sizes = node.is_call("aten.view.default") || node.is_call("aten._unsafe_view.default") ||
                         node.is_call("aten.reshape.default");
  const Graph::InsertGuard guard(graph, &node);
  Emit emit(graph, node);
  Argument sizes = size_arguments(emit, node.arg(0).value(), node.value()->meta());
  if (sizes.is_none()) {
    if (!has_sizes) {
      return;  // the op has a kernel of its own
    }
    sizes = given;
  }
  node.set_target("aten.view_copy.default");
  node.set_kwargs({});
  node.set_args({node.arg(0), std::move(sizes)});
}

}  // namespace

void copy_views(ExportedProgram& program) {
  Graph& graph = *program.graph;
  for (Node& node : graph) {
    if (node.kind() != Node::Kind::kCall) {
      continue;
    }
    const bool is_reshape = std::find(kReshapes.begin(), kReshapes.end(), node.target()) != kReshapes.end();
    if (is_reshape || keeps_order(node)) {
      to_view_copy(graph, node);
    }
    if (const Spelling* spelling = copy_of(node.target())) {
      node.set_target(std::string(spelling->copy));
    }
  }
}

}  // namespace exporters::executorch
