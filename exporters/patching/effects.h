#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// Where a patch or fix took effect. Either may be empty: the root module has no path, and not every patch makes nodes.
struct EffectPlace {
  std::string node;         ///< of the graph: "where_1"
  std::string module_path;  ///< "encoder.layer.0.attention"
  friend bool operator==(const EffectPlace&, const EffectPlace&) = default;
};

/// A patch or fix that took effect in an export, and how often.
struct Effect {
  std::string kind;     ///< "patch", "node fix", "program fix", "IR fix"
  std::string backend;  ///< "onnx"
  std::string name;     ///< as it is registered
  uint64_t count = 0;
  std::vector<EffectPlace> places;  ///< one for each time, in order
};

/// Collects the effects of one export. While a Scope of it is alive, what takes effect on this thread is added to it;
/// scopes nest, and the innermost log gets it.
class EffectLog {
 public:
  void add(std::string_view kind, std::string_view backend, std::string_view name, EffectPlace place);
  /// In order of their first time.
  const std::vector<Effect>& effects() const { return effects_; }

  class Scope {
   public:
    explicit Scope(EffectLog& log);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    EffectLog* previous_;
  };

 private:
  std::vector<Effect> effects_;
};

/// Whether this thread has a log.
bool effects_wanted();
/// Adds to this thread's log; does nothing where there is none.
void record_effect(std::string_view kind, std::string_view backend, std::string_view name, EffectPlace place);

}  // namespace exporters
