#include "exporters/executorch/edge/op_call.h"
#include "exporters/executorch/edge/passes.h"
#include "exporters/passes/dead_code.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace exporters::executorch {
namespace {

// Tensors have no aliases that are written to and one layout, so these give what they get.
constexpr auto kSame = std::to_array<std::string_view>({
    "aten.clone.default",
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.detach.default",
    "aten.detach_copy.default",
    "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
    "aten.contiguous.default",
});
// These do when dtype and sizes stay.
constexpr auto kSameBySizes = std::to_array<std::string_view>({
    "aten._to_copy.default",
    "aten.view_copy.default",
    "aten.expand_copy.default",
});

bool is_one_of(std::span<const std::string_view> targets, const Node& node) {
  return std::find(targets.begin(), targets.end(), node.target()) != targets.end();
}

bool is_identity_permutation(const Node& node) {
  if (!node.is_call("aten.permute_copy.default")) {
    return false;
  }
  const std::vector<int64_t> dims = OpCall(node).integers("dims").value_or(std::vector<int64_t>());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != static_cast<int64_t>(i)) {
      return false;
    }
  }
  return true;
}

// A slice of equal size from the beginning in single steps is everything.
bool is_whole_slice(const Node& node) {
  if (!node.is_call("aten.slice_copy.Tensor")) {
    return false;
  }
  const OpCall call(node);
  return call.integer("step") == 1 && call.result().sizes == call.tensor("self")->meta().sizes;
}

Value* same_as(const Node& node) {
  if (node.kind() != Node::Kind::kCall || node.outputs().size() != 1 || node.arg_count() == 0 ||
      !node.arg(0).is_value() || !node.arg(0).value()->is_tensor() || !node.output()->is_tensor()) {
    return nullptr;
  }
  Value* input = node.arg(0).value();
  const TensorMeta& from = input->meta();
  const TensorMeta& to = node.output()->meta();
  const bool alike = from.dtype == to.dtype && from.sizes == to.sizes;
  const bool is_same = is_one_of(kSame, node) || (alike && is_one_of(kSameBySizes, node)) ||
                       is_identity_permutation(node) || (alike && is_whole_slice(node));
  return is_same ? input : nullptr;
}

// A view of a view is one of the first.
void skip_views_between(Node& node) {
  if (!node.is_call("aten.view_copy.default")) {
    return;
  }
  const Node* before = node.arg(0).value()->node();
  if (before->is_call("aten.view_copy.default")) {
    node.set_arg(0, before->arg(0));
  }
}

}  // namespace

void drop_no_ops(ExportedProgram& program) {
  Graph& graph = *program.graph;
  for (Node& node : graph) {
    if (node.kind() != Node::Kind::kCall) {
      continue;
    }
    skip_views_between(node);
    if (Value* input = same_as(node)) {
      node.output()->replace_all_uses_with(input);
      graph.erase(&node);
    }
  }
  eliminate_dead_code(graph);
  update_outputs(program);
}

void update_outputs(ExportedProgram& program) {
  const std::vector<Argument>& outputs = program.graph->outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    program.signature.outputs[i].argument = outputs[i];
  }
}

void make_contiguous(ExportedProgram& program) {
  const auto densify = [](Value& value) {
    TensorMeta& meta = value.meta();
    meta.strides.assign(meta.sizes.size(), Expr(1));
    for (size_t axis = meta.sizes.size(); axis-- > 1;) {
      meta.strides[axis - 1] = meta.strides[axis] * (meta.sizes[axis] == Expr(0) ? Expr(1) : meta.sizes[axis]);
    }
    meta.storage_offset = 0;
    meta.requires_grad = false;
  };
  for (Node& node : *program.graph) {
    for (Value* value : node.outputs()) {
      if (value->is_tensor()) {
        densify(*value);
      }
      for (Value* element : value->elements()) {
        densify(*element);
      }
    }
  }
}

}  // namespace exporters::executorch
