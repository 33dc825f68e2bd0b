// Arithmetic, rounding, bitwise and logical ops on one, two or three operands.
#include "exporters/onnx/translations/floor_divide.h"
#include "exporters/onnx/translations/table.h"

#include <cmath>
#include <limits>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

c10::ScalarType compute(c10::ScalarType dtype) { return Context::compute_dtype(dtype); }
bool is_integer(c10::ScalarType dtype) { return c10::isIntegralType(dtype, /*includeBool=*/false); }

void refuse_complex(const OpCall& call) {
  if (call.output().is_tensor() && c10::isComplexType(call.result().dtype)) {
    call.refuse("complex tensors have no ONNX operators", "Rewrite the computation on real and imaginary parts.");
  }
}

// Kernels of half precision compute with numbers in float32: one that float16 has only as 0, infinity, or with fewer
// digits is not rounded to it. (bfloat16 is computed as float32 throughout.)
bool exceeds_half(const OpCall& call, const char* name) {
  if (!call.has(name) || call.arg(name).is_value()) {
    return false;
  }
  constexpr double kLargest = 65504;
  constexpr double kSmallestNormal = 0x1p-14;
  const double size = std::abs(call.scalar(name).toDouble());
  return size > kLargest || (size > 0 && size < kSmallestNormal);
}

// Both operands in the dtype of the result.
struct Pair {
  OnnxValue a;
  OnnxValue b;
  c10::ScalarType dtype;
};

Pair operands(const OpCall& call, const char* first = "self", const char* second = "other") {
  refuse_complex(call);
  c10::ScalarType dtype = compute(call.result().dtype);
  if (dtype == c10::kHalf && (exceeds_half(call, first) || exceeds_half(call, second) || exceeds_half(call, "alpha"))) {
    dtype = c10::kFloat;
  }
  return {call.operand(first, dtype), call.operand(second, dtype), dtype};
}

OnnxValue scaled_by_alpha(Context& context, const OpCall& call, const OnnxValue& value) {
  const Argument& alpha = call.arg("alpha");
  if (alpha == Argument(int64_t{1}) || alpha == Argument(1.0)) {
    return value;
  }
  return context.emit_pointwise("Mul", {value, call.operand("alpha", value.dtype)});
}

OnnxValues aten_add(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  if (dtype == c10::kBool) {
    return {context.emit_pointwise("Or", {a, b})};
  }
  return {context.emit_pointwise("Add", {a, scaled_by_alpha(context, call, b)})};
}

OnnxValues aten_sub(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  return {context.emit_pointwise("Sub", {a, scaled_by_alpha(context, call, b)})};
}

OnnxValues aten_rsub(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  return {context.emit_pointwise("Sub", {b, scaled_by_alpha(context, call, a)})};
}

OnnxValues aten_mul(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  return {context.emit_pointwise(dtype == c10::kBool ? "And" : "Mul", {a, b})};
}

OnnxValue trunc(Context& context, const OnnxValue& x) {
  const OnnxValue floor = context.emit_pointwise("Floor", {context.emit_pointwise("Abs", {x})});
  return context.emit_pointwise("Mul", {context.emit_pointwise("Sign", {x}), floor});
}

OnnxValues aten_div(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  const bool rounds = call.overload().ends_with("mode") && call.has("rounding_mode");
  if (!rounds) {
    return {context.emit_pointwise("Div", {a, b})};
  }
  if (call.string("rounding_mode") == "floor") {
    return {floor_divide(context, a, b)};
  }
  const OnnxValue quotient = context.emit_pointwise("Div", {a, b});
  return {is_integer(dtype) ? quotient : trunc(context, quotient)};
}

OnnxValues aten_floor_divide(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  return {floor_divide(context, a, b)};
}

