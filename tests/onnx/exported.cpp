#include "tests/onnx/exported.h"

#include "exporters/framework/registry.h"
#include "tests/onnx/support.h"

namespace exporters::onnx::testing {

using exporters::testing::named;
using exporters::testing::source_of;

Exported::Exported(Forward forward, const Tensors& samples, const ExportSettings& settings)
    : ExportedForward(std::move(forward)) {
  [[maybe_unused]] static const bool registered = (register_onnx_backend(), true);
  OnnxConfig config;
  config.dynamic = true;
  config.opset_version = settings.opset;
  config.disabled_passes = settings.disabled_passes;
  config.ort_fusions = settings.ort_fusions;
  const ExportedModel exported = OnnxExporter().export_model(source_of(forward_), named(samples), config);
  effects_ = exported.component().effects;
  model_ = *dynamic_cast<const OnnxProgram&>(*exported.component().program).model();
  const auto folder = scratch_folder();
  exported.save_pretrained(folder);
  loaded_ = std::make_shared<const ExportedModel>(ExportedModel::from_pretrained(folder));
}

void Exported::expect_as_eager(const std::vector<Tensors>& inputs, Tolerance tolerance) const {
  expect_as_forward(inputs, tolerance.rtol, tolerance.atol);
}

uint64_t Exported::count(std::string_view name) const {
  for (const Effect& effect : effects_) {
    if (effect.name == name) {
      return effect.count;
    }
  }
  return 0;
}

}  // namespace exporters::onnx::testing
