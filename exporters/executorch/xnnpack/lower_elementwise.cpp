// Ops that compute each element on its own.
#include "exporters/executorch/xnnpack/graph_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <unordered_set>
#include <vector>

namespace exporters::executorch::xnnpack {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ── One input ──

template <Unary kOp>
void lower_unary(GraphBuilder& builder, const OpCall& call) {
  builder.add(UnaryNode{kOp, builder.value(*call.tensor("self")), builder.result(call)});
}

constexpr std::string_view kArithmetic[] = {
    "aten.add.Tensor",      "aten.sub.Tensor",  "aten.mul.Tensor",  "aten.div.Tensor", "aten.minimum.default",
    "aten.maximum.default", "aten.neg.default", "aten.abs.default", "aten.where.self", "aten.clamp.default"};
constexpr std::string_view kRoundings[] = {"aten.ceil.default", "aten.floor.default", "aten.round.default",
                                           "aten.trunc.default"};

bool makes_whole(const exporters::Node& node) {
  const bool converts =
      node.is_call("aten._to_copy.default") && c10::isIntegralType(node.output()->meta().dtype, /*includeBool=*/false);
  return converts || std::any_of(std::begin(kRoundings), std::end(kRoundings),
                                 [&](std::string_view target) { return node.is_call(target); });
}

// Whether arithmetic on the value ends in whole numbers.
bool becomes_whole(const exporters::Value& value) {
  std::vector<const exporters::Value*> left = {&value};
  std::unordered_set<const exporters::Value*> seen = {&value};
  while (!left.empty()) {
    const exporters::Value* each = left.back();
    left.pop_back();
    for (const exporters::Node* user : each->users()) {
      if (user->kind() != exporters::Node::Kind::kCall) {
        continue;
      }
      if (makes_whole(*user)) {
        return true;
      }
      const bool is_arithmetic = std::any_of(std::begin(kArithmetic), std::end(kArithmetic),
                                             [&](std::string_view target) { return user->is_call(target); });
      if (is_arithmetic && seen.insert(user->output()).second) {
        left.push_back(user->output());
      }
    }
  }
  return false;
}

// XNNPACK's functions differ from ATen's in the last places. As the number of a bucket (T5's and DeBERTa's relative
// positions are rounded logarithms) that is another row of a table.
std::string refuse_function(const OpCall& call, const EdgeProgram&) {
  return becomes_whole(*call.node().output()) ? "whole numbers are made of it, and XNNPACK's last places differ" : "";
}

void clamp(GraphBuilder& builder, const OpCall& call, double min, double max) {
  const Bounds bounds{static_cast<float>(min), static_cast<float>(max)};
  if (!builder.bound_producer(*call.tensor("self"), call, bounds)) {
    const uint32_t input = builder.value(*call.tensor("self"));
    builder.add(UnaryNode{Unary::kClamp, input, builder.result(call)}, bounds);
  }
}

void lower_relu(GraphBuilder& builder, const OpCall& call) { clamp(builder, call, 0, kInfinity); }

std::string refuse_clamp(const OpCall& call, const EdgeProgram&) {
  const bool known = (call.is_none("min") || call.number("min")) && (call.is_none("max") || call.number("max"));
  if (!known) {
    return "its limits are not known";
  }
  // XNNPACK takes only limits in this order; ATen gives the upper one where they are not.
  const double low = call.number("min").value_or(-kInfinity);
  return low < call.number("max").value_or(kInfinity) ? "" : "its lower limit is not below its upper one";
}

void lower_clamp(GraphBuilder& builder, const OpCall& call) {
  clamp(builder, call, call.number("min").value_or(-kInfinity), call.number("max").value_or(kInfinity));
}

void lower_hardtanh(GraphBuilder& builder, const OpCall& call) {
  clamp(builder, call, *call.number("min_val"), *call.number("max_val"));
}

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))): XNNPACK's own Gelu is the one by erf.
void lower_tanh_gelu(GraphBuilder& builder, const OpCall& call) {
  const exporters::Value& self = *call.tensor("self");
  const uint32_t x = builder.value(self);
  const auto binary = [&](Binary op, uint32_t a, uint32_t b) {
    const uint32_t out = builder.temporary(self);
    builder.add(BinaryNode{op, a, b, out});
    return out;
  };
  const uint32_t square = builder.temporary(self);
  builder.add(UnaryNode{Unary::kSquare, x, square});
  const double factor = std::sqrt(2.0 / std::numbers::pi);
  // sqrt(2/pi) x (1 + 0.044715 x²)
  const uint32_t scaled = binary(Binary::kMultiply, square, builder.number(0.044715 * factor));
  const uint32_t shifted = binary(Binary::kAdd, scaled, builder.number(factor));
  const uint32_t inner = binary(Binary::kMultiply, shifted, x);
  const uint32_t tanh = builder.temporary(self);
  builder.add(UnaryNode{Unary::kTanh, inner, tanh});
  const uint32_t half = binary(Binary::kMultiply, x, builder.number(0.5));
  const uint32_t product = binary(Binary::kMultiply, tanh, half);
  builder.add(BinaryNode{Binary::kAdd, product, half, builder.result(call)});
}

void lower_gelu(GraphBuilder& builder, const OpCall& call) {
  call.string("approximate") == "tanh" ? lower_tanh_gelu(builder, call) : lower_unary<Unary::kGelu>(builder, call);
}

