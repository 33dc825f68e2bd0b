// Programs that the reference exported of models of many families (tests/reference/make_pt2.py), as ONNX.
#include "exporters/framework/exported_model.h"
#include "exporters/framework/traced_program.h"
#include "exporters/onnx/exporter.h"
#include "exporters/pt2/load.h"
#include "exporters/weights/safetensors.h"
#include "tests/reference/folder.h"
#include "tests/support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace exporters::onnx {
namespace {

namespace fs = std::filesystem;
using exporters::testing::TemporaryFolder;

// Another runtime, with sums in another order, over a few layers.
constexpr double kTolerance = 1e-4;

/// "in0", "in1", … under the names of the program's inputs.
NamedInputs recorded_inputs(const SafetensorsFile& file, const std::vector<std::string>& paths) {
  NamedInputs inputs;
  for (size_t i = 0; i < paths.size(); ++i) {
    inputs.emplace_back(paths[i], file.tensor("in" + std::to_string(i)).clone());
  }
  return inputs;
}

void expect_recorded(const SafetensorsFile& file, const PyTree& result) {
  const auto outputs = result.tensors();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor expected = file.tensor("out" + std::to_string(i));
    const at::Tensor& actual = outputs[i].second;
    ASSERT_EQ(actual.sizes(), expected.sizes()) << outputs[i].first;
    ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << outputs[i].first;
    const at::Tensor error =
        (actual.to(at::kDouble) - expected.to(at::kDouble)).abs() / expected.to(at::kDouble).abs().clamp_min(1);
    EXPECT_LE(error.numel() == 0 ? 0 : error.max().item<double>(), kTolerance) << outputs[i].first;
  }
  EXPECT_EQ(file.find("out" + std::to_string(outputs.size())), nullptr) << "an output is missing";
}

class ReferenceProgram : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_onnx_backend);
  }
};

TEST_P(ReferenceProgram, GivesInOnnxRuntimeWhatTheModelGives) {
  const fs::path model = exporters::testing::reference_folder("pt2") / GetParam();
  const std::shared_ptr<ExportedProgram> program = load_pt2(model / "model.pt2");
  std::vector<std::string> paths;
  for (const LeafInfo& leaf : program->input_leaves()) {
    paths.push_back(leaf.path);
  }
  const TemporaryFolder folder;
  OnnxConfig config;
  OnnxExporter().export_model(traced_model(program), config).save_pretrained(folder / "out");
  const ExportedModel exported = ExportedModel::from_pretrained(folder / "out");
  OnnxComponentRunner runner(exported.component());

  size_t shapes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(model)) {
    if (entry.path().filename().native().starts_with("io_")) {
      SCOPED_TRACE(entry.path().filename());
      const auto file = SafetensorsFile::open(entry.path());
      expect_recorded(*file, runner.run(recorded_inputs(*file, paths)));
      ++shapes;
    }
  }
  EXPECT_GE(shapes, 1u);
}

INSTANTIATE_TEST_SUITE_P(EveryFamily, ReferenceProgram,
                         ::testing::Values("bert", "roberta", "distilbert", "albert", "deberta_v2", "mpnet",
                                           "modernbert", "gpt2", "llama", "mistral", "qwen3", "gemma2", "gpt_neox",
                                           "opt", "bloom", "mixtral", "qwen2_moe", "mamba", "mamba2", "t5", "bart",
                                           "whisper", "wav2vec2", "vit", "dinov2", "yolos", "beit", "swin", "convnext",
                                           "resnet", "regnet", "mobilenet_v2", "efficientnet", "segformer", "mobilevit",
                                           "clip", "siglip", "llava"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace exporters::onnx
