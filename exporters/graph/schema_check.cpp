#include "exporters/graph/schema_check.h"

#include "exporters/graph/node_check.h"
#include "exporters/graph/op_name.h"
#include "exporters/graph/print.h"
#include "exporters/graph/sym_op.h"
#include "exporters/support/error.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <unordered_map>

namespace exporters {
namespace {

using Kind = Value::Kind;

bool is_value_of(const Argument& argument, std::initializer_list<Kind> kinds) {
  const auto* value = argument.get_if<Value*>();
  return value != nullptr && std::find(kinds.begin(), kinds.end(), (*value)->kind()) != kinds.end();
}

bool is_int(const Argument& argument) { return argument.is<int64_t>() || is_value_of(argument, {Kind::kSymInt}); }

bool is_float(const Argument& argument) {
  return argument.is<double>() || is_int(argument) || is_value_of(argument, {Kind::kSymFloat});
}

bool is_bool(const Argument& argument) { return argument.is<bool>() || is_value_of(argument, {Kind::kSymBool}); }

bool is_scalar(const Argument& argument) {
  return is_float(argument) || is_bool(argument) || argument.is<c10::complex<double>>();
}

// Python's arithmetic ops take a number where the schema says Tensor, and torch.export records it so.
bool is_tensor(const Argument& argument) { return is_value_of(argument, {Kind::kTensor}) || is_scalar(argument); }

using Check = bool (*)(const Argument&);

const std::unordered_map<c10::TypeKind, Check>& checks() {
  using enum c10::TypeKind;
  static const std::unordered_map<c10::TypeKind, Check> table = {
      {TensorType, is_tensor},
      {IntType, is_int},
      {SymIntType, is_int},
      {FloatType, is_float},
      {SymFloatType, is_float},
      {BoolType, is_bool},
      {SymBoolType, is_bool},
      {NumberType, is_scalar},
      {StringType, [](const Argument& a) { return a.is<std::string>(); }},
      {DeviceObjType, [](const Argument& a) { return a.is<c10::Device>(); }},
      {ScalarTypeType, [](const Argument& a) { return a.is<c10::ScalarType>(); }},
      {LayoutType, [](const Argument& a) { return a.is<c10::Layout>(); }},
      {MemoryFormatType, [](const Argument& a) { return a.is<c10::MemoryFormat>(); }},
      {NoneType, [](const Argument& a) { return a.is_none(); }},
      {AnyType, [](const Argument&) { return true; }},
  };
  return table;
}

bool matches(const Argument& argument, const c10::Type& type, bool fixed_length);

bool matches_list(const Argument& argument, const c10::Type& element, bool fixed_length) {
  if (argument.is_list()) {
    return std::all_of(argument.list().begin(), argument.list().end(),
                       [&](const Argument& item) { return matches(item, element, false); });
  }
  if (is_value_of(argument, {Kind::kTensorList})) {
    return element.kind() == c10::TypeKind::TensorType || element.kind() == c10::TypeKind::OptionalType;
  }
  // One number stands for a list of int[2] all of whose elements it is.
  return fixed_length && matches(argument, element, false);
}

bool matches(const Argument& argument, const c10::Type& type, bool fixed_length) {
  if (type.kind() == c10::TypeKind::OptionalType) {
    return argument.is_none() || matches(argument, *type.containedType(0), fixed_length);
  }
  if (type.kind() == c10::TypeKind::ListType) {
    return matches_list(argument, *type.containedType(0), fixed_length);
  }
  const auto check = checks().find(type.kind());
  return check != checks().end() && check->second(argument);
}

const char* kind_name(Kind kind) {
  static constexpr const char* kNames[] = {"Tensor", "SymInt", "SymFloat", "SymBool", "Tensor[]", "None", "Other"};
  return kNames[static_cast<size_t>(kind)];
}

std::string described(const Argument& argument) {
  const auto* value = argument.get_if<Value*>();
  return value == nullptr ? to_text(argument) : fmt::format("'{}' ({})", (*value)->name(), kind_name((*value)->kind()));
}

bool may_be_output(Kind kind, const c10::Type& type) {
  using enum c10::TypeKind;
  switch (type.kind()) {
    case TensorType:
      return kind == Kind::kTensor || kind == Kind::kNone;  // an undefined tensor, as of convolution_backward
    case IntType:
    case SymIntType:
      return kind == Kind::kSymInt;
    case FloatType:
    case SymFloatType:
      return kind == Kind::kSymFloat;
    case BoolType:
    case SymBoolType:
      return kind == Kind::kSymBool;
    case NumberType:
      return kind == Kind::kSymInt || kind == Kind::kSymFloat || kind == Kind::kSymBool;
    case OptionalType:
      return kind == Kind::kNone || may_be_output(kind, *type.containedType(0));
    case ListType:
      return type.containedType(0)->kind() == TensorType ? kind == Kind::kTensorList : kind == Kind::kOther;
    default:
      return kind == Kind::kOther;
  }
}

void check_outputs(const Node& node, const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  ensure_at(node, node.outputs().size() == returns.size(), " has {} outputs, its op gives {}", node.outputs().size(),
            returns.size());
  for (size_t i = 0; i < returns.size(); ++i) {
    const Value& output = *node.output(i);
    if (!may_be_output(output.kind(), *returns[i].real_type())) {
      fail_at(node, " gives a {} in '{}', its op gives a {}", kind_name(output.kind()), output.name(),
              returns[i].type()->str());
    }
  }
}

void check_dispatched(const Node& node) {
  const c10::OperatorHandle op = [&] {
    try {
      return lookup_operator(node.target());
    } catch (const Error& error) {
      throw error.with_context(node.describe());
    }
  }();
  ensure_at(node, op.hasSchema(), ": the op has no schema");
  const c10::FunctionSchema& schema = op.schema();
  const std::vector<const Argument*> bound = bind_arguments(node, schema);
  for (size_t i = 0; i < bound.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    if (bound[i] == nullptr) {
      ensure_at(node, formal.default_value().has_value(), " lacks the argument '{}'", formal.name());
      continue;
    }
    if (!matches(*bound[i], *formal.real_type(), formal.N().has_value())) {
      fail_at(node, " takes {} for '{}', its op takes {}", described(*bound[i]), formal.name(),
              formal.real_type()->str());
    }
  }
  check_outputs(node, schema);
}

void check_sym_op(const Node& node) {
  const auto info = find_sym_op(node.target());
  ensure_at(node, info.has_value(), " is no operation on sizes that a program may have");
  ensure_at(node, node.kwargs().empty() && node.arg_count() == info->operands, " has {} operands instead of {}",
            node.arg_count() + node.kwargs().size(), info->operands);
  for (const Argument& argument : node.args()) {
    if (!is_float(argument) && !is_bool(argument)) {
      fail_at(node, " takes {}, which is no number", described(argument));
    }
  }
  const Kind result = node.value()->kind();
  using Result = SymOpInfo::Result;
  const bool fits = info->result == Result::kBool    ? result == Kind::kSymBool
                    : info->result == Result::kFloat ? result == Kind::kSymFloat
                    : info->result == Result::kInt
                        ? result == Kind::kSymInt
                        : result == Kind::kSymInt || result == Kind::kSymFloat || result == Kind::kSymBool;
  ensure_at(node, fits, " gives a {}, which its operation does not", kind_name(result));
}

void check_higher_order(const Node& node) {
  const bool has_graph = std::any_of(node.args().begin(), node.args().end(), [](const Argument& argument) {
    return argument.is<GraphArgument>() && argument.as<GraphArgument>().graph != nullptr;
  });
  ensure_at(node, has_graph, " is a higher-order op without a subgraph");
}

}  // namespace

void check_call(const Node& node) {
  if (is_higher_order_target(node.target())) {
    check_higher_order(node);
  } else if (is_dispatcher_target(node.target())) {
    check_dispatched(node);
  } else {
    check_sym_op(node);
  }
}

}  // namespace exporters
