// Convolutions. XNNPACK has channels last, ATen first: a transpose on either side.
#include "exporters/executorch/edge/passes.h"
#include "exporters/executorch/xnnpack/graph_builder.h"
#include "exporters/graph/deferred_tensor.h"
#include "exporters/passes/emit.h"

#include <algorithm>
#include <array>

namespace exporters::executorch::xnnpack {
namespace {

constexpr std::string_view kConvolution = "aten.convolution.default";

// ── One axis as two ──

// A list of one number for each axis as one with another axis before it.
Argument widened(const Argument& list, int64_t first) {
  Argument::List result = {Argument(first)};
  result.insert(result.end(), list.list().begin(), list.list().end());
  return Argument(std::move(result));
}

TensorMeta with_height(TensorMeta meta) {
  meta.sizes.insert(meta.sizes.end() - 1, Expr(1));
  return contiguous_meta(std::move(meta));
}

void widen(ExportedProgram& program, exporters::Node& node, const StateTensor& weight) {
  Graph& graph = *program.graph;
  StateTensor wide = weight;
  wide.tensor = weight.tensor.unsqueeze(-2);
  const std::string hint = node.arg(1).value()->name() + "_wide";
  exporters::Value* filter = add_constant(program, hint, std::move(wide));
  const Graph::InsertGuard guard(graph, &node);
  Emit emit(graph, node);
  exporters::Value* x = node.arg(0).value();
  Argument::List wide_sizes;
  for (int64_t axis = 0; axis < 3; ++axis) {
    wide_sizes.push_back(emit.size(x, axis));
  }
  wide_sizes.insert(wide_sizes.end() - 1, Argument(int64_t{1}));
  exporters::Value* input =
      emit.call("aten.view_copy.default", {x, Argument(std::move(wide_sizes))}, with_height(x->meta()));
  const TensorMeta result = node.output()->meta();
  exporters::Value* wide_result =
      emit.call(kConvolution,
                {input, filter, node.arg(2), widened(node.arg(3), 1), widened(node.arg(4), 0), widened(node.arg(5), 1),
                 node.arg(6), widened(node.arg(7), 0), node.arg(8)},
                with_height(result));
  Argument::List sizes;
  for (int64_t axis = 0; axis < 4; ++axis) {
    if (axis != 2) {
      sizes.push_back(emit.size(wide_result, axis));
    }
  }
  exporters::Value* narrow = emit.call("aten.view_copy.default", {wide_result, Argument(std::move(sizes))}, result);
  node.output()->replace_all_uses_with(narrow);
  graph.erase(&node);
}

// ── The node ──

std::string refuse_convolution(const OpCall& call, const EdgeProgram& edge) {
  const exporters::Value* weight = call.tensor("weight");
  const exporters::Value* bias = call.tensor("bias");
  if (edge.constant(*weight) == nullptr || (bias != nullptr && edge.constant(*bias) == nullptr)) {
    return "its weight or bias is no constant";
  }
  if (call.boolean("transposed")) {
    return "it is transposed";
  }
  const bool known = call.integers("stride") && call.integers("padding") && call.integers("dilation");
  return call.result().dim() == 4 && known ? "" : "it is not over two axes with known steps";
}

std::array<uint32_t, 2> pair_of(const OpCall& call, std::string_view name) {
  const std::vector<int64_t> values = *call.integers(name);
  return {static_cast<uint32_t>(values.front()), static_cast<uint32_t>(values.back())};
}

void lower_convolution(GraphBuilder& builder, const OpCall& call) {
  const exporters::Value& input = *call.tensor("input");
  const exporters::Value& weight = *call.tensor("weight");
  const std::vector<uint32_t> in = builder.dims(input);
  const std::vector<uint32_t> out = builder.dims(*call.node().output());
  const std::vector<uint32_t> filter = builder.dims(weight);  // [out, in / groups, height, width]
  Convolution node;
  const auto padding = pair_of(call, "padding");
  node.padding = {padding[0], padding[1], padding[0], padding[1]};
  node.kernel = {filter[2], filter[3]};
  node.stride = pair_of(call, "stride");
  node.dilation = pair_of(call, "dilation");
  node.groups = static_cast<uint32_t>(*call.integer("groups"));
  node.group_input_channels = filter[1];
  node.group_output_channels = filter[0] / node.groups;
  node.input = builder.temporary(input.meta(), {in[0], in[2], in[3], in[1]});
  builder.add(Transpose{{0, 2, 3, 1}, builder.value(input), node.input});
  node.filter = builder.permuted_constant(weight, {0, 2, 3, 1});
  if (const exporters::Value* bias = call.tensor("bias")) {
    node.bias = builder.value(*bias);
  }
  node.output = builder.temporary(call.result(), {out[0], out[2], out[3], out[1]});
  builder.add(node);
  builder.add(Transpose{{0, 3, 1, 2}, node.output, builder.result(call)});
}

}  // namespace

void widen_convolutions(ExportedProgram& program) {
  std::vector<exporters::Node*> found;
  for (exporters::Node& node : *program.graph) {
    if (node.is_call(kConvolution) && node.output()->meta().dim() == 3 && node.output()->meta().dtype == at::kFloat &&
        node.arg_count() == 9 && node.arg(6) == Argument(false)) {
      found.push_back(&node);
    }
  }
  for (exporters::Node* node : found) {
    const exporters::Value& weight = *node->arg(1).value();
    const InputSpec* spec = program.signature.find_input(weight.name());
    const auto state = spec == nullptr ? program.state.end() : program.state.find(spec->target);
    if (state != program.state.end() && deferred_conversion(state->second.tensor) == nullptr) {
      widen(program, *node, StateTensor(state->second));
    }
  }
  update_outputs(program);
}

std::span<const NodeLowering> convolution_lowerings() {
  static constexpr auto kTable = std::to_array<NodeLowering>({
      {kConvolution, refuse_convolution, lower_convolution, true},
  });
  return kTable;
}

}  // namespace exporters::executorch::xnnpack
