#pragma once

#include "exporters/graph/exported_program.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <unordered_map>

namespace exporters::pt2 {

/// Sizes and tensor descriptions as the schema has them. Expressions are printed once each.
class MetaJson {
 public:
  /// `hints`: the sample size of each symbol that has one.
  explicit MetaJson(const std::map<std::string, int64_t>& hints) : hints_(hints) {}

  /// {"as_int": 8} or {"as_expr": {"expr_str": …, "hint": {"as_int": 4}}}
  const nlohmann::json& size(const Expr& expr);
  /// Throws Error for a dtype or layout that the schema has no code for.
  nlohmann::json tensor(const TensorMeta& meta);

 private:
  std::optional<int64_t> hint(const Expr& expr) const;

  const std::map<std::string, int64_t>& hints_;
  std::unordered_map<Expr, nlohmann::json> known_;
};

/// {"type": "cpu", "index": null}
nlohmann::json device_json(const c10::Device& device);
/// Throw Error for what the schema has no code for.
int64_t dtype_json(c10::ScalarType dtype);
int64_t layout_json(c10::Layout layout);

/// JSON as text. Throws Error when a name is not UTF-8.
std::string json_text(const nlohmann::json& value);

}  // namespace exporters::pt2
