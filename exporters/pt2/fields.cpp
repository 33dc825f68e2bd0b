#include "exporters/pt2/fields.h"

#include "exporters/graph/json_text.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <limits>

namespace exporters::pt2 {
namespace {

[[noreturn]] void wrong_type(const Json& value, std::string_view wanted) {
  fail("Expected {}, found {}", wanted, quote(short_json_text(value), 200));
}

}  // namespace

const Json& member(const Json& object, std::string_view key) {
  const auto& members = as_object(object);
  const auto found = members.find(key);
  if (found == members.end()) {
    fail("The field {} is missing in {}", quote(key), quote(short_json_text(object), 200));
  }
  return found->second;
}

const Json* find_member(const Json& object, std::string_view key) {
  const auto& members = as_object(object);
  const auto found = members.find(key);
  return found == members.end() || found->second.is_null() ? nullptr : &found->second;
}

const Json::object_t& as_object(const Json& value) {
  const auto* object = value.get_ptr<const Json::object_t*>();
  return object != nullptr ? *object : (wrong_type(value, "an object"), *object);
}

const Json::array_t& as_array(const Json& value) {
  const auto* array = value.get_ptr<const Json::array_t*>();
  return array != nullptr ? *array : (wrong_type(value, "a list"), *array);
}

const std::string& as_text(const Json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  return text != nullptr ? *text : (wrong_type(value, "a string"), *text);
}

int64_t as_int(const Json& value) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() &&
                      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  return fits ? value.get<int64_t>() : (wrong_type(value, "a whole number of 64 bits"), 0);
}

bool as_bool(const Json& value) {
  return value.is_boolean() ? value.get<bool>() : (wrong_type(value, "true or false"), false);
}

double as_double(const Json& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_number()) {
    return value.get<double>();
  }
  const bool is_text = value.is_string();
  if (is_text && value == "Infinity") {
    return kInfinity;
  }
  if (is_text && value == "-Infinity") {
    return -kInfinity;
  }
  if (is_text && value == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  wrong_type(value, "a number");
}

Tagged as_union(const Json& value) {
  const auto& members = as_object(value);
  if (members.size() != 1) {
    wrong_type(value, "an object with one member");
  }
  return {members.begin()->first, members.begin()->second};
}

}  // namespace exporters::pt2
