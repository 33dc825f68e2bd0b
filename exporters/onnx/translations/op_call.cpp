#include "exporters/onnx/translations/op_call.h"

#include "exporters/support/error.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

namespace exporters::onnx {
namespace {

Argument to_argument(const c10::IValue& value);

template <typename List>
Argument list_argument(const List& list) {
  Argument::List items;
  for (const auto& item : list) {
    items.emplace_back(item);
  }
  return items;
}

// Defaults are None, numbers, strings and lists of them.
Argument to_argument(const c10::IValue& value) {
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (value.isIntList()) return list_argument(value.toIntVector());
  if (value.isDoubleList()) return list_argument(value.toDoubleVector());
  return {};
}

struct Parameter {
  std::string name;
  Argument default_value;
};

// The parameters of an op's schema, in order; null for ops without one.
const std::vector<Parameter>* parameters_of(const std::string& target) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<Parameter>> cache;
  const std::lock_guard lock(mutex);
  const auto known = cache.find(target);
  if (known != cache.end()) {
    return &known->second;
  }
  const size_t first = target.find('.');
  const size_t last = target.rfind('.');
  if (first == std::string::npos || first == last) {
    return nullptr;
  }
  const std::string name = target.substr(0, first) + "::" + target.substr(first + 1, last - first - 1);
  const std::string overload = target.substr(last + 1);
  const auto op = c10::Dispatcher::singleton().findSchema({name, overload == "default" ? std::string() : overload});
  if (!op) {
    return nullptr;
  }
  std::vector<Parameter> parameters;
  for (const c10::Argument& argument : op->schema().arguments()) {
    parameters.push_back(
        {argument.name(), argument.default_value() ? to_argument(*argument.default_value()) : Argument()});
  }
  return &cache.emplace(target, std::move(parameters)).first->second;
}

// The argument as given or by default; null when the schema has none of that name.
const Argument* find_argument(const Node& node, std::string_view name) {
  if (const Argument* keyword = node.kwarg(name)) {
    return keyword;
  }
  const std::vector<Parameter>* parameters = parameters_of(node.target());
  if (parameters == nullptr) {
    return nullptr;
  }
  for (size_t i = 0; i < parameters->size(); ++i) {
    if ((*parameters)[i].name == name) {
      return i < node.arg_count() ? &node.arg(i) : &(*parameters)[i].default_value;
    }
  }
  return nullptr;
}

// ATen's result_type: dimensioned tensors decide, 0-d tensors and numbers only where they are of a higher category.
class Promotion {
 public:
  void add_tensor(const TensorMeta& meta) {
    c10::ScalarType& slot = meta.dim() > 0 ? dimensioned_ : zero_dim_;
    slot = slot == c10::ScalarType::Undefined ? meta.dtype : c10::promoteTypes(slot, meta.dtype);
  }
  void add_number(c10::ScalarType dtype) {
    number_ = number_ == c10::ScalarType::Undefined ? dtype : c10::promoteTypes(number_, dtype);
  }
  c10::ScalarType result() const { return combine(dimensioned_, combine(zero_dim_, number_)); }

 private:
  static int category(c10::ScalarType dtype) {
    if (dtype == c10::ScalarType::Undefined) return 0;
    if (dtype == c10::kBool) return 1;
    if (c10::isIntegralType(dtype, false)) return 2;
    return c10::isComplexType(dtype) ? 4 : 3;
  }
  static c10::ScalarType combine(c10::ScalarType higher, c10::ScalarType lower) {
    if (category(higher) >= category(lower)) {
      return higher;
    }
    return higher == c10::ScalarType::Undefined ? lower : c10::promoteTypes(higher, lower);
  }

  c10::ScalarType dimensioned_ = c10::ScalarType::Undefined;
  c10::ScalarType zero_dim_ = c10::ScalarType::Undefined;
  c10::ScalarType number_ = c10::ScalarType::Undefined;
};

c10::ScalarType number_dtype(const Argument& argument) {
  if (argument.is<bool>()) return c10::kBool;
  if (argument.is<double>()) return c10::kFloat;
  if (argument.is_value()) {
    switch (argument.value()->kind()) {
      case Value::Kind::kSymFloat:
        return c10::kFloat;
      case Value::Kind::kSymBool:
        return c10::kBool;
      default:
        return c10::kLong;
    }
  }
  return c10::kLong;
}

bool is_tensor(const Argument& argument) { return argument.is_value() && argument.value()->is_tensor(); }

}  // namespace