OnnxValue remainder(Context& context, const OnnxValue& a, const OnnxValue& b) {
  if (is_integer(a.dtype)) {
    return context.emit_pointwise("Mod", {a, b});
  }
  // fmod has the dividend's sign; where it differs from the divisor's, one divisor more. Exact, unlike a -
  // floor(a/b)*b.
  const OnnxValue m = context.emit_pointwise("Mod", {a, b}, {{"fmod", 1}});
  const OnnxValue zero = context.constant(0.0, a.dtype);
  const OnnxValue nonzero = context.emit_pointwise("Not", {context.emit_pointwise("Equal", {m, zero})});
  const OnnxValue differs = context.emit_pointwise(
      "Xor", {context.emit_pointwise("Less", {m, zero}), context.emit_pointwise("Less", {b, zero})});
  const OnnxValue wrong = context.emit_pointwise("And", {nonzero, differs});
  return context.emit_pointwise("Where", {wrong, context.emit_pointwise("Add", {m, b}), m});
}

OnnxValues aten_remainder(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  return {remainder(context, a, b)};
}

OnnxValues aten_fmod(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  return {context.emit_pointwise("Mod", {a, b}, {{"fmod", 1}})};
}

OnnxValues aten_pow(Context& context, const OpCall& call) {
  refuse_complex(call);
  const c10::ScalarType dtype = compute(call.result().dtype);
  const OnnxValue base = call.operand("self", dtype);
  const Argument& exponent = call.arg("exponent");
  if (exponent == Argument(int64_t{2}) || exponent == Argument(2.0)) {
    return {context.emit_pointwise("Mul", {base, base})};
  }
  if (exponent == Argument(0.5)) {
    return {context.emit_pointwise("Sqrt", {base})};
  }
  // ONNX's Pow takes int32 and int64 only of the integers.
  const bool narrow = is_integer(dtype) && dtype != c10::kInt && dtype != c10::kLong;
  const c10::ScalarType wide = narrow ? c10::kInt : dtype;
  return {context.emit_pointwise("Pow", {context.cast(base, wide), call.operand("exponent", wide)})};
}

OnnxValues aten_maximum(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  if (dtype == c10::kBool) {
    return {context.emit_pointwise("Or", {a, b})};
  }
  const c10::ScalarType wide = dtype == c10::kShort ? c10::kInt : dtype;
  return {context.emit_pointwise("Max", {context.cast(a, wide), context.cast(b, wide)})};
}

OnnxValues aten_minimum(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  if (dtype == c10::kBool) {
    return {context.emit_pointwise("And", {a, b})};
  }
  const c10::ScalarType wide = dtype == c10::kShort ? c10::kInt : dtype;
  return {context.emit_pointwise("Min", {context.cast(a, wide), context.cast(b, wide)})};
}

OnnxValues aten_atan2(Context& context, const OpCall& call) {
  auto [y, x, dtype] = operands(call);
  const OnnxValue zero = context.constant(0.0, dtype);
  const OnnxValue pi = context.constant(M_PI, dtype);
  const OnnxValue base = context.emit_pointwise("Atan", {context.emit_pointwise("Div", {y, x})});
  const OnnxValue left = context.emit_pointwise("Less", {x, zero});
  const OnnxValue below = context.emit_pointwise("Less", {y, zero});
  const OnnxValue shift = context.where(below, context.emit_pointwise("Neg", {pi}), pi);
  const OnnxValue both_zero = context.emit_pointwise(
      "And", {context.emit_pointwise("Equal", {x, zero}), context.emit_pointwise("Equal", {y, zero})});
  const OnnxValue angle = context.where(left, context.emit_pointwise("Add", {base, shift}), base);
  return {context.where(both_zero, zero, angle)};
}

// ── One operand ──

OnnxValue self(const OpCall& call) {
  refuse_complex(call);
  return call.operand("self", compute(call.result().dtype));
}

template <OpName kOp>
OnnxValues aten_unary(Context& context, const OpCall& call) {
  return {context.emit_pointwise(kOp.str(), {self(call)})};
}

// Rounding does nothing to integers, and ONNX's operators refuse them.
template <OpName kOp>
OnnxValues aten_rounding(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {is_integer(x.dtype) ? x : context.emit_pointwise(kOp.str(), {x})};
}

