// Decoders with experts in the format "dynamo": no size is fixed by how many tokens an expert got.
#include "exporters/dynamo/exporter.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/models/loading.h"
#include "tests/framework/exported_seq2seq.h"

#include <mutex>

namespace exporters {
namespace {

class TracedExperts : public ::testing::TestWithParam<const char*> {};

TEST_P(TracedExperts, RunAtOtherSizesOfBatchQueryAndCache) {
  static std::once_flag once;
  std::call_once(once, register_dynamo_backend);
  const testing::Seq2SeqSource model = models::load(testing::reference_folder("decoders") / GetParam());
  for (const models::SampleSize& sample : {models::SampleSize{1, 1}, {2, 5}, {1, 1, 1}, {2, 1, 4}}) {
    DynamoConfig config;
    config.dynamic = true;
    const ExportedModel exported =
        DynamoExporter().export_model(export_source(model, {}, /*with_cache=*/sample.past > 0),
                                      testing::named_inputs(model->sample_inputs(sample)), config);
    for (const auto& [batch, sequence] : {std::pair(1, 1), {3, 4}, {2, 11}}) {
      const models::ForwardArgs args = model->sample_inputs({batch, sequence, sample.past > 0 ? 3 : 0});
      // Eager layers with a sliding window keep less of the cache than traced ones.
      testing::expect_close(exported(testing::named_inputs(args)).at("logits"), (*model)(args).at("logits"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TracedExperts,
                         ::testing::Values("mixtral/MixtralForCausalLM_plain_0",
                                           "qwen2_moe/Qwen2MoeForCausalLM_mixed_0",
                                           "qwen3_moe/Qwen3MoeForCausalLM_plain_0",
                                           "gpt_oss/GptOssForCausalLM_plain_0"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('/'));
                         });

}  // namespace
}  // namespace exporters