Expr to_expr(const Argument& argument) {
  if (const auto* number = argument.get_if<int64_t>()) {
    return *number;
  }
  if (argument.is_value() && argument.value()->kind() == Value::Kind::kSymInt) {
    return argument.value()->sym();
  }
  fail("an argument is not an integer");
}

int64_t wrap_axis(int64_t axis, int64_t rank) {
  const int64_t n = std::max<int64_t>(rank, 1);
  ensure(axis >= -n && axis < n, "axis {} is outside a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + n : axis;
}

OpCall::OpCall(TranslationContext& context, const Node& node) : context_(context), node_(node) {}

std::string_view OpCall::overload() const {
  const std::string_view target = node_.target();
  return target.substr(target.rfind('.') + 1);
}

bool OpCall::has(std::string_view name) const {
  const Argument* argument = find_argument(node_, name);
  return argument != nullptr && !argument->is_none();
}

const Argument& OpCall::arg(std::string_view name) const {
  const Argument* argument = find_argument(node_, name);
  if (argument == nullptr) {
    refuse(fmt::format("it has no argument '{}'", name));
  }
  return *argument;
}

const Argument& OpCall::arg(size_t i) const {
  if (i >= node_.arg_count()) {
    refuse(fmt::format("it has no argument {}", i));
  }
  return node_.arg(i);
}

OnnxValue OpCall::tensor(std::string_view name) const {
  const Argument& argument = arg(name);
  if (!is_tensor(argument)) {
    refuse(fmt::format("argument '{}' is not a tensor", name));
  }
  return context_.value(argument.value());
}

const TensorMeta& OpCall::meta(std::string_view name) const {
  const Argument& argument = arg(name);
  if (!is_tensor(argument)) {
    refuse(fmt::format("argument '{}' is not a tensor", name));
  }
  return argument.value()->meta();
}

OnnxValue OpCall::optional_tensor(std::string_view name) const { return has(name) ? tensor(name) : OnnxValue{}; }

std::vector<const Value*> OpCall::values(std::string_view name) const {
  const Argument& argument = arg(name);
  std::vector<const Value*> values;
  if (argument.is_value()) {
    const auto& elements = argument.value()->elements();
    values.assign(elements.begin(), elements.end());
    return values;
  }
  if (!argument.is_list()) {
    refuse(fmt::format("argument '{}' is not a list of tensors", name));
  }
  for (const Argument& item : argument.list()) {
    values.push_back(item.is_none() ? nullptr : item.value());
  }
  return values;
}

std::vector<OnnxValue> OpCall::tensors(std::string_view name) const {
  std::vector<OnnxValue> tensors;
  for (const Value* value : values(name)) {
    tensors.push_back(value == nullptr ? OnnxValue{} : context_.value(value));
  }
  return tensors;
}

std::vector<const TensorMeta*> OpCall::metas(std::string_view name) const {
  std::vector<const TensorMeta*> metas;
  for (const Value* value : values(name)) {
    metas.push_back(value == nullptr ? nullptr : &value->meta());
  }
  return metas;
}

OnnxValue OpCall::operand_of(const Argument& argument, c10::ScalarType dtype) const {
  if (argument.is_value()) {
    const Value* value = argument.value();
    const OnnxValue source =
        value->kind() == Value::Kind::kSymInt ? context_.size_scalar(value->sym()) : context_.value(value);
    return context_.cast(source, dtype);
  }
  if (const auto* integer = argument.get_if<int64_t>()) return context_.constant(*integer, dtype);
  if (const auto* real = argument.get_if<double>()) return context_.constant(*real, dtype);
  if (const auto* flag = argument.get_if<bool>()) return context_.constant(int64_t{*flag}, dtype);
  refuse("an operand is neither a tensor nor a number");
}

OnnxValue OpCall::operand(std::string_view name, c10::ScalarType dtype) const { return operand_of(arg(name), dtype); }

Sizes OpCall::operand_sizes(std::string_view name) const {
  const Argument& argument = arg(name);
  return is_tensor(argument) ? argument.value()->meta().sizes : Sizes{};
}

c10::ScalarType OpCall::promote(const std::vector<std::string_view>& names) const {
  Promotion promotion;
  for (const std::string_view name : names) {
    const Argument& argument = arg(name);
    if (is_tensor(argument)) {
      promotion.add_tensor(argument.value()->meta());
    } else if (!argument.is_none()) {
      promotion.add_number(number_dtype(argument));
    }
  }
  return promotion.result();
}

int64_t OpCall::integer(std::string_view name) const {
  const auto number = expr(name).as_int();
  if (!number) {
    refuse(fmt::format("argument '{}' is a symbolic size where a fixed number is needed", name),
           "Make the axis static, or register a translation with register_onnx_translation.");
  }
  return *number;
}

std::vector<int64_t> OpCall::integers(std::string_view name) const {
  std::vector<int64_t> numbers;
  for (const Expr& expr : exprs(name)) {
    const auto number = expr.as_int();
    if (!number) {
      refuse(fmt::format("argument '{}' holds a symbolic size where fixed numbers are needed", name),
             "Make the axis static, or register a translation with register_onnx_translation.");
    }
    numbers.push_back(*number);
  }
  return numbers;
}

bool OpCall::boolean(std::string_view name) const {
  const Argument& argument = arg(name);
  const auto* flag = argument.get_if<bool>();
  if (flag == nullptr) {
    const auto* number = argument.get_if<int64_t>();
    if (number == nullptr) {
      refuse(fmt::format("argument '{}' is not a bool", name));
    }
    return *number != 0;
  }
  return *flag;
}

double OpCall::floating(std::string_view name) const { return scalar(name).toDouble(); }

std::string OpCall::string(std::string_view name) const {
  const auto* text = arg(name).get_if<std::string>();
  if (text == nullptr) {
    refuse(fmt::format("argument '{}' is not a string", name));
  }
  return *text;
}

c10::Scalar OpCall::scalar(std::string_view name) const {
  const Argument& argument = arg(name);
  if (const auto* integer = argument.get_if<int64_t>()) return *integer;
  if (const auto* real = argument.get_if<double>()) return *real;
  if (const auto* flag = argument.get_if<bool>()) return *flag;
  refuse(fmt::format("argument '{}' is not a fixed number", name),
         "Make the axis it depends on static, or register a translation with register_onnx_translation.");
}

std::optional<c10::ScalarType> OpCall::dtype(std::string_view name) const {
  const Argument& argument = arg(name);
  if (const auto* dtype = argument.get_if<c10::ScalarType>()) return *dtype;
  if (const auto* number = argument.get_if<int64_t>()) return static_cast<c10::ScalarType>(*number);
  return std::nullopt;
}

Expr OpCall::expr(std::string_view name) const {
  const Argument& argument = arg(name);
  const bool sym = argument.is_value() && argument.value()->kind() == Value::Kind::kSymInt;
  if (!sym && !argument.is<int64_t>()) {
    refuse(fmt::format("argument '{}' is not an integer", name));
  }
  return to_expr(argument);
}

Sizes OpCall::exprs(std::string_view name) const {
  const Argument& argument = arg(name);
  if (argument.is<int64_t>()) {
    return {*argument.get_if<int64_t>()};  // int[1] given as a number
  }
  if (!argument.is_list()) {
    refuse(fmt::format("argument '{}' is not a list of integers", name));
  }
  Sizes sizes;
  for (const Argument& item : argument.list()) {
    sizes.push_back(to_expr(item));
  }
  return sizes;
}

int64_t OpCall::dim(std::string_view name, int64_t rank) const { return wrap_axis(integer(name), rank); }

std::vector<int64_t> OpCall::dims(std::string_view name, int64_t rank) const {
  std::vector<int64_t> axes = integers(name);
  for (int64_t& axis : axes) {
    axis = wrap_axis(axis, rank);
  }
  return axes;
}

void OpCall::refuse(std::string why, std::string hint) const {
  throw Error(fmt::format("{}: {}", node_.target(), why), node_.describe(),
              hint.empty() ? "Another translation can be given with register_onnx_translation." : std::move(hint));
}

}  // namespace exporters::onnx
