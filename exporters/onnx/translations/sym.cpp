// Numbers that depend on sizes or data. Integers need no nodes of their own: their expressions are computed where they
// are used. Floats and truth values are 0-d tensors.
#include "exporters/onnx/translations/table.h"

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

// A float where any operand is one, else an integer.
c10::ScalarType number_dtype(const OpCall& call, size_t operands) {
  for (size_t i = 0; i < operands; ++i) {
    const Argument& argument = call.arg(i);
    if (argument.is<double>() || (argument.is_value() && argument.value()->kind() == Value::Kind::kSymFloat)) {
      return c10::kDouble;
    }
  }
  return c10::kLong;
}

template <OpName kOp>
OnnxValues operator_binary(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = number_dtype(call, 2);
  return {context.emit(kOp.str(), {call.operand_of(call.arg(0), dtype), call.operand_of(call.arg(1), dtype)})};
}

OnnxValues operator_ne(Context& context, const OpCall& call) {
  return {context.emit("Not", {operator_binary<"Equal">(context, call).front()})};
}

OnnxValues operator_truediv(Context& context, const OpCall& call) {
  return {
      context.emit("Div", {call.operand_of(call.arg(0), c10::kDouble), call.operand_of(call.arg(1), c10::kDouble)})};
}

template <OpName kOp>
OnnxValues operator_unary(Context& context, const OpCall& call) {
  return {context.emit(kOp.str(), {call.operand_of(call.arg(0), c10::kDouble)})};
}

template <OpName kOp>
OnnxValues operator_logical(Context& context, const OpCall& call) {
  return {
      context.emit(kOp.str(), {call.operand_of(call.arg(0), c10::kBool), call.operand_of(call.arg(1), c10::kBool)})};
}

OnnxValues operator_not(Context& context, const OpCall& call) {
  return {context.emit("Not", {call.operand_of(call.arg(0), c10::kBool)})};
}

OnnxValues sym_float(Context&, const OpCall& call) { return {call.operand_of(call.arg(0), c10::kDouble)}; }

// The value of a tensor of one element as a number: an unbacked symbol gets its source here.
OnnxValues aten_item(Context& context, const OpCall& call) {
  const OnnxValue scalar = context.reshape(call.tensor("self"), call.meta("self").sizes, {});
  const Value& number = call.output();
  if (number.kind() == Value::Kind::kSymInt) {
    if (const auto symbol = number.sym().as_symbol()) {
      context.declare_symbol(*symbol, scalar);
    }
    return {scalar};
  }
  return {context.cast(scalar, number.kind() == Value::Kind::kSymBool ? c10::kBool : c10::kDouble)};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"_operator.add", 18, operator_binary<"Add">, "Add"},
    {"_operator.sub", 18, operator_binary<"Sub">, "Sub"},
    {"_operator.mul", 18, operator_binary<"Mul">, "Mul"},
    {"_operator.pow", 18, operator_binary<"Pow">, "Pow"},
    {"_operator.truediv", 18, operator_truediv, "Div"},
    {"_operator.eq", 18, operator_binary<"Equal">, "Equal"},
    {"_operator.ne", 18, operator_ne, "Equal Not"},
    {"_operator.lt", 18, operator_binary<"Less">, "Less"},
    {"_operator.le", 18, operator_binary<"LessOrEqual">, "LessOrEqual"},
    {"_operator.gt", 18, operator_binary<"Greater">, "Greater"},
    {"_operator.ge", 18, operator_binary<"GreaterOrEqual">, "GreaterOrEqual"},
    {"_operator.and_", 18, operator_logical<"And">, "And"},
    {"_operator.or_", 18, operator_logical<"Or">, "Or"},
    {"_operator.not_", 18, operator_not, "Not"},
    {"_operator.neg", 18, operator_unary<"Neg">, "Neg"},
    {"torch.sym_float", 18, sym_float},
    {"torch.sym_not", 18, operator_not, "Not"},
    {"math.sqrt", 18, operator_unary<"Sqrt">, "Sqrt"},
    {"torch._sym_sqrt", 18, operator_unary<"Sqrt">, "Sqrt"},
    {"aten.item", 18, aten_item},
    {"aten._local_scalar_dense", 18, aten_item},
};

}  // namespace

std::span<const OnnxTranslationEntry> sym_translations() { return kEntries; }

}  // namespace exporters::onnx
