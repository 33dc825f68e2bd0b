// Activations and softmax.
#include "exporters/onnx/translations/table.h"

#include <cmath>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

OnnxValue self(const OpCall& call) { return call.operand("self", Context::compute_dtype(call.result().dtype)); }

OnnxValue mul(Context& context, const OnnxValue& a, const OnnxValue& b) {
  return context.emit_pointwise("Mul", {a, b});
}
OnnxValue add(Context& context, const OnnxValue& a, const OnnxValue& b) {
  return context.emit_pointwise("Add", {a, b});
}

OnnxValues aten_relu(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  if (c10::isFloatingType(x.dtype)) {
    return {context.emit_pointwise("Relu", {x})};
  }
  const OnnxValue wide = x.dtype == c10::kShort ? context.cast(x, c10::kInt) : x;
  return {context.emit_pointwise("Max", {wide, context.constant(int64_t{0}, wide.dtype)})};
}

OnnxValues aten_gelu_20(Context& context, const OpCall& call) {
  return {context.emit_pointwise("Gelu", {self(call)}, {{"approximate", call.string("approximate")}})};
}

OnnxValues aten_gelu(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const OnnxValue half = mul(context, x, context.constant(0.5, x.dtype));
  OnnxValue inner;
  if (call.string("approximate") == "tanh") {
    const OnnxValue cube = mul(context, mul(context, x, x), x);
    const OnnxValue sum = add(context, x, mul(context, cube, context.constant(0.044715, x.dtype)));
    inner = context.emit_pointwise("Tanh", {mul(context, sum, context.constant(std::sqrt(2.0 / M_PI), x.dtype))});
  } else {
    inner = context.emit_pointwise("Erf", {mul(context, x, context.constant(std::sqrt(0.5), x.dtype))});
  }
  return {mul(context, half, add(context, inner, context.constant(1.0, x.dtype)))};
}

template <OpName kOp>
OnnxValues aten_activation(Context& context, const OpCall& call) {
  return {context.emit_pointwise(kOp.str(), {self(call)})};
}

OnnxValues aten_silu(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {mul(context, x, context.emit_pointwise("Sigmoid", {x}))};
}

OnnxValues aten_log_sigmoid(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {context.emit_pointwise("Neg", {context.emit_pointwise("Softplus", {context.emit_pointwise("Neg", {x})})})};
}

OnnxValues aten_softplus(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const double beta = call.floating("beta");
  const OnnxValue scaled = beta == 1.0 ? x : mul(context, x, context.constant(beta, x.dtype));
  OnnxValue soft = context.emit_pointwise("Softplus", {scaled});
  if (beta != 1.0) {
    soft = context.emit_pointwise("Div", {soft, context.constant(beta, x.dtype)});
  }
  const OnnxValue linear =
      context.emit_pointwise("Greater", {scaled, context.constant(call.floating("threshold"), x.dtype)});
  return {context.where(linear, x, soft)};
}

OnnxValues aten_leaky_relu(Context& context, const OpCall& call) {
  return {context.emit_pointwise("LeakyRelu", {self(call)}, {{"alpha", call.floating("negative_slope")}})};
}

// scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1))
OnnxValues aten_elu(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const double scale = call.floating("scale");
  const double input_scale = call.floating("input_scale");
  if (scale == 1.0 && input_scale == 1.0) {
    return {context.emit_pointwise("Elu", {x}, {{"alpha", call.floating("alpha")}})};
  }
  const OnnxValue negative = context.emit_pointwise("Elu", {mul(context, x, context.constant(input_scale, x.dtype))},
                                                    {{"alpha", call.floating("alpha")}});
  const OnnxValue positive = context.emit_pointwise("Greater", {x, context.constant(0.0, x.dtype)});
  return {mul(context, context.where(positive, x, negative), context.constant(scale, x.dtype))};
}

OnnxValues aten_celu(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const double alpha = call.floating("alpha");
  const OnnxValue negative = context.emit_pointwise(
      "Elu", {context.emit_pointwise("Div", {x, context.constant(alpha, x.dtype)})}, {{"alpha", alpha}});
  return {context.where(context.emit_pointwise("Greater", {x, context.constant(0.0, x.dtype)}), x, negative)};
}

OnnxValues aten_selu(Context& context, const OpCall& call) { return {context.emit_pointwise("Selu", {self(call)})}; }

OnnxValues aten_hardtanh(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const OnnxValue low = context.emit_pointwise("Max", {x, call.operand("min_val", x.dtype)});
  return {context.emit_pointwise("Min", {low, call.operand("max_val", x.dtype)})};
}

OnnxValues aten_relu6(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const OnnxValue low = context.emit_pointwise("Max", {x, context.constant(int64_t{0}, x.dtype)});
  return {context.emit_pointwise("Min", {low, context.constant(int64_t{6}, x.dtype)})};
}

OnnxValues aten_hardsigmoid(Context& context, const OpCall& call) {
  return {context.emit_pointwise("HardSigmoid", {self(call)}, {{"alpha", 1.0 / 6.0}, {"beta", 0.5}})};
}

OnnxValues aten_threshold(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const OnnxValue above = context.emit_pointwise("Greater", {x, call.operand("threshold", x.dtype)});
  return {context.where(above, x, call.operand("value", x.dtype))};
}

OnnxValues aten_softshrink(Context& context, const OpCall& call) {
  const double lambda = call.floating("lambd");
  return {context.emit_pointwise("Shrink", {self(call)}, {{"lambd", lambda}, {"bias", lambda}})};
}

