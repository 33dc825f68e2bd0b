#include "exporters/graph/json_text.h"

#include "exporters/support/error.h"

#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using Json = nlohmann::json;

void append_text(const Json& value, std::string& text, int depth) {
  constexpr int kMaxDepth = 64;
  ensure(depth <= kMaxDepth, "A JSON value is nested deeper than {}", kMaxDepth);
  const char* separator = "";
  if (value.is_array()) {
    text += '[';
    for (const Json& item : value) {
      text += std::exchange(separator, ", ");
      append_text(item, text, depth + 1);
    }
    text += ']';
  } else if (value.is_object()) {
    text += '{';
    for (const auto& [key, member] : value.items()) {
      text += std::exchange(separator, ", ") + json_quoted(key) + ": ";
      append_text(member, text, depth + 1);
    }
    text += '}';
  } else {
    text += value.is_string() ? json_quoted(value.get_ref<const std::string&>()) : value.dump();
  }
}

}  // namespace

std::string python_json_text(const Json& value) {
  std::string text;
  append_text(value, text, 1);
  return text;
}

std::string short_json_text(const Json& value) {
  constexpr size_t kShown = 80;
  if (value.is_structured() && value.size() > 10) {
    return value.is_array() ? "a long list" : "a large object";
  }
  try {
    const std::string text = python_json_text(value);
    return text.size() <= kShown ? text : text.substr(0, kShown) + "…";
  } catch (const Error&) {
    return "a value nested too deeply";
  }
}

std::string json_quoted(std::string_view value) {
  try {
    return Json(value).dump(-1, ' ', /*ensure_ascii=*/true);
  } catch (const Json::exception&) {
    fail("A name in a tree spec is not UTF-8");
  }
}

}  // namespace exporters
