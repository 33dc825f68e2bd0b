// Sessions whose models lie in one folder: weights, and what ONNX Runtime packs of them, are in memory once. Packed
// weights in a file of their own.
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/exporter.h"
#include "exporters/onnx/runner.h"
#include "tests/onnx/support.h"
#include "tests/support/error_of.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <fstream>

namespace exporters::onnx {
namespace {

using namespace testing;

constexpr int64_t kInputs = 2048;
constexpr int64_t kOutputs = 4096;
constexpr int64_t kWeightBytes = kInputs * kOutputs * 4;

// This process's memory that is no file's.
int64_t private_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) {
      return std::stoll(line.substr(8)) * 1024;
    }
  }
  throw std::runtime_error("/proc/self/status has no RssAnon");
}

OnnxModel product(const at::Tensor& weight) {
  OnnxModel model = linear_model(weight);
  model.graph.initializers[0].dims = {kInputs, kOutputs};
  model.graph.inputs[0].dims = std::vector<OnnxDim>{"batch", kInputs};
  model.graph.outputs[0].dims = std::vector<OnnxDim>{"batch", kOutputs};
  return model;
}

struct OnnxSharedWeights : ::testing::Test {
  std::filesystem::path folder = scratch_folder();
  at::Tensor weight = at::randn({kInputs, kOutputs});

  OnnxSharedWeights() { save_models({{"first.onnx", product(weight)}, {"second.onnx", product(weight)}}, folder); }

  OnnxRunner open(const char* name, bool share) const {
    OnnxRunnerOptions options;
    options.share_weights = share;
    return OnnxRunner(folder / name, options);
  }

  // What a second session needs beside the first.
  int64_t bytes_of_second(bool share) const {
    const OnnxRunner first = open("first.onnx", share);
    const int64_t before = private_bytes();
    const OnnxRunner second = open("second.onnx", share);
    const int64_t after = private_bytes();
    const at::Tensor x = at::randn({3, kInputs});
    const at::Tensor expected = first.run({{"x", x}})[0].second;
    EXPECT_TRUE(at::equal(second.run({{"x", x}})[0].second, expected));
    EXPECT_TRUE(at::allclose(expected, x.mm(weight) + 1, 1e-4, 1e-3));  // sums of 2048 terms
    return after - before;
  }
};

TEST_F(OnnxSharedWeights, PackedWeightsAreInMemoryOnce) {
  EXPECT_GT(bytes_of_second(/*share=*/false), kWeightBytes / 2);
  EXPECT_LT(bytes_of_second(/*share=*/true), kWeightBytes / 4);
}

// Weights that were written anew are not those of a session that is still open.
TEST_F(OnnxSharedWeights, ChangedFilesAreReadAgain) {
  const OnnxRunner before = open("first.onnx", true);
  save_models({{"first.onnx", product(weight * 2)}, {"second.onnx", product(weight * 2)}}, folder);
  const OnnxRunner after = open("second.onnx", true);
  const at::Tensor x = at::randn({1, kInputs});
  EXPECT_TRUE(at::allclose(before.run({{"x", x}})[0].second, x.mm(weight) + 1, 1e-4, 1e-3));
  EXPECT_TRUE(at::allclose(after.run({{"x", x}})[0].second, x.mm(weight * 2) + 1, 1e-4, 2e-3));
}

// The runner of a component takes the same options.
TEST_F(OnnxSharedWeights, ComponentsTakeOptions) {
  register_onnx_backend();
  const ExportedComponent component = OnnxExporter().open_program(folder / "first.onnx");
  const at::Tensor x = at::randn({2, kInputs});
  OnnxRunnerOptions unpacked;
  unpacked.session_config = {{"session.disable_prepacking", "1"}};
  unpacked.threads = 1;
  OnnxComponentRunner shared(component);  // there is a second one beside it
  OnnxComponentRunner alone(component, unpacked);
  EXPECT_TRUE(at::allclose(shared.run({{"x", PyTree(x)}}).at("y").tensor(),
                           alone.run({{"x", PyTree(x)}}).at("y").tensor(), 1e-4, 1e-3));
  OnnxRunnerOptions unknown;
  unknown.providers = {{"QuantumExecutionProvider", {}}};
  EXPECT_THAT(exporters::testing::error_of([&] { OnnxComponentRunner(component, unknown); }),
              ::testing::HasSubstr("Quantum"));
}

struct OnnxPackedWeights : OnnxSharedWeights {
  std::filesystem::path packed = folder / "packed";

  OnnxRunner open_packed() const {
    OnnxRunnerOptions options;
    options.packed_weights = packed;
    return OnnxRunner(folder / "first.onnx", options);
  }
  std::string open_error() const {
    return exporters::testing::error_of([&] { open_packed(); });
  }
  std::filesystem::file_time_type made() const { return std::filesystem::last_write_time(packed / "packed.onnx"); }
};

TEST_F(OnnxPackedWeights, AreMappedFromTheirFile) {
  const at::Tensor x = at::randn({3, kInputs});
  const at::Tensor expected = open("first.onnx", false).run({{"x", x}})[0].second;
  EXPECT_TRUE(at::equal(open_packed().run({{"x", x}})[0].second, expected));
  const auto made_at = made();
  const int64_t before = private_bytes();
  const OnnxRunner again = open_packed();
  EXPECT_LT(private_bytes() - before, kWeightBytes / 4);
  EXPECT_TRUE(at::equal(again.run({{"x", x}})[0].second, expected));
  EXPECT_EQ(made(), made_at);
  EXPECT_EQ(again.inputs()[0].dims, (std::vector<OnnxDim>{"batch", kInputs}));
}

TEST_F(OnnxPackedWeights, AreMadeAnewForOtherWeights) {
  const at::Tensor x = at::randn({1, kInputs});
  open_packed();
  save_models({{"first.onnx", product(weight * 2)}}, folder);
  EXPECT_TRUE(at::allclose(open_packed().run({{"x", x}})[0].second, x.mm(weight * 2) + 1, 1e-4, 2e-3));
}

TEST_F(OnnxPackedWeights, AreCheckedAsOtherFilesAre) {
  open_packed();
  std::filesystem::resize_file(packed / "packed.onnx.data", kWeightBytes / 2);
  EXPECT_THAT(open_error(), ::testing::HasSubstr("packed.onnx.data"));
}

TEST_F(OnnxPackedWeights, DoNotReplaceOtherFiles) {
  std::filesystem::create_directory(packed);
  std::ofstream(packed / "thesis.txt") << "three years";
  EXPECT_THAT(open_error(), ::testing::HasSubstr("is not a folder of packed weights"));
  EXPECT_TRUE(std::filesystem::exists(packed / "thesis.txt"));
}

TEST_F(OnnxPackedWeights, AreForTheCpu) {
  OnnxRunnerOptions options;
  options.packed_weights = packed;
  options.providers = {{"CUDAExecutionProvider", {}}};
  EXPECT_THAT(exporters::testing::error_of([&] { OnnxRunner(folder / "first.onnx", options); }),
              ::testing::HasSubstr("are for the CPU"));
}

}  // namespace
}  // namespace exporters::onnx
