#include "exporters/interpreter/code_builder.h"

#include "exporters/graph/higher_order.h"
#include "exporters/graph/op_name.h"
#include "exporters/support/error.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

namespace exporters {
namespace {

Instruction::Kind instruction_kind(HigherOrderCall::Kind kind) {
  switch (kind) {
    case HigherOrderCall::Kind::kCond:
      return Instruction::Kind::kCond;
    case HigherOrderCall::Kind::kWhile:
      return Instruction::Kind::kWhile;
    default:
      return Instruction::Kind::kInline;
  }
}

}  // namespace

void CodeBuilder::build() {
  code_.outputs_ = untyped_operands(graph_.outputs());
  for (const Node* node = graph_.output_node()->prev(); node != nullptr; node = node->prev()) {
    if (!node->is_placeholder()) {
      build_call(*node);
    }
  }
  std::reverse(code_.instructions_.begin(), code_.instructions_.end());
  for (const Value* placeholder : graph_.placeholders()) {
    if (!constants_.contains(placeholder)) {
      code_.inputs_.push_back(release_register(placeholder));
    }
  }
}

void CodeBuilder::build_call(const Node& node) {
  Instruction& instruction = code_.instructions_.emplace_back();
  instruction.node = &node;
  for (const Value* output : node.outputs()) {
    instruction.results.push_back(result(*output));
  }
  if (is_higher_order_target(node.target())) {
    return build_higher_order(node, instruction);
  }
  if (is_dispatcher_target(node.target())) {
    return build_dispatched(node, instruction);
  }
  const auto info = find_sym_op(node.target());
  ensure(info.has_value(), "{} cannot be run: it is no operation on sizes", node.describe());
  instruction.kind = Instruction::Kind::kSymOp;
  instruction.sym_op = info->op;
  instruction.operands = untyped_operands(node.args());
}

void CodeBuilder::build_dispatched(const Node& node, Instruction& instruction) {
  instruction.kind = node.target() == "aten.sym_size.int" ? Instruction::Kind::kSize : Instruction::Kind::kOp;
  instruction.op = lookup_operator(node.target());
  const c10::FunctionSchema& schema = instruction.op->schema();
  const std::vector<const Argument*> bound = bind_arguments(node, schema);
  instruction.operands.resize(bound.size());
  // Backwards within the node too: of two uses of a value in one node, the later operand is the last use.
  for (size_t i = bound.size(); i-- > 0;) {
    const c10::Argument& formal = schema.arguments()[i];
    if (bound[i] != nullptr) {
      instruction.operands[i] = operand(*bound[i], *formal.real_type(), formal.N());
    } else {
      ensure(formal.default_value().has_value(), "{} lacks the argument '{}'", node.describe(), formal.name());
      instruction.operands[i].constant = *formal.default_value();
    }
  }
}

void CodeBuilder::build_higher_order(const Node& node, Instruction& instruction) {
  const HigherOrderCall call = read_higher_order(node);
  instruction.kind = instruction_kind(call.kind);
  instruction.carried = call.carried;
  for (const GraphArgument* branch : call.branches) {
    instruction.branches.push_back(std::make_unique<Code>(*branch->graph, Code::Constants{}));
  }
  instruction.operands = untyped_operands(call.operands);
}

std::vector<Operand> CodeBuilder::untyped_operands(const std::vector<Argument>& arguments) {
  std::vector<Operand> operands(arguments.size());
  for (size_t i = arguments.size(); i-- > 0;) {
    operands[i] = untyped_operand(arguments[i]);
  }
  return operands;
}

Operand CodeBuilder::untyped_operand(const Argument& argument) {
  if (const auto* value = argument.get_if<Value*>()) {
    return value_operand(*value, Conversion::kNone);
  }
  Operand result;
  result.constant = constant_to_ivalue(argument, *c10::AnyType::get());
  return result;
}

Operand CodeBuilder::operand(const Argument& argument, const c10::Type& type, std::optional<int32_t> fixed_length) {
  const c10::Type& wanted = unwrap_optional(type);
  if (argument.is_list()) {
    ensure(wanted.kind() == c10::TypeKind::ListType, "A list stands where an op takes a {}", wanted.str());
    return list_operand(argument.list(), *wanted.containedType(0));
  }
  const auto* value = argument.get_if<Value*>();
  const bool is_list_value = value != nullptr && (*value)->kind() == Value::Kind::kTensorList;
  if (wanted.kind() == c10::TypeKind::ListType && !argument.is_none() && !is_list_value) {
    // One number for int[2]: a list of that number.
    return list_operand(Argument::List(fixed_length.value_or(1), argument), *wanted.containedType(0));
  }
  if (value != nullptr) {
    return value_operand(*value, conversion_for(**value, type));
  }
  Operand result;
  result.constant = constant_to_ivalue(argument, type);
  return result;
}

Operand CodeBuilder::list_operand(const Argument::List& items, const c10::Type& element) {
  Operand result;
  result.list_kind = list_kind_of(element);
  result.items.resize(items.size());
  bool constant = true;
  for (size_t i = items.size(); i-- > 0;) {
    result.items[i] = operand(items[i], element, std::nullopt);
    constant = constant && result.items[i].kind == Operand::Kind::kConstant;
  }
  if (!constant) {
    result.kind = Operand::Kind::kList;
    return result;
  }
  std::vector<c10::IValue> values;
  for (Operand& item : result.items) {
    values.push_back(std::move(item.constant));
  }
  result.items.clear();
  result.constant = pack_list(result.list_kind, std::move(values));
  return result;
}

Operand CodeBuilder::value_operand(const Value* value, Conversion conversion) {
  Operand result;
  result.conversion = conversion;
  if (const auto fixed = constants_.find(value); fixed != constants_.end()) {
    result.constant = convert(fixed->second, conversion);
    return result;
  }
  result.kind = Operand::Kind::kRegister;
  result.last_use = !registers_.contains(value);
  result.index = take_register(value);
  return result;
}

Result CodeBuilder::result(const Value& value) {
  Result result;
  result.index = release_register(&value);
  for (const Value* element : value.elements()) {
    result.elements.push_back(release_register(element));
  }
  return result;
}

uint32_t CodeBuilder::take_register(const Value* value) {
  if (const auto known = registers_.find(value); known != registers_.end()) {
    return known->second;
  }
  uint32_t index = code_.register_count_;
  if (free_.empty()) {
    ++code_.register_count_;
  } else {
    index = free_.back();
    free_.pop_back();
  }
  registers_.emplace(value, index);
  return index;
}

// Before its definition a value needs no register. The operands of the instruction that defines it are read before its
// result is written, so they may have the same register.
uint32_t CodeBuilder::release_register(const Value* value) {
  const auto known = registers_.find(value);
  if (known == registers_.end()) {
    return Result::kUnused;
  }
  free_.push_back(known->second);
  return known->second;
}

}  // namespace exporters
