#pragma once

#include <c10/core/ScalarType.h>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {
class JsonField;
}

namespace exporters::models {

/// A config field that this library handles for some values only. A field that is absent or null is always accepted.
struct FieldRule {
  std::string_view name;
  std::string_view accepted;  ///< JSON texts of the accepted values, separated by '|'; empty: none
  std::string_view reason;    ///< what another value would mean, for the message
};

/// A checkpoint's config.json: typed access to its fields with the reference's defaults. Cheap to copy.
///
/// Getters take the default of the reference's config class; null counts as absent. They throw Error when a field has
/// another type than the reference's class declares, or a value outside the stated bounds.
class ModelConfig {
 public:
  /// Reads `folder`/config.json. Throws Error when it is missing, too large, or not a JSON object.
  static ModelConfig load(const std::filesystem::path& folder);
  /// `where` names the source in messages.
  static ModelConfig parse(std::string_view text, std::string where = "config.json");

  /// Empty when the config has none.
  const std::string& model_type() const { return model_type_; }
  const std::vector<std::string>& architectures() const { return architectures_; }

  bool has(std::string_view name) const;
  /// A count or an extent: an integer in [min, max].
  int64_t size(std::string_view name, int64_t fallback, int64_t min = 1, int64_t max = kMaxSize) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  std::optional<int64_t> optional_integer(std::string_view name, std::optional<int64_t> fallback) const;
  double number(std::string_view name, double fallback) const;
  /// An explicit null is nothing, as for optional_integer.
  std::optional<double> optional_number(std::string_view name, std::optional<double> fallback) const;
  bool flag(std::string_view name, bool fallback) const;
  std::string string(std::string_view name, std::string_view fallback) const;
  static constexpr int64_t kMaxSize = int64_t{1} << 31;

  /// As the reference counts: `num_labels` if there is one, else the number of `id2label` entries, else `fallback`.
  int64_t num_labels(int64_t fallback = 2) const;
  /// Empty when the config has no id2label.
  std::map<int64_t, std::string> id2label() const;
  /// `dtype`, or the older `torch_dtype`; nothing when the config has neither.
  std::optional<c10::ScalarType> dtype() const;

  /// Throws Error for the first field that has a value which is not handled: those that hold for every model
  /// (quantization, per-layer overrides, …), then the family's own.
  void check(std::span<const FieldRule> family_rules) const;

  const nlohmann::json& json() const { return *json_; }
  const std::string& where() const { return where_; }

 private:
  ModelConfig(nlohmann::json json, std::string where);
  JsonField root() const;

  std::shared_ptr<const nlohmann::json> json_;
  std::string where_;
  std::string model_type_;
  std::vector<std::string> architectures_;
};

/// "float32", "float16", "bfloat16", "float64", also with "torch." before it or in short: "fp32", "fp16", "bf16",
/// "fp64". Throws Error that lists them.
c10::ScalarType parse_dtype(std::string_view name);

}  // namespace exporters::models
