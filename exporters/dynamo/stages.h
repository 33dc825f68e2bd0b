#pragma once

#include "exporters/framework/exporter.h"
#include "exporters/framework/prepare_export.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace exporters {

// The stages of a trace, one file each: stage1_forward_signature.cpp, …

// ── Stage 1: Forward signature ──

/// The forward that is traced: the source's with the output flags applied, which takes exactly these inputs. Throws
/// Error for names that cannot be those of arguments, and for one that is there twice.
Forward patch_forward_signature(const ExportSource& model, const PreparedInputs& prepared);

// ── Stage 2: Model patches ──

/// Registers the library's own patches of models, once.
void register_model_patches();

// ── Stage 3: Pytree registration ──

/// Registers the caches of exporters/models, once.
void register_cache_pytrees();

// ── Stage 4: Dynamic shapes ──

/// What each axis of each tensor in the inputs is, by leaf path. Throws Error for overrides that name no tensor or
/// axis, or one axis twice, and for Dims that contradict each other.
DynamicShapes resolve_dynamic_shapes(const NamedInputs& inputs, const DynamoConfig& config,
                                     const AxisLabels& labels = {});

// ── Stage 5: State cleanup ──

/// Clears the registered stateful attributes of a model for the lifetime of the object and restores them after it, also
/// when an exception leaves the scope. What the forward left there in between is dropped. The model may not run
/// elsewhere meanwhile.
class ResetModelState {
 public:
  explicit ResetModelState(const ExportSource& model);
  ~ResetModelState();
  ResetModelState(const ResetModelState&) = delete;
  ResetModelState& operator=(const ResetModelState&) = delete;

 private:
  struct Original {
    at::Tensor* attribute;
    at::Tensor value;
  };
  std::vector<Original> originals_;
};

/// A name of attributes that are cleared, and which models have it.
struct StatefulCacheAttr {
  std::string name;
  std::string reason;
};
std::vector<StatefulCacheAttr> stateful_cache_attrs();
/// Adds a name; one that is there already stays.
void register_stateful_cache_attr(std::string name, std::string reason);

}  // namespace exporters
