// Reductions over the last axis. XNNPACK's blobs have none but the softmax; a sum of an axis of fixed length is a
// product with a row of ones.
#include "exporters/executorch/xnnpack/graph_builder.h"

#include <ATen/ops/full.h>

#include <array>

namespace exporters::executorch::xnnpack {
namespace {

bool is_last_axis(int64_t axis, int64_t rank) { return axis == -1 || axis == rank - 1; }

std::optional<int64_t> last_size(const exporters::Value& value) {
  return value.meta().dim() == 0 ? std::nullopt : value.meta().sizes.back().as_int();
}

// ── softmax ──

std::string refuse_softmax(const OpCall& call, const EdgeProgram&) {
  const auto axis = call.integer("dim");
  return axis && is_last_axis(*axis, call.result().dim()) ? "" : "a softmax over another axis than the last";
}

void lower_softmax(GraphBuilder& builder, const OpCall& call) {
  builder.add(UnaryNode{Unary::kSoftmax, builder.value(*call.tensor("self")), builder.result(call)});
}

// ── mean, sum ──

std::string refuse_reduction(const OpCall& call, const EdgeProgram& edge) {
  const auto dims = call.integers("dim");
  const exporters::Value& self = *call.tensor("self");
  if (!dims || dims->size() != 1 || !is_last_axis((*dims)[0], self.meta().dim())) {
    return "it reduces other axes than the last";
  }
  if (!last_size(self)) {
    return "the axis that it reduces is of no fixed length";
  }
  const int64_t open = symbolic_axes(call.result());
  (void)edge;
  return call.boolean("keepdim") || open <= 1 ? "" : "it drops an axis and leaves more than one size open";
}

// factor * the sum of each row: [..., n] → [..., 1]
uint32_t row_sums(GraphBuilder& builder, const exporters::Value& like, uint32_t input, double factor, uint32_t output) {
  FullyConnected node;
  node.input = input;
  node.filter = builder.constant(at::full({1, *last_size(like)}, factor, at::kFloat));
  node.output = output;
  builder.add(node);
  return output;
}

uint32_t one_for_each_row(GraphBuilder& builder, const exporters::Value& like) {
  std::vector<uint32_t> dims = builder.dims(like);
  dims.back() = 1;
  return builder.temporary(like.meta(), std::move(dims));
}

void reduce(GraphBuilder& builder, const OpCall& call, double factor) {
  const exporters::Value& self = *call.tensor("self");
  const uint32_t input = builder.value(self);
  if (call.boolean("keepdim")) {
    row_sums(builder, self, input, factor, builder.result(call));
    return;
  }
  const uint32_t column = row_sums(builder, self, input, factor, one_for_each_row(builder, self));
  std::vector<uint32_t> shape;
  for (const Expr& size : call.result().sizes) {
    shape.push_back(static_cast<uint32_t>(size.as_int().value_or(0)));
  }
  builder.add(Reshape{std::move(shape), column, builder.result(call)});
}

void lower_mean(GraphBuilder& builder, const OpCall& call) {
  reduce(builder, call, 1.0 / static_cast<double>(*last_size(*call.tensor("self"))));
}

void lower_sum(GraphBuilder& builder, const OpCall& call) { reduce(builder, call, 1.0); }

// ── layer norm ──

bool is_constant_row(const exporters::Value* value, const EdgeProgram& edge) {
  return value == nullptr || (value->meta().dim() == 1 && edge.constant(*value) != nullptr);
}

std::string refuse_layer_norm(const OpCall& call, const EdgeProgram& edge) {
  const auto axes = call.integers("normalized_shape");
  if (!axes || axes->size() != 1 || !last_size(*call.tensor("input"))) {
    return "it normalizes more than the last axis";
  }
  if (call.node().output(1)->has_users() || call.node().output(2)->has_users()) {
    return "its statistics are used";
  }
  return is_constant_row(call.tensor("weight"), edge) && is_constant_row(call.tensor("bias"), edge)
             ? ""
             : "its weight or bias is no constant";
}

void lower_layer_norm(GraphBuilder& builder, const OpCall& call) {
  const exporters::Value& self = *call.tensor("input");
  const double share = 1.0 / static_cast<double>(*last_size(self));
  const uint32_t x = builder.value(self);
  const auto binary = [&](Binary op, uint32_t a, uint32_t b, uint32_t out) {
    builder.add(BinaryNode{op, a, b, out});
    return out;
  };
  const uint32_t mean = row_sums(builder, self, x, share, one_for_each_row(builder, self));
  const uint32_t centered = binary(Binary::kSubtract, x, mean, builder.temporary(self));
  const uint32_t square = builder.temporary(self);
  builder.add(UnaryNode{Unary::kSquare, centered, square});
  const uint32_t variance = row_sums(builder, self, square, share, one_for_each_row(builder, self));
  const uint32_t shifted =
      binary(Binary::kAdd, variance, builder.number(*call.number("eps")), one_for_each_row(builder, self));
  const uint32_t scale = one_for_each_row(builder, self);
  builder.add(UnaryNode{Unary::kRsqrt, shifted, scale});
  const exporters::Value* weight = call.tensor("weight");
  const exporters::Value* bias = call.tensor("bias");
  const auto next = [&](bool is_last) { return is_last ? builder.result(call) : builder.temporary(self); };
  uint32_t result = binary(Binary::kMultiply, centered, scale, next(weight == nullptr && bias == nullptr));
  if (weight != nullptr) {
    result = binary(Binary::kMultiply, result, builder.value(*weight), next(bias == nullptr));
  }
  if (bias != nullptr) {
    binary(Binary::kAdd, result, builder.value(*bias), next(true));
  }
}

}  // namespace

std::span<const NodeLowering> reduction_lowerings() {
  static constexpr auto kTable = std::to_array<NodeLowering>({
      {"aten._softmax.default", refuse_softmax, lower_softmax, true},
      {"aten.mean.dim", refuse_reduction, lower_mean},
      {"aten.sum.dim_IntList", refuse_reduction, lower_sum},
      {"aten.native_layer_norm.default", refuse_layer_norm, lower_layer_norm, true},
  });
  return kTable;
}

}  // namespace exporters::executorch::xnnpack
