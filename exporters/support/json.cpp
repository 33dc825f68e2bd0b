#include "exporters/support/json.h"

#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <limits>

namespace exporters {
namespace {

using nlohmann::json;

// Note [Non-finite numbers]
// Python's json writes and reads NaN, Infinity and -Infinity, so configs contain them; the grammar of JSON does not.
// They are replaced, outside of strings, by the out-of-band string below (a string that starts with a byte that JSON
// text cannot contain unescaped), and become doubles again when the tree is built.
constexpr std::string_view kMark = "\\u0001";
constexpr std::array<std::string_view, 3> kNonFinite{"-Infinity", "Infinity", "NaN"};

std::string with_marks(std::string_view text) {
  std::string result;
  result.reserve(text.size() + 64);
  bool inside_string = false;
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (inside_string && c == '\\' && i + 1 < text.size()) {
      result += text.substr(i, 2);
      i += 2;
      continue;
    }
    inside_string ^= c == '"';
    std::string_view word;
    for (std::string_view candidate : kNonFinite) {
      if (!inside_string && word.empty() && text.substr(i).starts_with(candidate)) {
        word = candidate;
      }
    }
    if (word.empty()) {
      result += c;
      ++i;
    } else {
      result.append("\"").append(kMark).append(word).append("\"");
      i += word.size();
    }
  }
  return result;
}

std::optional<double> nonfinite(std::string_view text) {
  if (!text.starts_with('\x01')) {
    return std::nullopt;
  }
  text.remove_prefix(1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return text == "NaN"         ? std::optional(std::numeric_limits<double>::quiet_NaN())
         : text == "Infinity"  ? std::optional(kInfinity)
         : text == "-Infinity" ? std::optional(-kInfinity)
                               : std::nullopt;
}

// Builds the tree from the parser's events and holds it to the limits. Depth, number of values and repeated keys are
// checked before anything is added.
class Builder {
 public:
  Builder(const std::string& name, const JsonLimits& limits, bool marks)
      : name_(name), limits_(limits), marks_(marks) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool binary(json::binary_t&) { return false; }
  bool string(std::string& value) {
    std::optional<double> number = marks_ ? nonfinite(value) : std::nullopt;
    return number ? add(*number) : add(std::move(value));
  }
  bool start_object(size_t) { return open(json::value_t::object); }
  bool start_array(size_t) { return open(json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& value) {
    if (stack_.back()->contains(value)) {
      fail("{}: the key {} appears twice in one object", name_, quote(value));
    }
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    std::string_view text = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …": the number in brackets says nothing.
    if (size_t end = text.find("] "); end != std::string_view::npos) {
      text.remove_prefix(end + 2);
    }
    fail("{} is not valid JSON at byte {}: {}", name_, position, quote(text, 300));
  }

  json take() { return std::move(root_); }

 private:
  template <typename T>
  json* insert(T&& value) {
    if (++values_ > limits_.max_values) {
      fail("{} has more than {} JSON values", name_, limits_.max_values);
    }
    if (stack_.empty()) {
      root_ = std::forward<T>(value);
      return &root_;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::forward<T>(value));
      return &parent.back();
    }
    json& slot = parent[key_];
    slot = std::forward<T>(value);
    return &slot;
  }
  template <typename T>
  bool add(T&& value) {
    insert(json(std::forward<T>(value)));
    return true;
  }
  bool open(json::value_t type) {
    if (static_cast<int>(stack_.size()) >= limits_.max_depth) {
      fail("{} nests JSON values deeper than {}", name_, limits_.max_depth);
    }
    stack_.push_back(insert(json(type)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  std::string name_;
  JsonLimits limits_;
  bool marks_;
  json root_;
  std::vector<json*> stack_;
  std::string key_;
  uint64_t values_ = 0;
};

bool mentions_nonfinite(std::string_view text) {
  return text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos;
}

void write_nonfinite(std::string& text, double value) {
  text += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

void write(std::string& text, const json& value, size_t indent) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    return write_nonfinite(text, value.get<double>());
  }
  if (!value.is_structured() || value.empty()) {
    text += value.dump();
    return;
  }
  bool object = value.is_object();
  text += object ? "{" : "[";
  const char* separator = "\n";
  for (auto it = value.begin(); it != value.end(); ++it) {
    text.append(separator).append(indent + 2, ' ');
    if (object) {
      text += json(it.key()).dump() + ": ";
    }
    write(text, *it, indent + 2);
    separator = ",\n";
  }
  text.append("\n").append(indent, ' ').append(object ? "}" : "]");
}

}  // namespace

json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    fail("{} has {}; at most {} of JSON are read", name, bytes_text(text.size()), bytes_text(limits.max_bytes));
  }
  bool marks = limits.allow_nonfinite && mentions_nonfinite(text);
  Builder builder(name, limits, marks);
  std::string marked = marks ? with_marks(text) : std::string();
  std::string_view input = marks ? std::string_view(marked) : text;
  json::sax_parse(input.begin(), input.end(), &builder);
  return builder.take();
}

json read_json(const std::filesystem::path& file, const JsonLimits& limits) {
  std::shared_ptr<const MappedFile> mapped = MappedFile::open(file);
  std::span<const std::byte> bytes = mapped->bytes();
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return parse_json(text, quote(file.native(), 400), limits);
}

std::string pretty_json(const json& value) {
  std::string text;
  write(text, value, 0);
  return text + "\n";
}

JsonField::JsonField(const json& value, std::string file, std::string path)
    : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

bool JsonField::is_null() const { return value_->is_null(); }
bool JsonField::is_object() const { return value_->is_object(); }
bool JsonField::is_array() const { return value_->is_array(); }
bool JsonField::is_string() const { return value_->is_string(); }
bool JsonField::is_number() const { return value_->is_number(); }
bool JsonField::is_bool() const { return value_->is_boolean(); }

void JsonField::fail_here(std::string_view problem, std::string hint) const {
  std::string subject = path_.empty() ? "The document" : "The field " + quote(path_);
  throw Error(fmt::format("{} in {} {}", subject, quote(file_, 400), problem), {}, std::move(hint));
}

namespace {

std::string found(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return fmt::format("{} {}", value.type_name(), quote(text, 60));
}

[[noreturn]] void wrong_type(const JsonField& field, std::string_view wanted) {
  bool large = field.is_object() || field.is_array();
  field.fail_here(
      fmt::format("must be {}, not {}", wanted,
                  large ? std::string(field.is_object() ? "an object" : "an array") : found(field.value())));
}

std::string member_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

template <typename T, typename Get>
std::vector<T> all(const JsonField& field, Get get) {
  std::vector<T> values;
  for (const JsonField& element : field.elements()) {
    values.push_back(get(element));
  }
  return values;
}

}  // namespace

std::vector<std::string> JsonField::keys() const {
  if (!is_object()) {
    wrong_type(*this, "an object");
  }
  std::vector<std::string> names;
  for (auto it = value_->begin(); it != value_->end(); ++it) {
    names.push_back(it.key());
  }
  return names;
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  if (!is_object()) {
    wrong_type(*this, "an object");
  }
  auto it = value_->find(std::string(key));
  if (it == value_->end() || it->is_null()) {
    return std::nullopt;
  }
  return JsonField(*it, file_, member_path(path_, key));
}

bool JsonField::has(std::string_view key) const { return is_object() && find(key).has_value(); }

JsonField JsonField::at(std::string_view key) const {
  if (!is_object()) {
    wrong_type(*this, "an object");
  }
  auto it = value_->find(std::string(key));
  if (it == value_->end()) {
    fail_here(fmt::format("has no field {}", quote(key)), did_you_mean(key, keys()));
  }
  return JsonField(*it, file_, member_path(path_, key));
}

std::vector<JsonField> JsonField::elements() const {
  if (!is_array()) {
    wrong_type(*this, "an array");
  }
  std::vector<JsonField> fields;
  for (size_t i = 0; i < value_->size(); ++i) {
    fields.emplace_back((*value_)[i], file_, fmt::format("{}[{}]", path_, i));
  }
  return fields;
}

int64_t JsonField::as_int() const {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > kMax) {
    wrong_type(*this, "a whole number of at most 64 bits");
  }
  if (value_->is_number_float()) {
    double number = value_->get<double>();
    if (std::nearbyint(number) == number && std::abs(number) < 9.0e18) {
      return static_cast<int64_t>(number);
    }
  }
  if (!value_->is_number_integer()) {
    wrong_type(*this, "a whole number");
  }
  return value_->get<int64_t>();
}