OnnxValues aten_hardshrink(Context& context, const OpCall& call) {
  return {context.emit_pointwise("Shrink", {self(call)}, {{"lambd", call.floating("lambd")}, {"bias", 0.0}})};
}

// One slope, or one for each channel (axis 1).
OnnxValues aten_prelu(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  OnnxValue slope = call.operand("weight", x.dtype);
  const int64_t rank = call.meta("self").dim();
  if (rank > 2 && call.meta("weight").sizes.at(0) != Expr(1)) {
    std::vector<int64_t> axes;
    for (int64_t axis = 1; axis < rank - 1; ++axis) {
      axes.push_back(axis);
    }
    slope = context.unsqueeze(slope, axes);
  }
  return {context.emit("PRelu", {x, slope})};
}

OnnxValues aten_glu(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const TensorMeta& meta = call.meta("self");
  const int64_t axis = call.dim("dim", meta.dim());
  const Expr half = call.result().sizes.at(static_cast<size_t>(axis));
  const OnnxValue zero = context.constant(std::vector<int64_t>{0});
  const OnnxValue first = context.slice(x, axis, zero, context.size(half));
  const OnnxValue second = context.slice(x, axis, context.size(half), context.size(half + half));
  return {mul(context, first, context.emit_pointwise("Sigmoid", {second}))};
}

// ── Softmax ──

// The input may be of another dtype than the result (`dtype` argument): converted first, as torch does.
template <OpName kOp>
OnnxValues aten_softmax(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const int64_t rank = call.meta("self").dim();
  if (rank == 0) {  // one element
    return {context.constant(kOp.str() == "Softmax" ? 1.0 : 0.0, x.dtype)};
  }
  return {context.emit(kOp.str(), {x}, {{"axis", call.dim("dim", rank)}})};
}

// Rows of nothing but -inf give zeros.
OnnxValues aten_safe_softmax(Context& context, const OpCall& call) {
  const OnnxValue softmax = aten_softmax<"Softmax">(context, call).front();
  return {context.where(context.emit("IsNaN", {softmax}), context.constant(0.0, softmax.dtype), softmax)};
}

// ── What inference leaves alone ──

OnnxValues aten_dropout(Context&, const OpCall& call) {
  if (call.has("train") && call.boolean("train") && call.floating("p") > 0.0) {
    call.refuse("the module was traced in training mode: dropout would be live in the exported graph",
                "Call eval() on the module before the export.");
  }
  return {call.tensor("input")};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.relu", 18, aten_relu, "Max Relu"},
    {"aten.relu6", 18, aten_relu6, "Max Min"},
    {"aten.gelu", 18, aten_gelu, "Add Erf Mul Tanh"},
    {"aten.gelu", 20, aten_gelu_20, "Gelu"},
    {"aten.tanh", 18, aten_activation<"Tanh">, "Tanh"},
    {"aten.sigmoid", 18, aten_activation<"Sigmoid">, "Sigmoid"},
    {"aten.silu", 18, aten_silu, "Mul Sigmoid"},
    {"aten.mish", 18, aten_activation<"Mish">, "Mish"},
    {"aten.hardswish", 18, aten_activation<"HardSwish">, "HardSwish"},
    {"aten.hardsigmoid", 18, aten_hardsigmoid, "HardSigmoid"},
    {"aten.hardtanh", 18, aten_hardtanh, "Max Min"},
    {"aten.log_sigmoid", 18, aten_log_sigmoid, "Neg Softplus"},
    {"aten.softplus", 18, aten_softplus, "Div Greater Mul Softplus Where"},
    {"aten.leaky_relu", 18, aten_leaky_relu, "LeakyRelu"},
    {"aten.elu", 18, aten_elu, "Elu Greater Mul Where"},
    {"aten.celu", 18, aten_celu, "Div Elu Greater Where"},
    {"aten.selu", 18, aten_selu, "Selu"},
    {"aten.threshold", 18, aten_threshold, "Greater Where"},
    {"aten.softshrink", 18, aten_softshrink, "Shrink"},
    {"aten.hardshrink", 18, aten_hardshrink, "Shrink"},
    {"aten.prelu", 18, aten_prelu, "PRelu Unsqueeze"},
    {"aten._prelu_kernel", 18, aten_prelu, "PRelu"},
    {"aten.glu", 18, aten_glu, "Mul Sigmoid Slice"},
    {"aten.softmax", 18, aten_softmax<"Softmax">, "Softmax"},
    {"aten._softmax", 18, aten_softmax<"Softmax">, "Softmax"},
    {"aten.special_softmax", 18, aten_softmax<"Softmax">, "Softmax"},
    {"aten._safe_softmax", 18, aten_safe_softmax, "IsNaN Softmax Where"},
    {"aten.log_softmax", 18, aten_softmax<"LogSoftmax">, "LogSoftmax"},
    {"aten._log_softmax", 18, aten_softmax<"LogSoftmax">, "LogSoftmax"},
    {"aten.dropout", 18, aten_dropout, "", "live dropout (training mode)"},
    {"aten.feature_dropout", 18, aten_dropout, "", "live dropout (training mode)"},
    {"aten.alpha_dropout", 18, aten_dropout, "", "live dropout (training mode)"},
};

}  // namespace

std::span<const OnnxTranslationEntry> activation_translations() { return kEntries; }

}  // namespace exporters::onnx
