#pragma once

#include "exporters/symbolic/dim.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// One field of a config: its name in export.json, what it does, and how to read and write it.
struct ConfigField {
  std::string name;
  std::string help;
  std::string allowed;  ///< "true or false", "an integer from 18 to 24 or null": for errors and --help
  std::function<nlohmann::json()> get;
  /// Returns false when the value is not allowed.
  std::function<bool(const nlohmann::json&)> set;
};

/// The settings of one export. Fields, names and defaults are the reference's; a config of a new backend derives from
/// this class (or from DynamoConfig) and lists its fields.
class ExportConfig {
 public:
  virtual ~ExportConfig() = default;

  virtual std::string export_format() const = 0;
  /// Every field. The functions refer to this object.
  virtual std::vector<ConfigField> fields() = 0;
  /// Throws Error for values that contradict each other.
  virtual void validate() const {}

  /// Fields by name and "export_format", keys sorted: what export.json records.
  nlohmann::json to_dict();
  /// Sets the given fields, all or none. Throws Error for an unknown field (with near names), for a value of the wrong
  /// type (with what is allowed), for values that contradict each other, and for another format than this one.
  void from_dict(const nlohmann::json& values);
  /// to_dict as text, as the reference's to_json_string: two spaces of indentation.
  std::string to_json();
  /// from_dict of such a text. Throws Error, also when it is no JSON.
  void from_json(std::string_view text);
  /// Sets one field from a command line's text: JSON ("true", "20", "null"), else a string.
  void set(std::string_view field, std::string_view text);
};

/// How a forward is traced.
class DynamoConfig : public ExportConfig {
 public:
  bool dynamic = false;  ///< every axis symbolic unless dynamic_shapes says otherwise
  /// Overrides by input, or path below it, and axis: see exporters/framework/dynamic_shapes.h for the JSON form. An
  /// input without axes is static.
  DynamicShapes dynamic_shapes;
  /// The reference's choice between two tracers of Python code. A C++ forward is traced in one way only, which misses
  /// nothing that strict mode would find, so both values mean the same.
  bool strict = false;
  /// In the reference: whether a condition on sizes that tracing cannot prove becomes a check at run time instead of a
  /// failed export. Here each such condition is a guard, which every run checks, so both values mean the same.
  bool prefer_deferred_runtime_asserts_over_guards = false;

  std::string export_format() const override { return "dynamo"; }
  std::vector<ConfigField> fields() override;
  void validate() const override;
};

/// The reference's settings of an ExecuTorch export.
class ExecutorchConfig : public DynamoConfig {
 public:
  std::string backend = "xnnpack";  ///< "xnnpack", "cuda" or "mlx"
  bool alloc_graph_input = true;    ///< inputs are copied into the planned memory
  bool alloc_graph_output = true;   ///< outputs lie in the planned memory; otherwise the caller binds buffers for them
  bool alloc_mutable_buffers = true;

  std::string export_format() const override { return "executorch"; }
  std::vector<ConfigField> fields() override;
};

// Field makers for the usual types.
ConfigField bool_field(std::string name, std::string help, bool& value);
ConfigField optional_int_field(std::string name, std::string help, std::optional<int64_t>& value, int64_t min,
                               int64_t max);
/// A std::optional may also be null.
ConfigField choice_field(std::string name, std::string help, std::optional<std::string>& value,
                         std::vector<std::string> choices);
ConfigField choice_field(std::string name, std::string help, std::string& value, std::vector<std::string> choices);

}  // namespace exporters
