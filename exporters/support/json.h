#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// What a JSON text from a stranger may cost.
struct JsonLimits {
  uint64_t max_bytes = 64u << 20;
  int max_depth = 100;
  uint64_t max_values = 4u << 20;  ///< objects, arrays, leaves
  bool allow_nonfinite = true;     ///< NaN, Infinity, -Infinity as Python writes and reads them
};

/// Parses strictly (UTF-8, no comments, nothing after the value, no key twice in one object). Throws Error that
/// names `name` (a file) and the position.
nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

/// As above, the whole file. Throws Error if it cannot be read or is longer than limits.max_bytes.
nlohmann::json read_json(const std::filesystem::path& file, const JsonLimits& limits = {});

/// Text with sorted keys, two spaces of indentation and a final newline, as transformers writes; the same value gives
/// the same bytes. Non-finite numbers are written as Python writes them.
std::string pretty_json(const nlohmann::json& value);

/// One value of a parsed document with the way to it, for getters whose errors name field and file. Does not own:
/// the document must outlive it.
class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string file, std::string path = {});

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }
  /// "rope_scaling.factor", "layer_types[3]"; empty for the document itself.
  const std::string& path() const { return path_; }

  bool is_null() const;
  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  bool is_bool() const;

  /// This object has `key`, and it is not null.
  bool has(std::string_view key) const;
  /// The member `key`. Throws Error if this is no object or has no such member; suggests near names.
  JsonField at(std::string_view key) const;
  /// The member `key`, or nothing if it is absent or null. Throws Error if this is no object.
  std::optional<JsonField> find(std::string_view key) const;
  /// The elements. Throws Error if this is no array.
  std::vector<JsonField> elements() const;
  /// Member names, sorted. Throws Error if this is no object.
  std::vector<std::string> keys() const;

  /// The value itself; throws Error, with field, file and what was found, if it is of another type. Integers must
  /// be whole numbers that fit (3.0 counts as 3, as in Python's comparisons); doubles may be written as integers.
  int64_t as_int() const;
  double as_double() const;
  bool as_bool() const;
  const std::string& as_string() const;
  std::vector<int64_t> as_ints() const;
  std::vector<double> as_doubles() const;
  std::vector<std::string> as_strings() const;

  /// The member `key`, or `fallback` if it is absent or null; of another type, it is an Error.
  int64_t get_int(std::string_view key, int64_t fallback) const;
  double get_double(std::string_view key, double fallback) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::string get_string(std::string_view key, std::string_view fallback) const;

  /// Throws Error "<field> in <file> <problem>".
  [[noreturn]] void fail_here(std::string_view problem, std::string hint = {}) const;

 private:
  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace exporters
