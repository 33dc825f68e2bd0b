#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// Where in the model the running code stands: what errors, warnings, guards and nodes name.
struct Place {
  std::string module_path;   ///< "encoder.layer.0.attention"; empty at the root.
  std::string module_class;  ///< "BertAttention"; empty where unknown.
  std::string op;            ///< "aten::add.Tensor" while an op is being traced, else empty.
  std::string source;        ///< "models/bert.cpp:120"; empty where it could not be had cheaply.

  bool empty() const { return module_path.empty() && op.empty() && source.empty(); }
  /// "encoder.layer.0.attention, aten::add.Tensor, models/bert.cpp:120"
  std::string str() const;
};

/// A line of source: std::source_location, which clang has from version 15 on only.
struct SourceLocation {
  const char* file = "";
  uint32_t line = 0;

  /// As a default argument: the place of the call.
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

/// Enters a submodule on this thread for the lifetime of the object; scopes nest and their names join with dots.
/// A default-made `location` says that the source line is not known.
class ModuleScope {
 public:
  explicit ModuleScope(std::string_view name, std::string_view module_class = {},
                       SourceLocation location = SourceLocation::current());
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;
};

/// Names the op under way on this thread for the lifetime of the object.
class OpScope {
 public:
  explicit OpScope(std::string_view op);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  std::string previous_;
};

/// The place that this thread stands at.
Place current_place();

/// One entered module, outermost first: what `nn_module_stack` of torch.export lists.
struct ModuleFrame {
  std::string path;
  std::string module_class;
};
std::vector<ModuleFrame> current_module_stack();

}  // namespace exporters
