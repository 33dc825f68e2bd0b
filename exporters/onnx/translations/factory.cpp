// Tensors made from sizes and numbers.
#include "exporters/onnx/translations/table.h"

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

OnnxValues filled(Context& context, const OpCall& call, const OnnxValue& scalar) {
  return {context.full(call.result().sizes, scalar)};
}

OnnxValues aten_zeros(Context& context, const OpCall& call) {
  return filled(context, call, context.constant(int64_t{0}, call.result().dtype));
}

OnnxValues aten_ones(Context& context, const OpCall& call) {
  return filled(context, call, context.constant(int64_t{1}, call.result().dtype));
}

OnnxValues aten_full(Context& context, const OpCall& call) {
  return filled(context, call, call.operand("fill_value", call.result().dtype));
}

// fill and its like: a number, or a tensor of one element.
OnnxValues aten_fill(Context& context, const OpCall& call) {
  return filled(context, call, call.operand("value", call.result().dtype));
}

OnnxValues aten_scalar_tensor(Context&, const OpCall& call) { return {call.operand("s", call.result().dtype)}; }

// start + i * step, as torch computes it: integers exactly, floats in double.
OnnxValues aten_arange(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = c10::isIntegralType(call.result().dtype, true) ? c10::kLong : c10::kDouble;
  const OnnxValue steps = context.cast(context.iota(call.result().sizes.at(0)), dtype);
  OnnxValue value = steps;
  if (call.has("step") && call.arg("step") != Argument(int64_t{1}) && call.arg("step") != Argument(1.0)) {
    value = context.emit("Mul", {value, call.operand("step", dtype)});
  }
  if (call.has("start") && call.arg("start") != Argument(int64_t{0}) && call.arg("start") != Argument(0.0)) {
    value = context.emit("Add", {value, call.operand("start", dtype)});
  }
  return {value};
}

// From both ends to the middle, as torch does.
OnnxValues aten_linspace(Context& context, const OpCall& call) {
  const Expr count = call.result().sizes.at(0);
  const OnnxValue start = call.operand("start", c10::kDouble);
  const OnnxValue end = call.operand("end", c10::kDouble);
  const OnnxValue index = context.iota(count);
  const OnnxValue last = context.size_scalar(count - Expr(1));
  const OnnxValue intervals = context.emit("Max", {last, context.constant(int64_t{1})});
  const OnnxValue step =
      context.emit("Div", {context.emit("Sub", {end, start}), context.cast(intervals, c10::kDouble)});
  const auto at = [&](const OnnxValue& i) { return context.emit("Mul", {context.cast(i, c10::kDouble), step}); };
  const OnnxValue forward = context.emit("Add", {start, at(index)});
  const OnnxValue backward = context.emit("Sub", {end, at(context.emit("Sub", {last, index}))});
  const OnnxValue first_half = context.emit("Less", {index, context.size_scalar(floordiv(count, 2))});
  const OnnxValue single = context.emit("LessOrEqual", {last, context.constant(int64_t{0})});
  return {context.where(context.emit("Or", {first_half, single}), forward, backward)};
}

OnnxValues aten_eye(Context& context, const OpCall& call) {
  const OnnxValue rows = context.unsqueeze(context.iota(call.result().sizes.at(0)), {1});
  const OnnxValue columns = context.unsqueeze(context.iota(call.result().sizes.at(1)), {0});
  return {context.emit("Equal", {rows, columns})};
}

template <int kUpper>
OnnxValues aten_triangle(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = call.meta("self").dtype;
  const bool narrow = dtype == c10::kByte || dtype == c10::kChar || dtype == c10::kShort;
  const OnnxValue x = context.cast(call.tensor("self"), narrow ? c10::kInt : Context::compute_dtype(dtype));
  return {context.emit("Trilu", {x, context.size_scalar(call.expr("diagonal"))}, {{"upper", kUpper}})};
}

// Copies are made contiguous by the runtime: what an empty tensor holds is not defined, so zeros.
constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.zeros", 18, aten_zeros, "Concat Expand"},
    {"aten.zeros_like", 18, aten_zeros, "Expand"},
    {"aten.new_zeros", 18, aten_zeros, "Concat Expand"},
    {"aten.zero", 18, aten_zeros, "Expand"},
    {"aten.empty", 18, aten_zeros, "Concat Expand"},
    {"aten.empty_like", 18, aten_zeros, "Expand"},
    {"aten.new_empty", 18, aten_zeros, "Concat Expand"},
    {"aten.empty_strided", 18, aten_zeros, "Concat Expand"},
    {"aten.new_empty_strided", 18, aten_zeros, "Concat Expand"},
    {"aten.ones", 18, aten_ones, "Concat Expand"},
    {"aten.ones_like", 18, aten_ones, "Expand"},
    {"aten.new_ones", 18, aten_ones, "Concat Expand"},
    {"aten.full", 18, aten_full, "Concat Expand"},
    {"aten.full_like", 18, aten_full, "Expand"},
    {"aten.new_full", 18, aten_full, "Concat Expand"},
    {"aten.fill", 18, aten_fill, "Expand"},
    {"aten.scalar_tensor", 18, aten_scalar_tensor},
    {"aten.arange", 18, aten_arange, "Add Mul Range Squeeze"},
    {"aten.linspace", 18, aten_linspace, "Add Cast Div Less LessOrEqual Max Mul Or Range Sub Where"},
    {"aten.eye", 18, aten_eye, "Cast Equal Range Squeeze Unsqueeze"},
    {"aten.tril", 18, aten_triangle<0>, "Trilu"},
    {"aten.triu", 18, aten_triangle<1>, "Trilu"},
};

}  // namespace

std::span<const OnnxTranslationEntry> factory_translations() { return kEntries; }

}  // namespace exporters::onnx
