// Comparisons, selection by a condition, tests for special values.
#include "exporters/onnx/translations/table.h"

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

struct Pair {
  OnnxValue a;
  OnnxValue b;
};

// ONNX orders no bools: they compare as numbers.
Pair compared(const OpCall& call, bool ordered) {
  c10::ScalarType dtype = Context::compute_dtype(call.promote({"self", "other"}));
  if (c10::isComplexType(dtype)) {
    call.refuse("complex tensors have no ONNX operators");
  }
  if (ordered && dtype == c10::kBool) {
    dtype = c10::kByte;
  }
  return {call.operand("self", dtype), call.operand("other", dtype)};
}

OnnxValues aten_eq(Context& context, const OpCall& call) {
  const auto [a, b] = compared(call, false);
  return {context.emit_pointwise("Equal", {a, b})};
}
OnnxValues aten_ne(Context& context, const OpCall& call) {
  return {context.emit_pointwise("Not", {aten_eq(context, call).front()})};
}
OnnxValues aten_lt(Context& context, const OpCall& call) {
  const auto [a, b] = compared(call, true);
  return {context.emit_pointwise("Less", {a, b})};
}
OnnxValues aten_le(Context& context, const OpCall& call) {
  const auto [a, b] = compared(call, true);
  return {context.emit_pointwise("LessOrEqual", {a, b})};
}
OnnxValues aten_gt(Context& context, const OpCall& call) {
  const auto [a, b] = compared(call, true);
  return {context.emit_pointwise("Greater", {a, b})};
}
OnnxValues aten_ge(Context& context, const OpCall& call) {
  const auto [a, b] = compared(call, true);
  return {context.emit_pointwise("GreaterOrEqual", {a, b})};
}

OnnxValues aten_where(Context& context, const OpCall& call) {
  if (!call.output().is_tensor()) {
    call.refuse("the form that gives indices is not supported", "Use where with two values, or nonzero.");
  }
  const c10::ScalarType dtype = call.result().dtype;
  return {
      context.where(call.operand("condition", c10::kBool), call.operand("self", dtype), call.operand("other", dtype))};
}

OnnxValues aten_masked_fill(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = call.result().dtype;
  return {context.where(call.operand("mask", c10::kBool), call.operand("value", dtype), call.operand("self", dtype))};
}

bool is_float(const OpCall& call) { return c10::isFloatingType(call.meta("self").dtype); }

OnnxValue all_false(Context& context, const OpCall& call) {
  return context.full(call.result().sizes, context.constant(int64_t{0}, c10::kBool));
}

OnnxValues aten_isnan(Context& context, const OpCall& call) {
  return {is_float(call) ? context.emit_pointwise("IsNaN", {call.tensor("self")}) : all_false(context, call)};
}

OnnxValues aten_isinf(Context& context, const OpCall& call) {
  return {is_float(call) ? context.emit_pointwise("IsInf", {call.tensor("self")}) : all_false(context, call)};
}

OnnxValues aten_isposinf(Context& context, const OpCall& call) {
  return {is_float(call) ? context.emit_pointwise("IsInf", {call.tensor("self")}, {{"detect_negative", 0}})
                         : all_false(context, call)};
}

OnnxValues aten_isneginf(Context& context, const OpCall& call) {
  return {is_float(call) ? context.emit_pointwise("IsInf", {call.tensor("self")}, {{"detect_positive", 0}})
                         : all_false(context, call)};
}

OnnxValues aten_isfinite(Context& context, const OpCall& call) {
  if (!is_float(call)) {
    return {context.full(call.result().sizes, context.constant(int64_t{1}, c10::kBool))};
  }
  const OnnxValue x = call.tensor("self");
  const OnnxValue special =
      context.emit_pointwise("Or", {context.emit_pointwise("IsNaN", {x}), context.emit_pointwise("IsInf", {x})});
  return {context.emit_pointwise("Not", {special})};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.eq", 18, aten_eq, "Equal"},
    {"aten.ne", 18, aten_ne, "Equal Not"},
    {"aten.lt", 18, aten_lt, "Less"},
    {"aten.le", 18, aten_le, "LessOrEqual"},
    {"aten.gt", 18, aten_gt, "Greater"},
    {"aten.ge", 18, aten_ge, "GreaterOrEqual"},
    {"aten.where", 18, aten_where, "Where", "the form that gives indices"},
    {"aten.masked_fill", 18, aten_masked_fill, "Where"},
    {"aten.isnan", 18, aten_isnan, "Expand IsNaN"},
    {"aten.isinf", 18, aten_isinf, "Expand IsInf"},
    {"aten.isposinf", 18, aten_isposinf, "Expand IsInf"},
    {"aten.isneginf", 18, aten_isneginf, "Expand IsInf"},
    {"aten.isfinite", 18, aten_isfinite, "Expand IsInf IsNaN Not Or"},
};

}  // namespace

std::span<const OnnxTranslationEntry> comparison_translations() { return kEntries; }

}  // namespace exporters::onnx
