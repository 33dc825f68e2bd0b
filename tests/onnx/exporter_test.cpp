// Programs as the framework holds them: saved, loaded, saved again.
#include "exporters/onnx/exporter.h"

#include "exporters/framework/exported_model.h"
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/save.h"
#include "tests/onnx/support.h"
#include "tests/support/tensor_forward.h"
#include "tests/support/warnings.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gmock/gmock.h>

namespace exporters::onnx {
namespace {

using namespace testing;

TEST(OnnxProgram, ALoadedProgramIsSavedElsewhereWithItsWeights) {
  const auto folder = scratch_folder();
  std::filesystem::create_directories(folder / "other");
  const at::Tensor weight = at::randn({3, 2});
  save_model(linear_model(weight), folder / "m.onnx");
  const OnnxExporter exporter;

  exporter.save_program(*exporter.load_program(folder / "m.onnx"), folder / "other" / "n.onnx");

  const at::Tensor x = at::randn({4, 3});
  const OnnxRunner first(folder / "m.onnx");
  std::filesystem::remove(folder / "m.onnx.data");
  const OnnxRunner second(folder / "other" / "n.onnx");
  EXPECT_TRUE(at::allclose(second.run({{"x", x}})[0].second, first.run({{"x", x}})[0].second));
}

// A nested graph is shared by copies of a model; saving one must not change the other.
TEST(OnnxProgram, SavingTwiceWritesTheWeightsOfNestedGraphsTwice) {
  const auto folder = scratch_folder();
  OnnxModel model = linear_model(at::randn({3, 2}));
  auto body = std::make_shared<OnnxGraph>();
  body->initializers = {{"inner", OnnxType::kFloat, {100}, at::randn({100})}};
  model.graph.nodes[1].attributes.push_back({"body", body});

  save_model(model, folder / "a.onnx");
  save_model(model, folder / "b.onnx");

  EXPECT_EQ(read_bytes(folder / "a.onnx.data"), read_bytes(folder / "b.onnx.data"));
  EXPECT_GE(std::filesystem::file_size(folder / "b.onnx.data"), 400u);
}

// A range that the user gave, and that the model cannot take whole.
TEST(OnnxExporter, TellsThatItTakesNoEmptyTensors) {
  register_onnx_backend();
  ExportSource source;
  source.architecture = "Test";
  source.forward = exporters::testing::on_named_inputs([](const exporters::testing::Tensors& t) {
    return exporters::testing::Tensors{at::scaled_dot_product_attention(t[0], t[0], t[0])};
  });
  const auto warnings_from = [&](int64_t min) {
    OnnxConfig config;
    config.dynamic = true;
    config.dynamic_shapes = {{"x0", {{0, Dim::named("rows", min, 64)}}}};
    const exporters::testing::Warnings warnings;
    OnnxExporter().export_model(source, exporters::testing::named({at::randn({2, 4, 5, 8})}), config);
    return warnings.texts;
  };
  EXPECT_THAT(warnings_from(0), ::testing::ElementsAre(::testing::HasSubstr("rows >= 1 only")));
  EXPECT_THAT(warnings_from(1), ::testing::IsEmpty());
}

}  // namespace
}  // namespace exporters::onnx