// Neg has no unsigned form: 0 - x wraps as torch does.
OnnxValues aten_neg(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  if (x.dtype == c10::kByte) {
    return {context.emit_pointwise("Sub", {context.constant(int64_t{0}, x.dtype), x})};
  }
  return {context.emit_pointwise("Neg", {x})};
}

OnnxValues aten_rsqrt(Context& context, const OpCall& call) {
  return {context.emit_pointwise("Reciprocal", {context.emit_pointwise("Sqrt", {self(call)})})};
}

OnnxValues aten_square(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {context.emit_pointwise("Mul", {x, x})};
}

// log2, log10, log1p, exp2, expm1: by their definition.
OnnxValues aten_log_base(Context& context, const OpCall& call, double base) {
  const OnnxValue x = self(call);
  return {
      context.emit_pointwise("Div", {context.emit_pointwise("Log", {x}), context.constant(std::log(base), x.dtype)})};
}
OnnxValues aten_log2(Context& context, const OpCall& call) { return aten_log_base(context, call, 2.0); }
OnnxValues aten_log10(Context& context, const OpCall& call) { return aten_log_base(context, call, 10.0); }

OnnxValues aten_exp2(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {context.emit_pointwise("Pow", {context.constant(2.0, x.dtype), x})};
}

// Note [log1p]
// log(1 + x) loses small x. With u = 1 + x rounded, log(u) * x / (u - 1) is right to a few units (Kahan); u = 1 gives
// x, u = inf gives inf.
OnnxValues aten_log1p(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const OnnxValue one = context.constant(1.0, x.dtype);
  const OnnxValue u = context.emit_pointwise("Add", {x, one});
  const OnnxValue plain = context.emit_pointwise("Log", {u});
  const OnnxValue factor = context.emit_pointwise("Div", {x, context.emit_pointwise("Sub", {u, one})});
  const OnnxValue fine = context.emit_pointwise("Mul", {plain, factor});
  const OnnxValue tiny = context.emit_pointwise("Equal", {u, one});
  const OnnxValue infinite = context.emit_pointwise("Equal", {u, context.constant(HUGE_VAL, x.dtype)});
  return {context.where(tiny, x, context.where(infinite, plain, fine))};
}

// As above: (u - 1) * x / log(u) with u = exp(x).
OnnxValues aten_expm1(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const OnnxValue one = context.constant(1.0, x.dtype);
  const OnnxValue u = context.emit_pointwise("Exp", {x});
  const OnnxValue shifted = context.emit_pointwise("Sub", {u, one});
  const OnnxValue fine =
      context.emit_pointwise("Div", {context.emit_pointwise("Mul", {shifted, x}), context.emit_pointwise("Log", {u})});
  const OnnxValue tiny = context.emit_pointwise("Equal", {u, one});
  // Far from zero nothing is lost, and log(u) may be infinite.
  const OnnxValue far =
      context.emit_pointwise("Greater", {context.emit_pointwise("Abs", {x}), context.constant(1.0, x.dtype)});
  return {context.where(tiny, x, context.where(far, shifted, fine))};
}

OnnxValues aten_erfc(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {context.emit_pointwise("Sub", {context.constant(1.0, x.dtype), context.emit_pointwise("Erf", {x})})};
}

OnnxValues aten_trunc(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {is_integer(x.dtype) ? x : trunc(context, x)};
}

OnnxValues aten_frac(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {context.emit_pointwise("Sub", {x, trunc(context, x)})};
}

OnnxValues aten_round_decimals(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  const OnnxValue scale = context.constant(std::pow(10.0, static_cast<double>(call.integer("decimals"))), x.dtype);
  const OnnxValue rounded = context.emit_pointwise("Round", {context.emit_pointwise("Mul", {x, scale})});
  return {context.emit_pointwise("Div", {rounded, scale})};
}

