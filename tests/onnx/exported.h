#pragma once

#include "exporters/onnx/exporter.h"
#include "tests/onnx/harness.h"
#include "tests/support/exported_forward.h"

#include <functional>
#include <optional>
#include <vector>

namespace exporters::onnx::testing {

/// Fields of the export's config.
struct ExportSettings {
  std::optional<int64_t> opset = std::nullopt;
  std::vector<std::string> disabled_passes = {};
  std::optional<std::string> ort_fusions = std::nullopt;
};

/// A forward exported by OnnxExporter and run in ONNX Runtime.
class Exported : public exporters::testing::ExportedForward {
 public:
  /// Every axis is dynamic.
  Exported(Forward forward, const Tensors& samples, const ExportSettings& settings);
  Exported(Forward forward, const Tensors& samples, std::optional<int64_t> opset = std::nullopt)
      : Exported(std::move(forward), samples, ExportSettings{.opset = opset}) {}

  /// Runs it on each of the inputs and compares with the forward: dtypes, shapes and values.
  void expect_as_eager(const std::vector<Tensors>& inputs, Tolerance tolerance = {}) const;

  const OnnxModel& model() const { return model_; }
  const std::vector<Effect>& effects() const { return effects_; }
  /// How often a patch or fix took effect.
  uint64_t count(std::string_view name) const;

 private:
  OnnxModel model_;
  std::vector<Effect> effects_;
};

}  // namespace exporters::onnx::testing
