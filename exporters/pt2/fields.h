#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

/// Getters for a schema's JSON that throw Error with what was found. They know no path: who calls them for a node or an
/// entry adds its name (Error::with_context), so that reading a million values costs no strings.
namespace exporters::pt2 {

using Json = nlohmann::json;

/// The member `key`; an absent one is an Error, null is a value.
const Json& member(const Json& object, std::string_view key);
/// The member `key`, or null if it is absent or JSON's null.
const Json* find_member(const Json& object, std::string_view key);

const Json::object_t& as_object(const Json& value);
const Json::array_t& as_array(const Json& value);
const std::string& as_text(const Json& value);
int64_t as_int(const Json& value);
bool as_bool(const Json& value);
/// Also "Infinity", "-Infinity" and "NaN" in quotes, as the schema writes them.
double as_double(const Json& value);

/// A union of the schema: an object with one member, whose name is the tag.
struct Tagged {
  const std::string& tag;
  const Json& value;
};
Tagged as_union(const Json& value);

}  // namespace exporters::pt2