// torch's sign gives 0 for NaN, ONNX's gives NaN.
OnnxValues aten_sign(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  if (x.dtype == c10::kBool) {
    return {x};
  }
  const OnnxValue sign = context.emit_pointwise("Sign", {x});
  if (is_integer(x.dtype)) {
    return {sign};
  }
  return {context.where(context.emit_pointwise("IsNaN", {x}), context.constant(0.0, x.dtype), sign)};
}

OnnxValues aten_clamp(Context& context, const OpCall& call) {
  refuse_complex(call);
  const c10::ScalarType dtype = compute(call.result().dtype);
  const c10::ScalarType wide = dtype == c10::kShort ? c10::kInt : dtype;
  OnnxValue x = call.operand("self", wide);
  // Max before Min: where the bounds cross, torch gives the upper one.
  if (call.has("min")) {
    x = context.emit_pointwise("Max", {x, call.operand("min", wide)});
  }
  if (call.node().target().find("clamp_min") == std::string::npos && call.has("max")) {
    x = context.emit_pointwise("Min", {x, call.operand("max", wide)});
  }
  return {x};
}

OnnxValues aten_clamp_max(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = compute(call.result().dtype);
  const c10::ScalarType wide = dtype == c10::kShort ? c10::kInt : dtype;
  return {context.emit_pointwise("Min", {call.operand("self", wide), call.operand("max", wide)})};
}

// ── Three operands ──

OnnxValue scaled_by_value(Context& context, const OpCall& call, const OnnxValue& x) {
  const Argument& value = call.arg("value");
  if (value == Argument(int64_t{1}) || value == Argument(1.0)) {
    return x;
  }
  return context.emit_pointwise("Mul", {x, call.operand("value", x.dtype)});
}

OnnxValues aten_addcmul(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = compute(call.result().dtype);
  const OnnxValue product =
      context.emit_pointwise("Mul", {call.operand("tensor1", dtype), call.operand("tensor2", dtype)});
  return {context.emit_pointwise("Add", {call.operand("self", dtype), scaled_by_value(context, call, product)})};
}

OnnxValues aten_addcdiv(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = compute(call.result().dtype);
  const OnnxValue quotient =
      context.emit_pointwise("Div", {call.operand("tensor1", dtype), call.operand("tensor2", dtype)});
  return {context.emit_pointwise("Add", {call.operand("self", dtype), scaled_by_value(context, call, quotient)})};
}

OnnxValues aten_lerp(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = compute(call.result().dtype);
  const OnnxValue start = call.operand("self", dtype);
  const OnnxValue step = context.emit_pointwise("Sub", {call.operand("end", dtype), start});
  return {context.emit_pointwise("Add", {start, context.emit_pointwise("Mul", {call.operand("weight", dtype), step})})};
}

// ── Bits and truth ──

template <OpName kBits, OpName kTruth>
OnnxValues aten_bitwise(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  return {context.emit_pointwise(dtype == c10::kBool ? kTruth.str() : kBits.str(), {a, b})};
}

OnnxValues aten_bitwise_not(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  return {context.emit_pointwise(x.dtype == c10::kBool ? "Not" : "BitwiseNot", {x})};
}

template <OpName kOp>
OnnxValues aten_logical(Context& context, const OpCall& call) {
  return {context.emit_pointwise(kOp.str(), {call.operand("self", c10::kBool), call.operand("other", c10::kBool)})};
}

OnnxValues aten_logical_not(Context& context, const OpCall& call) {
  return {context.emit_pointwise("Not", {call.operand("self", c10::kBool)})};
}

// Shifts of signed integers: multiplication and floor division by a power of two.
OnnxValues aten_lshift(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  const OnnxValue power =
      context.emit_pointwise("Pow", {context.constant(int64_t{2}, c10::kLong), context.cast(b, c10::kLong)});
  return {context.emit_pointwise("Mul", {context.cast(a, c10::kLong), power})};
}

