#include "exporters/executorch/emit/value_table.h"

#include "exporters/graph/node_check.h"

#include <cmath>

namespace exporters::executorch {

// ── Plain values ──

int32_t PlainValues::none() {
  if (!none_) {
    none_ = method_.add(std::monostate());
  }
  return *none_;
}

int32_t PlainValues::boolean(bool value) {
  const auto [place, is_new] = booleans_.try_emplace(value);
  if (is_new) {
    place->second = method_.add(value);
  }
  return place->second;
}

int32_t PlainValues::integer(int64_t value) {
  const auto [place, is_new] = integers_.try_emplace(value);
  if (is_new) {
    place->second = method_.add(value);
  }
  return place->second;
}

int32_t PlainValues::real(double value) {
  if (std::isnan(value)) {
    return method_.add(value);  // no key of a map
  }
  const auto [place, is_new] = reals_.try_emplace(value);
  // 0.0 and -0.0 are one key.
  if (!is_new && std::signbit(place->first) != std::signbit(value)) {
    return method_.add(value);
  }
  if (is_new) {
    place->second = method_.add(value);
  }
  return place->second;
}

int32_t PlainValues::text(std::string value) { return method_.add(std::move(value)); }

int32_t PlainValues::constant(const Argument& argument) {
  if (const auto* truth = argument.get_if<bool>()) {
    return boolean(*truth);
  }
  if (const auto* number = argument.get_if<int64_t>()) {
    return integer(*number);
  }
  const auto* number = argument.get_if<double>();
  return number != nullptr ? real(*number) : none();
}

// ── Values of a graph ──

TensorValue largest_tensor(const EdgeProgram& edge, const Value& value, std::string name) {
  const ShapeDynamism dynamism = is_static(value.meta()) ? ShapeDynamism::kStatic : ShapeDynamism::kBounded;
  return tensor_value(value.meta().dtype, edge.bounds().sizes(value), dynamism, std::move(name));
}

int32_t ValueTable::index(const Value& value) {
  const auto known = indices_.find(&value);
  if (known != indices_.end()) {
    return known->second;
  }
  const StateTensor* state = edge_.constant(value);
  ensure_at(*value.node(), state != nullptr, " is used before it is computed");
  TensorValue tensor = largest_tensor(edge_, value);
  tensor.constant = program_.add_constant(bytes_of(*state));
  return indices_[&value] = method_.add(std::move(tensor));
}

int32_t ValueTable::index(const Argument& argument) {
  const auto* value = argument.get_if<Value*>();
  return value != nullptr ? index(**value) : plain_.constant(argument);
}

int32_t ValueTable::add_result(const Value& value) {
  int32_t index = 0;
  switch (value.kind()) {
    case Value::Kind::kTensor:
      index = method_.add(largest_tensor(edge_, value));
      break;
    case Value::Kind::kTensorList: {
      TensorList list;
      for (const Value* element : value.elements()) {
        list.values.push_back(add_result(*element));
      }
      index = method_.add(std::move(list));
      break;
    }
    case Value::Kind::kSymInt:
      index = method_.add(int64_t{0});
      break;
    case Value::Kind::kSymFloat:
      index = method_.add(0.0);
      break;
    case Value::Kind::kSymBool:
      index = method_.add(false);
      break;
    default:
      fail_at(*value.node(), " gives a value that ExecuTorch does not have");
  }
  bind(value, index);
  return index;
}

int32_t ValueTable::integers(const Node& node, const Argument& list) {
  IntList result;
  for (const Argument& item : list.list()) {
    result.values.push_back(scalar(node, item, *c10::IntType::get()));
  }
  return method_.add(std::move(result));
}

// ── Arguments ──

int32_t ValueTable::scalar(const Node& node, const Argument& argument, const c10::Type& type) {
  const bool wants_real = type.kind() == c10::TypeKind::FloatType;
  const bool wants_bool = type.kind() == c10::TypeKind::BoolType;
  if (const auto* value = argument.get_if<Value*>()) {
    return index(**value);
  }
  if (const auto* truth = argument.get_if<bool>()) {
    return wants_real ? plain_.real(*truth ? 1 : 0) : plain_.boolean(*truth);
  }
  if (const auto* integer = argument.get_if<int64_t>()) {
    return wants_real   ? plain_.real(static_cast<double>(*integer))
           : wants_bool ? plain_.boolean(*integer != 0)
                        : plain_.integer(*integer);
  }
  if (const auto* real_number = argument.get_if<double>()) {
    return plain_.real(*real_number);
  }
  if (const auto* words = argument.get_if<std::string>()) {
    return plain_.text(*words);
  }
  if (const auto* dtype = argument.get_if<c10::ScalarType>()) {
    return plain_.integer(static_cast<int64_t>(*dtype));
  }
  if (const auto* layout = argument.get_if<c10::Layout>()) {
    return plain_.integer(static_cast<int64_t>(*layout));
  }
  if (const auto* format = argument.get_if<c10::MemoryFormat>()) {
    // Every tensor is dense and row-major, whatever the model asked for.
    return *format == c10::MemoryFormat::Preserve ? plain_.none()
                                                  : plain_.integer(static_cast<int64_t>(c10::MemoryFormat::Contiguous));
  }
  if (argument.is<c10::Device>()) {
    return plain_.none();
  }
  fail_at(node, " has an argument of a kind that ExecuTorch does not have");
}

int32_t ValueTable::tensor_list(const Node& node, const Argument& argument, bool is_optional) {
  std::vector<int32_t> items;
  if (const auto* value = argument.get_if<Value*>()) {  // a list that another call gave
    for (const Value* element : (*value)->elements()) {
      items.push_back(index(*element));
    }
  } else {
    for (const Argument& item : argument.list()) {
      ensure_at(node, item.is_value() || (is_optional && item.is_none()),
                " has a list with something else than tensors");
      items.push_back(item.is_none() ? -1 : index(*item.value()));
    }
  }
  return is_optional ? method_.add(OptionalTensorList{std::move(items)}) : method_.add(TensorList{std::move(items)});
}

int32_t ValueTable::number_list(const Node& node, const Argument& argument, const c10::Type& element,
                                std::optional<int32_t> count) {
  Argument::List items = argument.is_list() ? argument.list() : Argument::List{argument};
  if (count && items.size() == 1) {
    items.resize(static_cast<size_t>(*count), items.front());  // one number for every axis
  }
  if (element.kind() == c10::TypeKind::IntType) {
    return integers(node, Argument(std::move(items)));
  }
  DoubleList reals;
  BoolList truths;
  for (const Argument& item : items) {
    const auto* real = item.get_if<double>();
    const auto* integer = item.get_if<int64_t>();
    const auto* truth = item.get_if<bool>();
    ensure_at(node, real != nullptr || integer != nullptr || truth != nullptr, " has a symbolic number in a list");
    reals.items.push_back(real != nullptr ? *real : integer != nullptr ? static_cast<double>(*integer) : *truth);
    truths.items.push_back(truth != nullptr && *truth);
  }
  return element.kind() == c10::TypeKind::BoolType ? method_.add(std::move(truths)) : method_.add(std::move(reals));
}

int32_t ValueTable::default_value(const c10::Argument& formal, const Node& node) {
  const auto& value = formal.default_value();
  if (!value || value->isNone()) {
    return plain_.none();
  }
  if (value->isBool()) {
    return plain_.boolean(value->toBool());
  }
  if (value->isInt()) {
    return plain_.integer(value->toInt());
  }
  if (value->isDouble()) {
    return plain_.real(value->toDouble());
  }
  if (value->isString()) {
    return plain_.text(value->toStringRef());
  }
  if (value->isIntList()) {
    return method_.add_ints(value->toIntVector());
  }
  fail_at(node, " leaves '{}' to a default that ExecuTorch does not have", formal.name());
}

int32_t ValueTable::argument(const Node& node, const Argument* argument, const c10::Argument& formal) {
  if (argument == nullptr) {
    return default_value(formal, node);
  }
  if (argument->is_none()) {
    return plain_.none();
  }
  c10::TypePtr type = formal.type();
  if (const auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  if (type->kind() == c10::TypeKind::TensorType) {
    ensure_at(node, argument->is_value(), " has a number for '{}', where its kernel takes a tensor", formal.name());
    return index(*argument->value());
  }
  if (const auto list = type->cast<c10::ListType>()) {
    const c10::TypePtr element = list->getElementType();
    if (element->kind() == c10::TypeKind::TensorType) {
      return tensor_list(node, *argument, false);
    }
    if (element->kind() == c10::TypeKind::OptionalType) {
      return tensor_list(node, *argument, true);
    }
    return number_list(node, *argument, *element, formal.N());
  }
  return scalar(node, *argument, *type);
}

}  // namespace exporters::executorch