std::string refuse_pow(const OpCall& call, const EdgeProgram&) {
  return call.number("exponent") == 2.0 ? "" : "its exponent is not 2";
}

void lower_leaky_relu(GraphBuilder& builder, const OpCall& call) {
  const auto slope = static_cast<float>(*call.number("negative_slope"));
  const uint32_t input = builder.value(*call.tensor("self"));
  builder.add(LeakyRelu{slope, input, builder.result(call)});
}

std::string refuse_elu(const OpCall& call, const EdgeProgram&) {
  return call.number("scale") == 1.0 && call.number("input_scale") == 1.0 && call.number("alpha").value_or(0) > 0
             ? ""
             : "it scales its input or output";
}

void lower_elu(GraphBuilder& builder, const OpCall& call) {
  const auto alpha = static_cast<float>(*call.number("alpha"));
  const uint32_t input = builder.value(*call.tensor("self"));
  builder.add(Elu{alpha, input, builder.result(call)});
}

void lower_reciprocal(GraphBuilder& builder, const OpCall& call) {
  const uint32_t one = builder.number(1);
  const uint32_t input = builder.value(*call.tensor("self"));
  builder.add(BinaryNode{Binary::kDivide, one, input, builder.result(call)});
}

// ── Two inputs ──

bool is_operand(const OpCall& call, std::string_view name) {
  const exporters::Value* tensor = call.tensor(name);
  return tensor != nullptr ? tensor->meta().dtype == at::kFloat : call.number(name).has_value();
}

std::string refuse_binary(const OpCall& call, const EdgeProgram&) {
  if (!is_operand(call, "self") || !is_operand(call, "other")) {
    return "an operand is neither a float32 tensor nor a known number";
  }
  // Axes that meet: equal, or 1 on one side, as far as is known.
  const exporters::Value* a = call.tensor("self");
  const exporters::Value* b = call.tensor("other");
  if (a == nullptr || b == nullptr) {
    return {};
  }
  for (int64_t i = 1; i <= std::min(a->meta().dim(), b->meta().dim()); ++i) {
    const Expr& x = a->meta().sizes[static_cast<size_t>(a->meta().dim() - i)];
    const Expr& y = b->meta().sizes[static_cast<size_t>(b->meta().dim() - i)];
    if (!(x == y) && !(x == Expr(1)) && !(y == Expr(1))) {
      return "it is not known how its operands broadcast";
    }
  }
  return {};
}

std::string refuse_sum(const OpCall& call, const EdgeProgram& edge) {
  return call.number("alpha") == 1.0 ? refuse_binary(call, edge) : "alpha is not 1";
}

template <Binary kOp>
void lower_binary(GraphBuilder& builder, const OpCall& call) {
  const uint32_t a = builder.operand(call, "self");
  const uint32_t b = builder.operand(call, "other");
  builder.add(BinaryNode{kOp, a, b, builder.result(call)});
}

}  // namespace

std::span<const NodeLowering> elementwise_lowerings() {
  static constexpr auto kTable = std::to_array<NodeLowering>({
      {"aten.add.Tensor", refuse_sum, lower_binary<Binary::kAdd>},
      {"aten.sub.Tensor", refuse_sum, lower_binary<Binary::kSubtract>},
      {"aten.mul.Tensor", refuse_binary, lower_binary<Binary::kMultiply>},
      {"aten.div.Tensor", refuse_binary, lower_binary<Binary::kDivide>},
      {"aten.minimum.default", refuse_binary, lower_binary<Binary::kMinimum>},
      {"aten.maximum.default", refuse_binary, lower_binary<Binary::kMaximum>},
      {"aten.neg.default", nullptr, lower_unary<Unary::kNegate>},
      {"aten.abs.default", nullptr, lower_unary<Unary::kAbs>},
      {"aten.exp.default", refuse_function, lower_unary<Unary::kExp>},
      {"aten.log.default", refuse_function, lower_unary<Unary::kLog>},
      {"aten.sqrt.default", nullptr, lower_unary<Unary::kSqrt>},
      {"aten.rsqrt.default", refuse_function, lower_unary<Unary::kRsqrt>},
      {"aten.sigmoid.default", refuse_function, lower_unary<Unary::kSigmoid>},
      {"aten.tanh.default", refuse_function, lower_unary<Unary::kTanh>},
      {"aten.sin.default", refuse_function, lower_unary<Unary::kSin>},
      {"aten.cos.default", refuse_function, lower_unary<Unary::kCos>},
      {"aten.floor.default", nullptr, lower_unary<Unary::kFloor>},
      {"aten.ceil.default", nullptr, lower_unary<Unary::kCeil>},
      {"aten.reciprocal.default", nullptr, lower_reciprocal},
      {"aten.relu.default", nullptr, lower_relu},
      {"aten.clamp.default", refuse_clamp, lower_clamp},
      {"aten.hardtanh.default", nullptr, lower_hardtanh},
      {"aten.gelu.default", nullptr, lower_gelu},
      {"aten.pow.Tensor_Scalar", refuse_pow, lower_unary<Unary::kSquare>},
      {"aten.leaky_relu.default", nullptr, lower_leaky_relu},
      {"aten.elu.default", refuse_elu, lower_elu},
  });
  return kTable;
}

}  // namespace exporters::executorch::xnnpack
