// Encoders of text, images and speech with every head, and a module of libtorch's own, exported once and run on
// ExecuTorch at other sizes.
#include "examples/own_module/speech_encoder.h"
#include "exporters/executorch/exporter.h"
#include "exporters/framework/module_source.h"
#include "exporters/models/loading.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"
#include "tests/reference/encoder_families.h"
#include "tests/support/exported_sizes.h"

#include <torch/utils.h>

namespace exporters::executorch {
namespace {

namespace fs = std::filesystem;

// float32 sums of some tens of terms in another order, over a few layers.
constexpr double kTolerance = 2e-5;

// Memory for the sizes that a test reaches, and no more.
void expect_as_eager(const fs::path& checkpoint, const models::SampleSize& sample, const std::string& backend) {
  const std::shared_ptr<const models::PreTrainedModel> model = models::load(checkpoint);
  const auto prepare = [&](ExecutorchConfig& config, const ExportSource& source, const NamedInputs&) {
    const models::ForwardArgs largest = model->sample_inputs({3, exporters::testing::long_sequence(*model)});
    config.backend = backend;
    config.max_dims = testing::named_sizes(source, exporters::testing::named_inputs(largest));
  };
  exporters::testing::expect_exported<ExecutorchExporter, ExecutorchConfig>(model, sample, kTolerance, prepare);
}

// ── Text, images, speech ──

class EncoderOnExecutorch : public exporters::testing::EncoderFamily {
 protected:
  static void SetUpTestSuite() { testing::use_executorch(); }
};

// Given samples of size 1, when each head and each config is exported once, then it runs at every size.
TEST_P(EncoderOnExecutorch, RunsAtOtherSizes) {
  size_t count = 0;
  for (const fs::path& checkpoint : covering_cases()) {
    expect_as_eager(checkpoint, {.batch = 1, .sequence = 1}, "xnnpack");
    ++count;
  }
  EXPECT_GE(count, 2u);
}

INSTANTIATE_TEST_SUITE_P(All, EncoderOnExecutorch, exporters::testing::encoder_families(),
                         exporters::testing::family_name);

class EncoderOnKernelsAlone : public EncoderOnExecutorch {};

TEST_P(EncoderOnKernelsAlone, RunsAtOtherSizesAfterALargerSample) {
  expect_as_eager(distinct_cases().front(), {.batch = 2, .sequence = 8}, "portable");
}

// One of each kind: positions of pairs of tokens, interpolated images, text beside images, convolutions over time.
INSTANTIATE_TEST_SUITE_P(Kinds, EncoderOnKernelsAlone,
                         ::testing::Values("encoders/deberta-v2", "vision/dinov2", "vision/clip", "speech/wav2vec2"),
                         exporters::testing::family_name);

// Given a model that interpolates its positions, when it is exported at one size of images, then it runs at others.
TEST(ImagesOnExecutorch, RunAtOtherSizes) {
  testing::use_executorch();
  const auto prepare = [](ExecutorchConfig& config, const ExportSource&, const NamedInputs&) {
    config.max_dims = {{"batch", 3}, {"height", 20}, {"width", 21}};
  };
  for (const char* name : {"Dinov2Model_plain_0", "Dinov2Backbone_plain_0", "Dinov2ForImageClassification_swiglu_0"}) {
    SCOPED_TRACE(name);
    exporters::testing::expect_exported_images<ExecutorchExporter, ExecutorchConfig>(
        models::load(exporters::testing::reference_folder("vision") / "dinov2" / name), kTolerance, prepare);
  }
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
