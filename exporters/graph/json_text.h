#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// JSON as Python's json.dumps writes it: one space after ',' and ':', ASCII only. Throws Error on nesting deeper than
/// 64 and on strings that are not UTF-8.
std::string python_json_text(const nlohmann::json& value);
/// For messages: the beginning of it, and no error.
std::string short_json_text(const nlohmann::json& value);
/// The string as a JSON string. Throws Error when it is not UTF-8.
std::string json_quoted(std::string_view value);

/// TreeSpec::child_names, for a context alone.
std::vector<std::string> child_names_of(const std::string& context, size_t count);

}  // namespace exporters