OnnxValues aten_rshift(Context& context, const OpCall& call) {
  auto [a, b, dtype] = operands(call);
  const OnnxValue power =
      context.emit_pointwise("Pow", {context.constant(int64_t{2}, c10::kLong), context.cast(b, c10::kLong)});
  return {floor_divide(context, context.cast(a, c10::kLong), power)};
}

OnnxValues aten_nan_to_num(Context& context, const OpCall& call) {
  const OnnxValue x = self(call);
  if (!c10::isFloatingType(x.dtype)) {
    return {x};
  }
  const auto limits = [&](const char* name, double fallback) {
    return call.has(name) ? call.operand(name, x.dtype) : context.constant(fallback, x.dtype);
  };
  const c10::ScalarType dtype = call.result().dtype;
  const double largest = dtype == c10::kHalf       ? 65504.0
                         : dtype == c10::kDouble   ? std::numeric_limits<double>::max()
                         : dtype == c10::kBFloat16 ? 3.3895313892515355e38
                                                   : double{std::numeric_limits<float>::max()};
  const OnnxValue up = context.emit_pointwise("IsInf", {x}, {{"detect_negative", 0}});
  const OnnxValue down = context.emit_pointwise("IsInf", {x}, {{"detect_positive", 0}});
  OnnxValue result = context.where(context.emit_pointwise("IsNaN", {x}), limits("nan", 0.0), x);
  result = context.where(up, limits("posinf", largest), result);
  return {context.where(down, limits("neginf", -largest), result)};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.add", 18, aten_add, "Add Mul Or"},
    {"aten.sub", 18, aten_sub, "Mul Sub"},
    {"aten.rsub", 18, aten_rsub, "Mul Sub"},
    {"aten.mul", 18, aten_mul, "And Mul"},
    {"aten.multiply", 18, aten_mul, "And Mul"},
    {"aten.div", 18, aten_div, "Abs Div Equal Floor Less Mod Mul Round Sign Sub Where"},
    {"aten.true_divide", 18, aten_div, "Div"},
    {"aten.floor_divide", 18, aten_floor_divide, "Div Equal Less Mod Mul Round Sign Sub Where"},
    {"aten.remainder", 18, aten_remainder, "Add And Equal Less Mod Not Where Xor"},
    {"aten.fmod", 18, aten_fmod, "Mod"},
    {"aten.pow", 18, aten_pow, "Mul Pow Sqrt"},
    {"aten.maximum", 18, aten_maximum, "Max Or"},
    {"aten.minimum", 18, aten_minimum, "And Min"},
    {"aten.max.other", 18, aten_maximum, "Max Or"},
    {"aten.min.other", 18, aten_minimum, "And Min"},
    {"aten.atan2", 18, aten_atan2, "Add And Atan Div Equal Less Where"},
    {"aten.abs", 18, aten_unary<"Abs">, "Abs"},
    {"aten.neg", 18, aten_neg, "Neg Sub"},
    {"aten.exp", 18, aten_unary<"Exp">, "Exp"},
    {"aten.exp2", 18, aten_exp2, "Pow"},
    {"aten.expm1", 18, aten_expm1, "Abs Div Equal Exp Greater Log Mul Sub Where"},
    {"aten.log", 18, aten_unary<"Log">, "Log"},
    {"aten.log2", 18, aten_log2, "Div Log"},
    {"aten.log10", 18, aten_log10, "Div Log"},
    {"aten.log1p", 18, aten_log1p, "Add Div Equal Log Mul Sub Where"},
    {"aten.sqrt", 18, aten_unary<"Sqrt">, "Sqrt"},
    {"aten.rsqrt", 18, aten_rsqrt, "Reciprocal Sqrt"},
    {"aten.square", 18, aten_square, "Mul"},
    {"aten.reciprocal", 18, aten_unary<"Reciprocal">, "Reciprocal"},
    {"aten.sin", 18, aten_unary<"Sin">, "Sin"},
    {"aten.cos", 18, aten_unary<"Cos">, "Cos"},
    {"aten.tan", 18, aten_unary<"Tan">, "Tan"},
    {"aten.asin", 18, aten_unary<"Asin">, "Asin"},
    {"aten.acos", 18, aten_unary<"Acos">, "Acos"},
    {"aten.atan", 18, aten_unary<"Atan">, "Atan"},
    {"aten.sinh", 18, aten_unary<"Sinh">, "Sinh"},
    {"aten.cosh", 18, aten_unary<"Cosh">, "Cosh"},
    {"aten.asinh", 18, aten_unary<"Asinh">, "Asinh"},
    {"aten.acosh", 18, aten_unary<"Acosh">, "Acosh"},
    {"aten.atanh", 18, aten_unary<"Atanh">, "Atanh"},
    {"aten.erf", 18, aten_unary<"Erf">, "Erf"},
    {"aten.erfc", 18, aten_erfc, "Erf Sub"},
    {"aten.sign", 18, aten_sign, "IsNaN Sign Where"},
    {"aten.sgn", 18, aten_sign, "IsNaN Sign Where"},
    {"aten.floor", 18, aten_rounding<"Floor">, "Floor"},
    {"aten.ceil", 18, aten_rounding<"Ceil">, "Ceil"},
    {"aten.round.default", 18, aten_rounding<"Round">, "Round"},
    {"aten.round.decimals", 18, aten_round_decimals, "Div Mul Round"},
    {"aten.trunc", 18, aten_trunc, "Abs Floor Mul Sign"},
    {"aten.fix", 18, aten_trunc, "Abs Floor Mul Sign"},
    {"aten.frac", 18, aten_frac, "Abs Floor Mul Sign Sub"},
    {"aten.clamp", 18, aten_clamp, "Max Min"},
    {"aten.clip", 18, aten_clamp, "Max Min"},
    {"aten.clamp_min", 18, aten_clamp, "Max"},
    {"aten.clamp_max", 18, aten_clamp_max, "Min"},
    {"aten.addcmul", 18, aten_addcmul, "Add Mul"},
    {"aten.addcdiv", 18, aten_addcdiv, "Add Div Mul"},
    {"aten.lerp", 18, aten_lerp, "Add Mul Sub"},
    {"aten.nan_to_num", 18, aten_nan_to_num, "IsInf IsNaN Where"},
    {"aten.bitwise_and", 18, aten_bitwise<"BitwiseAnd", "And">, "And BitwiseAnd"},
    {"aten.bitwise_or", 18, aten_bitwise<"BitwiseOr", "Or">, "BitwiseOr Or"},
    {"aten.bitwise_xor", 18, aten_bitwise<"BitwiseXor", "Xor">, "BitwiseXor Xor"},
    {"aten.bitwise_not", 18, aten_bitwise_not, "BitwiseNot Not"},
    {"aten.__and__", 18, aten_bitwise<"BitwiseAnd", "And">, "And BitwiseAnd"},
    {"aten.__or__", 18, aten_bitwise<"BitwiseOr", "Or">, "BitwiseOr Or"},
    {"aten.__xor__", 18, aten_bitwise<"BitwiseXor", "Xor">, "BitwiseXor Xor"},
    {"aten.bitwise_left_shift", 18, aten_lshift, "Mul Pow"},
    {"aten.bitwise_right_shift", 18, aten_rshift, "Div Less Mul Pow Sign Sub"},
    {"aten.__lshift__", 18, aten_lshift, "Mul Pow"},
    {"aten.__rshift__", 18, aten_rshift, "Div Less Mul Pow Sign Sub"},
    {"aten.logical_and", 18, aten_logical<"And">, "And"},
    {"aten.logical_or", 18, aten_logical<"Or">, "Or"},
    {"aten.logical_xor", 18, aten_logical<"Xor">, "Xor"},
    {"aten.logical_not", 18, aten_logical_not, "Not"},
};

}  // namespace

std::span<const OnnxTranslationEntry> elementwise_translations() { return kEntries; }

}  // namespace exporters::onnx
