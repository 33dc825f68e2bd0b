#include "exporters/pt2/graph_json.h"
#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"

#include <ATen/core/jit_type.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace exporters::pt2 {
namespace {

using Json = nlohmann::json;
using Kind = Value::Kind;

Json named(const Value* value) { return {{"name", value->name()}}; }

// JSON has no such numbers: the schema spells them.
Json float_json(double value) {
  return std::isnan(value) ? Json("NaN") : std::isinf(value) ? Json(value > 0 ? "Infinity" : "-Infinity") : Json(value);
}

Json names_of(const std::vector<Value*>& values) {
  Json names = Json::array();
  for (const Value* value : values) {
    names.push_back(named(value));
  }
  return names;
}

bool is_value_of(const Argument& argument, Kind kind) {
  const auto* value = argument.get_if<Value*>();
  return value != nullptr && (*value)->kind() == kind;
}

bool is_tensor(const Argument& argument) { return is_value_of(argument, Kind::kTensor); }
bool is_int(const Argument& argument) { return argument.is<int64_t>(); }
bool is_float(const Argument& argument) { return argument.is<double>(); }

template <typename Test>
bool all(const Argument::List& list, Test test) {
  return std::all_of(list.begin(), list.end(), test);
}

template <typename Make>
Json array_of(const Argument::List& list, Make make) {
  Json array = Json::array();
  for (const Argument& item : list) {
    array.push_back(make(item));
  }
  return array;
}

Json sym_item(const Argument& item, const char* constant) {
  if (const auto* value = item.get_if<Value*>()) {
    return {{"as_name", (*value)->name()}};
  }
  return {{constant, item.is<int64_t>()  ? Json(item.as<int64_t>())
                     : item.is<double>() ? float_json(item.as<double>())
                                         : Json(item.as<bool>())}};
}

// One kind of list: which elements it has, and how it is written.
struct ListForm {
  const char* key;
  bool (*holds)(const Argument&);
  Json (*write)(const Argument&);
};

bool is_list_of(const Argument& argument, bool (*holds)(const Argument&)) {
  return argument.is_list() && all(argument.list(), holds);
}

constexpr ListForm kListForms[] = {
    {"as_bools", [](const Argument& a) { return a.is<bool>(); }, [](const Argument& a) { return Json(a.as<bool>()); }},
    {"as_ints", is_int, [](const Argument& a) { return Json(a.as<int64_t>()); }},
    {"as_floats", is_float, [](const Argument& a) { return float_json(a.as<double>()); }},
    {"as_strings", [](const Argument& a) { return a.is<std::string>(); },
     [](const Argument& a) { return Json(a.as<std::string>()); }},
    {"as_tensors", is_tensor, [](const Argument& a) { return named(a.value()); }},
    {"as_optional_tensors", [](const Argument& a) { return a.is_none() || is_tensor(a); },
     [](const Argument& a) {
       return a.is_none() ? Json{{"as_none", true}} : Json{{"as_tensor", named(a.value())}};
     }},
    {"as_sym_ints", [](const Argument& a) { return is_int(a) || is_value_of(a, Kind::kSymInt); },
     [](const Argument& a) { return sym_item(a, "as_int"); }},
    {"as_sym_floats", [](const Argument& a) { return is_float(a) || is_value_of(a, Kind::kSymFloat); },
     [](const Argument& a) { return sym_item(a, "as_float"); }},
    {"as_sym_bools", [](const Argument& a) { return a.is<bool>() || is_value_of(a, Kind::kSymBool); },
     [](const Argument& a) { return sym_item(a, "as_bool"); }},
    {"as_nested_tensors", [](const Argument& a) { return is_list_of(a, is_tensor); },
     [](const Argument& a) { return array_of(a.list(), [](const Argument& b) { return named(b.value()); }); }},
    {"as_int_lists", [](const Argument& a) { return is_list_of(a, is_int); },
     [](const Argument& a) { return array_of(a.list(), [](const Argument& b) { return Json(b.as<int64_t>()); }); }},
    {"as_float_lists", [](const Argument& a) { return is_list_of(a, is_float); },
     [](const Argument& a) {
       return array_of(a.list(), [](const Argument& b) { return float_json(b.as<double>()); });
     }},
};

const char* key_of_empty_list(const c10::Type* type) {
  while (type != nullptr && type->kind() == c10::TypeKind::OptionalType) {
    type = type->containedType(0).get();
  }
  if (type == nullptr || type->kind() != c10::TypeKind::ListType) {
    return "as_tensors";
  }
  switch (type->containedType(0)->kind()) {
    case c10::TypeKind::BoolType:
      return "as_bools";
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return "as_ints";
    case c10::TypeKind::FloatType:
    case c10::TypeKind::NumberType:
      return "as_floats";
    case c10::TypeKind::StringType:
      return "as_strings";
    default:
      return "as_tensors";
  }
}

Json list_json(const Argument::List& list, const c10::Type* type, const Node& node) {
  if (list.empty()) {
    return {{key_of_empty_list(type), Json::array()}};
  }
  for (const ListForm& form : kListForms) {
    if (all(list, form.holds)) {
      return {{form.key, array_of(list, form.write)}};
    }
  }
  throw Error("a .pt2 archive has no place for a list of elements of several kinds", node.describe());
}

struct ArgumentJson {
  const c10::Type* type;
  const Node& node;

  Json operator()(std::monostate) const { return {{"as_none", true}}; }
  Json operator()(const Value* value) const { return value_json(*value); }
  Json operator()(int64_t value) const { return {{"as_int", value}}; }
  Json operator()(double value) const { return {{"as_float", float_json(value)}}; }
  Json operator()(bool value) const { return {{"as_bool", value}}; }
  Json operator()(const std::string& value) const { return {{"as_string", value}}; }
  Json operator()(const c10::complex<double>& value) const {
    return {{"as_complex", {{"real", float_json(value.real())}, {"imag", float_json(value.imag())}}}};
  }
  Json operator()(c10::ScalarType value) const { return {{"as_scalar_type", dtype_json(value)}}; }
  Json operator()(const c10::Device& value) const { return {{"as_device", device_json(value)}}; }
  Json operator()(c10::Layout value) const { return {{"as_layout", layout_json(value)}}; }
  Json operator()(c10::MemoryFormat value) const {
    const auto code = memory_format_code(value);
    ensure(code.has_value(), "A .pt2 archive has no code for the memory format {}", static_cast<int>(value));
    return {{"as_memory_format", *code}};
  }
  Json operator()(const GraphArgument&) const { throw Error("only a higher-order op takes a graph", node.describe()); }
  Json operator()(const Argument::List& list) const { return list_json(list, type, node); }
};

}  // namespace

Json value_json(const Value& value) {
  switch (value.kind()) {
    case Kind::kTensor:
      return {{"as_tensor", named(&value)}};
    case Kind::kSymInt:
      return {{"as_sym_int", {{"as_name", value.name()}}}};
    case Kind::kSymFloat:
      return {{"as_sym_float", {{"as_name", value.name()}}}};
    case Kind::kSymBool:
      return {{"as_sym_bool", {{"as_name", value.name()}}}};
    case Kind::kTensorList:
      return {{"as_tensors", names_of(value.elements())}};
    case Kind::kNone:
      return {{"as_none", true}};
    case Kind::kOther:
      break;
  }
  throw Error("a .pt2 archive has no place for the value '" + value.name() + "'", value.node()->describe());
}

Json argument_json(const Argument& argument, const c10::Type* type, const Node& node) {
  return argument.visit(ArgumentJson{type, node});
}

}  // namespace exporters::pt2
