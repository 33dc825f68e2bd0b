// Programs as the framework holds them: saved, loaded, saved again.
#include "exporters/onnx/exporter.h"

#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/save.h"
#include "tests/onnx/support.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace exporters::onnx
