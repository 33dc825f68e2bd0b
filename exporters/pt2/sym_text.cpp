#include "exporters/pt2/sym_text.h"

#include "exporters/graph/sym_op.h"
#include "exporters/support/error.h"

#include <fmt/format.h>

#include <cmath>

namespace exporters::pt2 {
namespace {

using Kind = Value::Kind;

// The function of torch.utils._sympy.functions or of sympy for an operation, where all operands are integers and where
// one is a float. Operands of float functions are made floats first.
struct Function {
  SymOp op;
  const char* of_ints;
  const char* of_floats;
  bool flips_second = false;  // a - b is a + (-1) * b
};

constexpr Function kFunctions[] = {
    {SymOp::kAdd, "Add", "Add"},
    {SymOp::kSub, "Add", "Add", true},
    {SymOp::kMul, "Mul", "Mul"},
    {SymOp::kFloorDiv, "FloorDiv", nullptr},
    {SymOp::kMod, "PythonMod", nullptr},
    {SymOp::kPow, "PowByNatural", "FloatPow"},
    {SymOp::kTrueDiv, "IntTrueDiv", "FloatTrueDiv"},
    {SymOp::kEq, "Equality", "Equality"},
    {SymOp::kNe, "Unequality", "Unequality"},
    {SymOp::kLt, "StrictLessThan", "StrictLessThan"},
    {SymOp::kLe, "LessThan", "LessThan"},
    {SymOp::kGt, "StrictGreaterThan", "StrictGreaterThan"},
    {SymOp::kGe, "GreaterThan", "GreaterThan"},
    {SymOp::kAnd, "And", nullptr},
    {SymOp::kOr, "Or", nullptr},
    {SymOp::kNot, "Not", nullptr},
    {SymOp::kTrunc, nullptr, "TruncToInt"},
    {SymOp::kToInt, nullptr, "TruncToInt"},
    {SymOp::kFloor, nullptr, "FloorToInt"},
    {SymOp::kCeil, nullptr, "CeilToInt"},
    {SymOp::kMin, "Min", "Min"},
    {SymOp::kMax, "Max", "Max"},
    {SymOp::kAbs, "Abs", "Abs"},
    {SymOp::kToFloat, "ToFloat", nullptr},
    {SymOp::kIte, "Where", "Where"},
};

// The operand itself is the result.
bool is_identity(SymOp op, bool on_floats) {
  switch (op) {
    case SymOp::kPos:
      return true;
    case SymOp::kTrunc:
    case SymOp::kToInt:
    case SymOp::kFloor:
    case SymOp::kCeil:
      return !on_floats;
    case SymOp::kToFloat:
      return on_floats;
    default:
      return false;
  }
}

const Function* find_function(SymOp op) {
  for (const Function& function : kFunctions) {
    if (function.op == op) {
      return &function;
    }
  }
  return nullptr;
}

std::string float_repr(double value) { return fmt::format("Float('{}', precision=53)", value); }

std::string negated(const std::string& text) { return "Mul(Integer(-1), " + text + ")"; }

}  // namespace

const std::string& SymText::of(const Value* value) {
  const auto found = known_.find(value);
  if (found != known_.end()) {
    return found->second;
  }
  std::string text = value->kind() == Kind::kSymInt         ? value->sym().srepr()
                     : find_sym_op(value->node()->target()) ? compute(*value->node())
                                                            : from_data(*value);
  return known_.emplace(value, std::move(text)).first->second;
}

SymText::Operand SymText::operand(const Argument& argument, const Node& node) {
  if (const auto* value = argument.get_if<Value*>()) {
    const Kind kind = (*value)->kind();
    return {of(*value), kind == Kind::kSymFloat ? Type::kFloat : kind == Kind::kSymBool ? Type::kBool : Type::kInt};
  }
  if (const auto* number = argument.get_if<int64_t>()) {
    return {fmt::format("Integer({})", *number), Type::kInt};
  }
  if (const auto* number = argument.get_if<double>(); number != nullptr && std::isfinite(*number)) {
    return {float_repr(*number), Type::kFloat};
  }
  if (const auto* truth = argument.get_if<bool>()) {
    return {*truth ? "true" : "false", Type::kBool};
  }
  throw Error("an operand of an operation on sizes cannot be saved", node.describe());
}

std::string SymText::compute(const Node& node) {
  const SymOp op = find_sym_op(node.target())->op;
  std::vector<Operand> operands;
  bool on_floats = false;
  for (const Argument& argument : node.args()) {
    operands.push_back(operand(argument, node));
    on_floats = on_floats || operands.back().type == Type::kFloat;
  }
  if (is_identity(op, on_floats)) {
    return operands[0].text;
  }
  if (op == SymOp::kNeg) {
    return negated(operands[0].text);
  }
  if (op == SymOp::kSqrt) {
    // torch has a function for the root that torch.export.load does not know.
    const std::string text = on_floats ? operands[0].text : "ToFloat(" + operands[0].text + ")";
    return "FloatPow(" + text + ", " + float_repr(0.5) + ")";
  }
  const Function* function = find_function(op);
  const bool is_junction = op == SymOp::kAnd || op == SymOp::kOr;
  if (is_junction && operands[0].type != Type::kBool) {
    function = nullptr;  // bit by bit
  }
  const char* name = function == nullptr ? nullptr : on_floats ? function->of_floats : function->of_ints;
  if (name == nullptr) {
    throw Error("a .pt2 archive has no expression for this operation on sizes", node.describe());
  }
  std::string text = std::string(name) + "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = operands[i];
    std::string item = on_floats && operand.type == Type::kInt ? "ToFloat(" + operand.text + ")" : operand.text;
    text += (i == 0 ? "" : ", ") + (function->flips_second && i == 1 ? negated(item) : item);
  }
  return text + ")";
}

std::string SymText::from_data(const Value& value) {
  if (value.kind() == Kind::kSymFloat) {
    return fmt::format("Symbol('zuf{}')", next_float_++);
  }
  made_up_.push_back(fmt::format("u{}", next_unbacked_++));
  return fmt::format("Equality(Symbol('{}', integer=True), Integer(1))", made_up_.back());
}

}  // namespace exporters::pt2
