// Encoder-decoder models, exported once and run in ONNX Runtime at other sizes.
#include "exporters/onnx/exporter.h"
#include "tests/framework/exported_seq2seq.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <mutex>

namespace exporters::onnx {
namespace {

class ExportedSeq2Seq : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_onnx_backend);
  }

  static ExportedModel export_to(const ExportSource& source, const NamedInputs& sample,
                                 const std::filesystem::path& folder) {
    OnnxConfig config;
    config.dynamic = true;
    OnnxExporter().export_model(source, sample, config).save_pretrained(folder);
    return ExportedModel::from_pretrained(folder);
  }
};

TEST_P(ExportedSeq2Seq, RunsAtOtherSizesOfBatchSourceQueryAndCache) {
  const auto models = testing::seq2seq_models(GetParam());
  ASSERT_GE(models.size(), 2u);
  for (const auto& model : models) {
    testing::check_seq2seq_sizes(export_to, model);
  }
}

TEST_P(ExportedSeq2Seq, AnEncodersOutputGoesThroughPrefillAndDecodeSteps) {
  testing::check_seq2seq_generation(export_to, testing::seq2seq_models(GetParam()).front());
}

INSTANTIATE_TEST_SUITE_P(All, ExportedSeq2Seq,
                         ::testing::Values("t5", "mt5", "bart", "mbart", "marian", "m2m_100", "nllb-moe", "whisper"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// https://github.com/huggingface/optimum-executorch/pull/230: encoders that were exported without their mask.
TEST(ExportedEncoder, TheMaskIsAnInputAndHidesPadding) {
  static std::once_flag once;
  std::call_once(once, register_onnx_backend);
  for (const char* family : {"t5", "bart"}) {
    SCOPED_TRACE(family);
    const testing::Seq2SeqSource model = testing::seq2seq_models(family).front();
    const testing::Seq2SeqSource encoder(model, model->encoder());
    OnnxConfig config;
    config.dynamic = true;
    const testing::TemporaryFolder folder;
    OnnxExporter()
        .export_model(export_source(encoder), testing::named_inputs(encoder->sample_inputs({.batch = 2, .source = 4})),
                      config)
        .save_pretrained(folder.path());
    const ExportedModel exported = ExportedModel::from_pretrained(folder.path());
    const auto states = [&](const models::ForwardArgs& args) {
      return exported(testing::named_inputs(args)).at("last_hidden_state").tensor();
    };
    const models::ForwardArgs whole = encoder->sample_inputs({.batch = 1, .source = 12});
    models::ForwardArgs padded = whole;
    padded.set("attention_mask", at::cat({at::ones({1, 7}, at::kLong), at::zeros({1, 5}, at::kLong)}, 1));
    models::ForwardArgs cut;
    for (const auto& [name, value] : whole) {
      cut.set(name, value.tensor().slice(1, 0, 7).contiguous());
    }
    const at::Tensor visible = states(padded).slice(1, 0, 7);
    EXPECT_LE(at::max(at::abs(visible - states(cut))).item().toDouble(), testing::kSeq2SeqTolerance);
    EXPECT_GT(at::max(at::abs(visible - states(whole).slice(1, 0, 7))).item().toDouble(), 1e-3);
  }
}

}  // namespace
}  // namespace exporters::onnx
