// Encoder-decoder models in the format "dynamo": traced once, saved, loaded, and run at other sizes.
#include "exporters/dynamo/exporter.h"
#include "tests/framework/exported_seq2seq.h"

#include <algorithm>
#include <mutex>

namespace exporters {
namespace {

class TracedSeq2Seq : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_dynamo_backend);
  }

  static ExportedModel export_to(const ExportSource& source, const NamedInputs& sample,
                                 const std::filesystem::path& folder) {
    DynamoConfig config;
    config.dynamic = true;
    DynamoExporter().export_model(source, sample, config).save_pretrained(folder);
    return ExportedModel::from_pretrained(folder);
  }
};

TEST_P(TracedSeq2Seq, RunsAtOtherSizesOfBatchSourceQueryAndCache) {
  const auto models = testing::seq2seq_models(GetParam());
  ASSERT_GE(models.size(), 2u);
  for (const auto& model : models) {
    testing::check_seq2seq_sizes(export_to, model);
  }
}

TEST_P(TracedSeq2Seq, AnEncodersOutputGoesThroughPrefillAndDecodeSteps) {
  testing::check_seq2seq_generation(export_to, testing::seq2seq_models(GetParam()).front());
}

INSTANTIATE_TEST_SUITE_P(All, TracedSeq2Seq,
                         ::testing::Values("t5", "mt5", "bart", "mbart", "marian", "m2m_100", "nllb-moe", "whisper"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Given a model in bfloat16, whose router computes in float32, when it is traced, then the cast that the router makes
// of its own classifier is left out, the program computes what the model does, and the model is as it was.
TEST(TracedNllbMoe, TheRoutersCastOfItsClassifierIsPatched) {
  static std::once_flag once;
  std::call_once(once, register_dynamo_backend);
  const auto checkpoint =
      testing::reference_folder("seq2seq") / "nllb-moe" / "NllbMoeForConditionalGeneration_plain_9_bfloat16";
  const testing::Seq2SeqSource model = models::load(checkpoint);
  const models::ForwardArgs sample = model->sample_inputs({.batch = 2, .sequence = 3, .source = 5});
  DynamoConfig config;
  config.dynamic = true;
  const ExportedModel exported =
      DynamoExporter().export_model(export_source(model), testing::named_inputs(sample), config);

  const std::vector<Effect>& effects = exported.components().front().second.effects;
  const auto patch = std::find_if(effects.begin(), effects.end(),
                                  [](const Effect& effect) { return effect.name == "patch_classifier_cast"; });
  ASSERT_NE(patch, effects.end());
  // One of the encoder's two layers is sparse, and both of the decoder's.
  ASSERT_EQ(patch->count, 3u);
  EXPECT_EQ(patch->places.front().module_path, "model.encoder.layers.1.ffn.router");

  const models::ForwardArgs args = testing::padded_sample(*model, {3, 4, 0, 7});
  const PyTree expected = (*models::load(checkpoint))(args);
  testing::expect_close((*model)(args), expected);
  testing::expect_close(exported(testing::named_inputs(args)), expected);
}

}  // namespace
}  // namespace exporters
