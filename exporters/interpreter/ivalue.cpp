#include "exporters/interpreter/ivalue.h"

#include "exporters/graph/graph.h"
#include "exporters/support/error.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

namespace exporters {
namespace {

c10::IValue wrapped_number(const c10::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

struct ConstantToIValue {
  c10::IValue operator()(std::monostate) const { return {}; }
  c10::IValue operator()(int64_t value) const { return value; }
  c10::IValue operator()(double value) const { return value; }
  c10::IValue operator()(bool value) const { return value; }
  c10::IValue operator()(const std::string& value) const { return value; }
  c10::IValue operator()(const c10::complex<double>& value) const { return value; }
  c10::IValue operator()(c10::ScalarType value) const { return value; }
  c10::IValue operator()(const c10::Device& value) const { return value; }
  c10::IValue operator()(c10::Layout value) const { return value; }
  c10::IValue operator()(c10::MemoryFormat value) const { return value; }
  c10::IValue operator()(const Value* value) const {
    fail("The value '{}' stands where a constant was expected", value->name());
  }
  c10::IValue operator()(const GraphArgument& graph) const {
    fail("The subgraph '{}' stands where a constant was expected", graph.name);
  }
  c10::IValue operator()(const Argument::List&) const { fail("A list stands where a single constant was expected"); }
};

bool is_number(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble();
}

template <typename Element, typename Read>
c10::IValue typed_list(std::vector<c10::IValue>& items, Read read) {
  c10::List<Element> list;
  list.reserve(items.size());
  for (c10::IValue& item : items) {
    list.push_back(read(item));
  }
  return list;
}

c10::IValue number_list(std::vector<c10::IValue>& items) {
  c10::impl::GenericList list(c10::NumberType::get());
  list.reserve(items.size());
  for (c10::IValue& item : items) {
    list.push_back(std::move(item));
  }
  return list;
}

std::optional<at::Tensor> to_optional_tensor(const c10::IValue& value) {
  return value.isNone() ? std::nullopt : std::optional(value.toTensor());
}

}  // namespace

const c10::Type& unwrap_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.containedType(0) : type;
}

c10::IValue convert(c10::IValue value, Conversion conversion) {
  switch (conversion) {
    case Conversion::kNone:
      return value;
    case Conversion::kNumberToTensor:
      return wrapped_number(value.toScalar());
    case Conversion::kNumberToDouble:
      return value.isInt() ? c10::IValue(static_cast<double>(value.toInt())) : value;
    case Conversion::kTensorsToOptional: {
      std::vector<c10::IValue> items;
      for (at::Tensor& tensor : value.toTensorVector()) {
        items.emplace_back(std::move(tensor));
      }
      return pack_list(ListKind::kOptionalTensor, std::move(items));
    }
  }
  return value;
}

Conversion conversion_for(const Value& value, const c10::Type& type) {
  const c10::Type& wanted = unwrap_optional(type);
  switch (wanted.kind()) {
    case c10::TypeKind::TensorType:
      return value.is_tensor() || value.kind() == Value::Kind::kNone ? Conversion::kNone : Conversion::kNumberToTensor;
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return Conversion::kNumberToDouble;
    case c10::TypeKind::ListType:
      return value.kind() == Value::Kind::kTensorList && wanted.containedType(0)->kind() == c10::TypeKind::OptionalType
                 ? Conversion::kTensorsToOptional
                 : Conversion::kNone;
    default:
      return Conversion::kNone;
  }
}

ListKind list_kind_of(const c10::Type& element) {
  using enum c10::TypeKind;
  switch (element.kind()) {
    case IntType:
    case SymIntType:
      return ListKind::kInt;
    case FloatType:
    case SymFloatType:
      return ListKind::kFloat;
    case BoolType:
    case SymBoolType:
      return ListKind::kBool;
    case StringType:
      return ListKind::kString;
    case NumberType:
      return ListKind::kNumber;
    case TensorType:
      return ListKind::kTensor;
    case OptionalType:
      ensure(element.containedType(0)->kind() == TensorType, "Lists of {} cannot be passed to an op", element.str());
      return ListKind::kOptionalTensor;
    default:
      fail("Lists of {} cannot be passed to an op", element.str());
  }
}

c10::IValue pack_list(ListKind kind, std::vector<c10::IValue> items) {
  switch (kind) {
    case ListKind::kInt:
      return typed_list<int64_t>(items, [](const c10::IValue& v) { return v.toInt(); });
    case ListKind::kFloat:
      return typed_list<double>(items, [](const c10::IValue& v) { return v.toScalar().toDouble(); });
    case ListKind::kBool:
      return typed_list<bool>(items, [](const c10::IValue& v) { return v.toBool(); });
    case ListKind::kString:
      return typed_list<std::string>(items, [](const c10::IValue& v) { return v.toStringRef(); });
    case ListKind::kNumber:
      return number_list(items);
    case ListKind::kTensor:
      return typed_list<at::Tensor>(items, [](c10::IValue& v) { return std::move(v).toTensor(); });
    case ListKind::kOptionalTensor:
      return typed_list<std::optional<at::Tensor>>(items, to_optional_tensor);
  }
  fail("A list of an unknown kind");
}

c10::IValue constant_to_ivalue(const Argument& argument, const c10::Type& type) {
  c10::IValue value = argument.visit(ConstantToIValue{});
  if (!is_number(value)) {
    return value;
  }
  switch (unwrap_optional(type).kind()) {
    case c10::TypeKind::TensorType:
      return convert(std::move(value), Conversion::kNumberToTensor);
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return convert(std::move(value), Conversion::kNumberToDouble);
    default:
      return value;
  }
}

}  // namespace exporters
