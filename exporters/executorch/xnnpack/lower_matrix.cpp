// Products of matrices.
#include "exporters/executorch/xnnpack/graph_builder.h"

#include <array>

namespace exporters::executorch::xnnpack {
namespace {

// XNNPACK packs weights when a program is loaded.
bool is_constant_matrix(const exporters::Value* value, const EdgeProgram& edge) {
  return value != nullptr && value->meta().dim() == 2 && edge.constant(*value) != nullptr;
}

std::string refuse_bias(const OpCall& call, std::string_view name, const EdgeProgram& edge) {
  const exporters::Value* bias = call.tensor(name);
  if (bias != nullptr && (edge.constant(*bias) == nullptr || bias->meta().dim() != 1)) {
    return "its bias is no constant vector";
  }
  return {};
}

// ── linear, addmm, mm ──

std::string refuse_linear(const OpCall& call, const EdgeProgram& edge) {
  if (!is_constant_matrix(call.tensor("weight"), edge)) {
    return "its weight is no constant matrix";
  }
  return refuse_bias(call, "bias", edge);
}

void lower_linear(GraphBuilder& builder, const OpCall& call) {
  FullyConnected node;
  const exporters::Value& input = *call.tensor("input");
  const exporters::Value& weight = *call.tensor("weight");
  node.input = builder.int8_linear() ? builder.rounded(input) : builder.value(input);
  node.filter = builder.int8_linear() ? builder.int8_filter(weight) : builder.filter(weight, false);
  if (const exporters::Value* bias = call.tensor("bias")) {
    node.bias = builder.value(*bias);
  }
  node.output = builder.result(call);
  builder.add(node);
}

std::string refuse_addmm(const OpCall& call, const EdgeProgram& edge) {
  if (!is_constant_matrix(call.tensor("mat2"), edge)) {
    return "its second matrix is no constant";
  }
  if (call.number("alpha") != 1.0 || call.number("beta") != 1.0) {
    return "alpha or beta is not 1";
  }
  const exporters::Value* bias = call.tensor("self");
  if (bias->meta().sizes.size() != 1 || !(bias->meta().sizes[0] == call.result().sizes[1])) {
    return "its bias is no vector of the output's width";
  }
  return refuse_bias(call, "self", edge);
}

void lower_addmm(GraphBuilder& builder, const OpCall& call) {
  FullyConnected node;
  node.input = builder.value(*call.tensor("mat1"));
  node.filter = builder.filter(*call.tensor("mat2"), true);
  node.transposed = true;
  node.bias = builder.value(*call.tensor("self"));
  node.output = builder.result(call);
  builder.add(node);
}

std::string refuse_mm(const OpCall& call, const EdgeProgram& edge) {
  return is_constant_matrix(call.tensor("mat2"), edge) ? "" : "its second matrix is no constant";
}

void lower_mm(GraphBuilder& builder, const OpCall& call) {
  FullyConnected node;
  node.input = builder.value(*call.tensor("self"));
  node.filter = builder.filter(*call.tensor("mat2"), true);
  node.transposed = true;
  node.output = builder.result(call);
  builder.add(node);
}

// ── matmul, bmm ──

// Axes before the last two: equal, or 1 on one side.
bool batches_broadcast(const TensorMeta& a, const TensorMeta& b) {
  for (int64_t i = 3; i <= std::min(a.dim(), b.dim()); ++i) {
    const Expr& x = a.sizes[static_cast<size_t>(a.dim() - i)];
    const Expr& y = b.sizes[static_cast<size_t>(b.dim() - i)];
    if (!(x == y) && !(x == Expr(1)) && !(y == Expr(1))) {
      return false;
    }
  }
  return true;
}

std::string refuse_product(const exporters::Value& a, const exporters::Value& b) {
  if (a.meta().dim() < 2 || b.meta().dim() < 2) {
    return "an operand has fewer than two axes";
  }
  return batches_broadcast(a.meta(), b.meta()) ? "" : "it is not known how the batches meet";
}

std::string refuse_matmul(const OpCall& call, const EdgeProgram&) {
  return refuse_product(*call.tensor("self"), *call.tensor("other"));
}

std::string refuse_bmm(const OpCall& call, const EdgeProgram&) {
  return refuse_product(*call.tensor("self"), *call.tensor("mat2"));
}

void lower_product(GraphBuilder& builder, const OpCall& call, const exporters::Value& a, const exporters::Value& b) {
  if (is_constant_matrix(&b, builder.edge())) {
    FullyConnected node;
    node.input = builder.value(a);
    node.filter = builder.filter(b, true);
    node.transposed = true;
    node.output = builder.result(call);
    builder.add(node);
    return;
  }
  BinaryNode node;
  node.a = builder.value(a);
  const exporters::Value* source = builder.transposed_source(b);
  node.op = source == nullptr ? Binary::kBatchMatmul : Binary::kBatchMatmulTransposed;
  node.b = builder.value(source == nullptr ? b : *source);
  node.output = builder.result(call);
  builder.add(node);
}

void lower_matmul(GraphBuilder& builder, const OpCall& call) {
  lower_product(builder, call, *call.tensor("self"), *call.tensor("other"));
}

void lower_bmm(GraphBuilder& builder, const OpCall& call) {
  lower_product(builder, call, *call.tensor("self"), *call.tensor("mat2"));
}

}  // namespace

std::span<const NodeLowering> matrix_lowerings() {
  static constexpr auto kTable = std::to_array<NodeLowering>({
      {"aten.linear.default", refuse_linear, lower_linear, true},
      {"aten.addmm.default", refuse_addmm, lower_addmm, true},
      {"aten.mm.default", refuse_mm, lower_mm, true},
      {"aten.matmul.default", refuse_matmul, lower_matmul, true},
      {"aten.bmm.default", refuse_bmm, lower_bmm, true},
  });
  return kTable;
}

}  // namespace exporters::executorch::xnnpack
