#include "tests/onnx/exported.h"

#include "exporters/framework/registry.h"
#include "tests/onnx/support.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>

namespace exporters::onnx::testing {

using exporters::testing::named;
using exporters::testing::on_named_inputs;

namespace {

ExportSource source(const Forward& forward) {
  ExportSource result;
  result.architecture = "Test";
  result.forward = on_named_inputs(forward);
  return result;
}

}  // namespace

Exported::Exported(Forward forward, const Tensors& samples, const ExportSettings& settings)
    : forward_(std::move(forward)) {
  [[maybe_unused]] static const bool registered = (register_onnx_backend(), true);
  OnnxConfig config;
  config.dynamic = true;
  config.opset_version = settings.opset;
  config.disabled_passes = settings.disabled_passes;
  config.ort_fusions = settings.ort_fusions;
  const ExportedModel exported = OnnxExporter().export_model(source(forward_), named(samples), config);
  effects_ = exported.component().effects;
  model_ = *dynamic_cast<const OnnxProgram&>(*exported.component().program).model();
  const auto folder = scratch_folder();
  exported.save_pretrained(folder);
  loaded_ = std::make_shared<const ExportedModel>(ExportedModel::from_pretrained(folder));
}

Tensors Exported::run(const Tensors& inputs) const {
  Tensors outputs;
  for (const auto& [path, tensor] : (*loaded_)(named(inputs)).tensors()) {
    outputs.push_back(tensor);
  }
  return outputs;
}

void Exported::expect_as_eager(const std::vector<Tensors>& inputs, Tolerance tolerance) const {
  for (const Tensors& each : inputs) {
    const Tensors expected = forward_(each);
    const Tensors actual = run(each);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      std::ostringstream what;
      what << "output " << i << " of inputs like " << each[0] << "\nis " << actual[i] << "\nnot " << expected[i];
      ASSERT_EQ(actual[i].scalar_type(), expected[i].scalar_type()) << what.str();
      ASSERT_EQ(actual[i].sizes(), expected[i].sizes()) << what.str();
      const bool exact = !c10::isFloatingType(expected[i].scalar_type());
      EXPECT_TRUE(exact ? at::equal(actual[i], expected[i])
                        : at::allclose(actual[i], expected[i], tolerance.rtol, tolerance.atol, /*equal_nan=*/true))
          << what.str();
    }
  }
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
