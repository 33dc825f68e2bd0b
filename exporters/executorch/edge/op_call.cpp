#include "exporters/executorch/edge/op_call.h"

#include "exporters/graph/node_check.h"
#include "exporters/graph/op_name.h"

namespace exporters::executorch {
namespace {

std::optional<double> as_number(const Argument& argument) {
  if (const auto* integer = argument.get_if<int64_t>()) {
    return static_cast<double>(*integer);
  }
  if (const auto* truth = argument.get_if<bool>()) {
    return *truth ? 1 : 0;
  }
  const auto* real = argument.get_if<double>();
  return real != nullptr ? std::optional(*real) : std::nullopt;
}

}  // namespace

OpCall::OpCall(const Node& node)
    : node_(node), schema_(lookup_operator(node.target()).schema()), bound_(bind_arguments(node, schema_)) {}

size_t OpCall::index_of(std::string_view name) const {
  const auto& formals = schema_.arguments();
  for (size_t i = 0; i < formals.size(); ++i) {
    if (formals[i].name() == name) {
      return i;
    }
  }
  fail_at(node_, " has no argument '{}'", name);
}

const Argument* OpCall::given(std::string_view name) const { return bound_[index_of(name)]; }

Value* OpCall::tensor(std::string_view name) const {
  const Argument* argument = given(name);
  const auto* value = argument == nullptr ? nullptr : argument->get_if<Value*>();
  return value != nullptr && (*value)->is_tensor() ? *value : nullptr;
}

std::vector<Value*> OpCall::tensors(std::string_view name) const {
  std::vector<Value*> result;
  if (const Argument* argument = given(name)) {
    argument->for_each_value([&](Value* value) {
      if (value->kind() == Value::Kind::kTensorList) {
        result.insert(result.end(), value->elements().begin(), value->elements().end());
      } else {
        result.push_back(value);
      }
    });
  }
  return result;
}

std::optional<int64_t> OpCall::integer(std::string_view name) const {
  const size_t index = index_of(name);
  if (bound_[index] != nullptr) {
    const auto* integer = bound_[index]->get_if<int64_t>();
    return integer != nullptr ? std::optional(*integer) : std::nullopt;
  }
  const auto& fallback = schema_.arguments()[index].default_value();
  return fallback && fallback->isInt() ? std::optional(fallback->toInt()) : std::nullopt;
}

std::optional<double> OpCall::number(std::string_view name) const {
  const size_t index = index_of(name);
  if (bound_[index] != nullptr) {
    return as_number(*bound_[index]);
  }
  const auto& fallback = schema_.arguments()[index].default_value();
  if (!fallback || !(fallback->isScalar() || fallback->isBool())) {
    return std::nullopt;
  }
  return fallback->isBool() ? (fallback->toBool() ? 1.0 : 0.0) : fallback->toScalar().toDouble();
}

bool OpCall::boolean(std::string_view name) const { return number(name).value_or(0) != 0; }

std::optional<std::vector<int64_t>> OpCall::integers(std::string_view name) const {
  const size_t index = index_of(name);
  std::vector<int64_t> result;
  if (bound_[index] == nullptr) {
    const auto& fallback = schema_.arguments()[index].default_value();
    return fallback && fallback->isIntList() ? fallback->toIntVector() : result;
  }
  const Argument& argument = *bound_[index];
  if (const auto* one = argument.get_if<int64_t>()) {
    return std::vector<int64_t>{*one};
  }
  if (argument.is_none()) {
    return result;
  }
  if (!argument.is_list()) {
    return std::nullopt;
  }
  for (const Argument& item : argument.list()) {
    const auto* integer = item.get_if<int64_t>();
    if (integer == nullptr) {
      return std::nullopt;
    }
    result.push_back(*integer);
  }
  return result;
}

std::string_view OpCall::string(std::string_view name) const {
  const size_t index = index_of(name);
  if (bound_[index] != nullptr) {
    return bound_[index]->as<std::string>();
  }
  const auto& fallback = schema_.arguments()[index].default_value();
  return fallback && fallback->isString() ? std::string_view(fallback->toStringRef()) : std::string_view();
}

bool OpCall::is_none(std::string_view name) const {
  const size_t index = index_of(name);
  if (bound_[index] != nullptr) {
    return bound_[index]->is_none();
  }
  const auto& fallback = schema_.arguments()[index].default_value();
  return !fallback || fallback->isNone();
}

int64_t OpCall::dim(std::string_view name, int64_t rank) const {
  const auto axis = integer(name);
  ensure_at(node_, axis.has_value(), ": '{}' is no plain number", name);
  return *axis < 0 ? *axis + std::max<int64_t>(rank, 1) : *axis;
}

}  // namespace exporters::executorch