double JsonField::as_double() const {
  if (!value_->is_number()) {
    wrong_type(*this, "a number");
  }
  return value_->get<double>();
}

bool JsonField::as_bool() const {
  if (!value_->is_boolean()) {
    wrong_type(*this, "true or false");
  }
  return value_->get<bool>();
}

const std::string& JsonField::as_string() const {
  if (!value_->is_string()) {
    wrong_type(*this, "a string");
  }
  return value_->get_ref<const std::string&>();
}

std::vector<int64_t> JsonField::as_ints() const {
  return all<int64_t>(*this, [](const JsonField& field) { return field.as_int(); });
}

std::vector<double> JsonField::as_doubles() const {
  return all<double>(*this, [](const JsonField& field) { return field.as_double(); });
}

std::vector<std::string> JsonField::as_strings() const {
  return all<std::string>(*this, [](const JsonField& field) { return field.as_string(); });
}

int64_t JsonField::get_int(std::string_view key, int64_t fallback) const {
  std::optional<JsonField> field = find(key);
  return field ? field->as_int() : fallback;
}

double JsonField::get_double(std::string_view key, double fallback) const {
  std::optional<JsonField> field = find(key);
  return field ? field->as_double() : fallback;
}

bool JsonField::get_bool(std::string_view key, bool fallback) const {
  std::optional<JsonField> field = find(key);
  return field ? field->as_bool() : fallback;
}

std::string JsonField::get_string(std::string_view key, std::string_view fallback) const {
  std::optional<JsonField> field = find(key);
  return field ? field->as_string() : std::string(fallback);
}

}  // namespace exporters
