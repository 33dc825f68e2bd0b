// Encoders of text with every head, and a module of libtorch's own, exported once and run on
// ExecuTorch at other sizes.
#include "examples/own_module/speech_encoder.h"
#include "exporters/executorch/exporter.h"
#include "exporters/framework/module_source.h"
#include "exporters/models/loading.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"
#include "tests/reference/folder.h"
#include "tests/support/exported_sizes.h"

#include <torch/utils.h>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;

// float32 sums of some tens of terms in another order, over a few layers.
constexpr double kTolerance = 2e-5;
constexpr int64_t kLargestBatch = 3;
constexpr int64_t kLargestLength = 64;

// Sizes that no test goes beyond, for a target of ExecuTorch.
exporters::testing::Prepare<ExecutorchConfig> bounded(const std::string& backend) {
  return [backend](ExecutorchConfig& config, const ExportSource& source, const NamedInputs& inputs) {
    config.backend = backend;
    config.max_dims = testing::largest_sizes(source, inputs, kLargestLength);
    config.max_dims["batch"] = kLargestBatch;
  };
}

void expect_as_eager(const fs::path& checkpoint, const models::SampleSize& sample, const std::string& backend) {
  exporters::testing::expect_exported<ExecutorchExporter, ExecutorchConfig>(models::load(checkpoint), sample,
                                                                            kTolerance, bounded(backend));
}

// Given samples of size 1, when heads of a family are exported once, then they run at every size.
TEST(EncoderOnExecutorch, RunsAtOtherSizes) {
  testing::use_executorch();
  size_t count = 0;
  for (const char* name : {"RobertaForMaskedLM_plain_0", "RobertaForQuestionAnswering_changed_0"}) {
    const fs::path checkpoint = exporters::testing::reference_folder("encoders") / "roberta" / name;
    expect_as_eager(checkpoint, {.batch = 1, .sequence = 1}, "xnnpack");
    ++count;
  }
  EXPECT_EQ(count, 2u);
}

// ── BERT ──

using BertCase = std::tuple<const char*, const char*>;  // class, target
class BertOnExecutorch : public ::testing::TestWithParam<BertCase> {};

TEST_P(BertOnExecutorch, RunsAtOtherSizes) {
  testing::use_executorch();
  const auto& [head, backend] = GetParam();
  size_t count = 0;
  for (const char* config : {"gelu", "relu", "gelu_new"}) {
    const fs::path checkpoint =
        exporters::testing::reference_folder("models") / "cases" / (std::string(head) + "_" + config + "_0");
    expect_as_eager(checkpoint, {.batch = 1, .sequence = 1}, backend);
    ++count;
  }
  EXPECT_EQ(count, 3u);
}

INSTANTIATE_TEST_SUITE_P(
    EveryHead, BertOnExecutorch,
    ::testing::Combine(::testing::Values("BertModel", "BertForMaskedLM", "BertForSequenceClassification",
                                         "BertForTokenClassification", "BertForQuestionAnswering",
                                         "BertForMultipleChoice", "BertForNextSentencePrediction",
                                         "BertForPreTraining"),
                       ::testing::Values("xnnpack", "portable")),
    [](const auto& info) { return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param); });

// ── A module of one's own ──

class OwnModuleOnExecutorch : public ::testing::TestWithParam<const char*> {};

TEST_P(OwnModuleOnExecutorch, RunsAtOtherSizes) {
  testing::use_executorch();
  const at::NoGradGuard no_grad;
  torch::manual_seed(0);
  SpeechEncoder encoder;
  encoder->eval();
  ExecutorchConfig config;
  config.backend = GetParam();
  config.dynamic_shapes = {{"mel", {{0, Dim::named("batch", 1, 4)}, {1, Dim::named("length", 1, 800)}}}};
  const fs::path folder = testing::scratch_folder();
  ExecutorchExporter()
      .export_model(export_source(encoder.ptr(), &SpeechEncoderImpl::forward), {{"mel", torch::randn({2, 40, kMels})}},
                    config)
      .save_pretrained(folder);
  const ExportedModel exported = ExportedModel::from_pretrained(folder);
  for (const auto& [batch, length] : {std::pair<int64_t, int64_t>(1, 40), {3, 1}, {4, 777}}) {
    const Tensor mel = torch::randn({batch, length, kMels});
    const Tensor expected = encoder(mel);
    const Tensor actual = exported({{"mel", mel}}).tensor();
    ASSERT_EQ(actual.sizes(), expected.sizes());
    EXPECT_LE((actual - expected).abs().max().item<double>(), 1e-4) << batch << " rows of " << length;
    testing::keep_for_python(folder / "model.pte", {mel}, {actual});
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, OwnModuleOnExecutorch, ::testing::Values("xnnpack", "portable"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace exporters::executorch
