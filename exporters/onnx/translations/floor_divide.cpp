#include "exporters/onnx/translations/floor_divide.h"

#include <c10/core/ScalarType.h>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

// quotient - 1 where what is left over has not the divisor's sign.
OnnxValue toward_minus_infinity(Context& context, const OnnxValue& quotient, const OnnxValue& rest,
                                const OnnxValue& divisor) {
  const OnnxValue signs = context.emit_pointwise(
      "Mul", {context.emit_pointwise("Sign", {rest}), context.emit_pointwise("Sign", {divisor})});
  const OnnxValue differ = context.emit_pointwise("Less", {signs, context.constant(int64_t{0}, signs.dtype)});
  return context.emit_pointwise("Sub", {quotient, context.cast(differ, quotient.dtype)});
}

// ONNX divides integers toward zero. Taking Mod off the dividend before the division would be shorter, and runs over
// near the ends of the dtype.
OnnxValue integers(Context& context, const OnnxValue& a, const OnnxValue& b) {
  const OnnxValue quotient = context.emit_pointwise("Div", {a, b});
  if (a.dtype == c10::kByte) {
    return quotient;
  }
  const OnnxValue rest = context.emit_pointwise("Sub", {a, context.emit_pointwise("Mul", {quotient, b})});
  return toward_minus_infinity(context, quotient, rest, b);
}

// The quotient of the exact numbers, as torch's div_floor_floating (c10/util/generic_math.h): 1 // 0.1 is 9, since 0.1
// in binary is a little more, while 1 / 0.1 rounds to 10.
OnnxValue floats(Context& context, const OnnxValue& a, const OnnxValue& b) {
  const OnnxValue plain = context.emit_pointwise("Div", {a, b});
  const OnnxValue rest = context.emit_pointwise("Mod", {a, b}, {{"fmod", 1}});
  const OnnxValue whole =
      context.emit_pointwise("Round", {context.emit_pointwise("Div", {context.emit_pointwise("Sub", {a, rest}), b})});
  const OnnxValue by_zero = context.emit_pointwise("Equal", {b, context.constant(0.0, b.dtype)});
  return context.emit_pointwise("Where", {by_zero, plain, toward_minus_infinity(context, whole, rest, b)});
}

}  // namespace

OnnxValue floor_divide(Context& context, const OnnxValue& a, const OnnxValue& b) {
  return c10::isIntegralType(a.dtype, /*includeBool=*/false) ? integers(context, a, b) : floats(context, a, b);
}

}  // namespace exporters::onnx
