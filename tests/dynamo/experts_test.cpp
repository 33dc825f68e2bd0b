// Decoders with experts in the format "dynamo": no size is fixed by how many tokens an expert got.
#include "exporters/dynamo/exporter.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/graph/deferred_tensor.h"
#include "exporters/models/loading.h"
#include "exporters/pt2/load.h"
#include "exporters/weights/safetensors.h"
#include "tests/framework/exported_seq2seq.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/equal.h>

#include <algorithm>
#include <mutex>

namespace exporters {
namespace {

bool stores_experts_one_by_one(const std::filesystem::path& checkpoint) {
  const auto file = SafetensorsFile::open(checkpoint / "model.safetensors");
  return std::any_of(file->entries().begin(), file->entries().end(),
                     [](const SafetensorsEntry& entry) { return entry.name.find(".experts.0.") != std::string::npos; });
}

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

// Given a checkpoint that holds experts one by one, when it is exported, then no parameter of all experts is in memory,
// and the file holds what comes of one that loading has joined.
TEST_P(TracedExperts, AreJoinedAsTheyAreWritten) {
  static std::once_flag once;
  std::call_once(once, register_dynamo_backend);
  const std::filesystem::path checkpoint = testing::reference_folder("decoders") / GetParam();
  const std::shared_ptr<const models::PreTrainedModel> eager = models::load(checkpoint);
  const std::shared_ptr<const models::PreTrainedModel> deferred = models::load_for_export(checkpoint);
  size_t joined = 0;
  for (const models::StateEntry& entry : deferred->state()) {
    const DeferredConversion* conversion = deferred_conversion(entry.tensor);
    EXPECT_EQ(conversion != nullptr, !entry.source && !entry.is_buffer && entry.tied_to.empty()) << entry.name;
    joined += conversion != nullptr && conversion->parts.size() > 1 ? 1 : 0;
  }
  EXPECT_EQ(joined > 0, stores_experts_one_by_one(checkpoint));
  const auto exported = [&](const std::shared_ptr<const models::PreTrainedModel>& model,
                            const std::filesystem::path& file) {
    DynamoConfig config;
    const ExportedModel result = DynamoExporter().export_model(
        export_source(model), testing::named_inputs(model->sample_inputs({2, 5})), config);
    DynamoExporter().save_program(*result.component().program, file);
    return load_pt2(file);
  };
  const testing::TemporaryFolder folder;
  const auto from_eager = exported(eager, folder / "eager.pt2");
  const auto from_deferred = exported(deferred, folder / "deferred.pt2");
  EXPECT_EQ(from_eager->str(), from_deferred->str());
  ASSERT_EQ(from_eager->state.size(), from_deferred->state.size());
  for (const auto& [name, state] : from_eager->state) {
    EXPECT_TRUE(at::equal(from_deferred->state.at(name).tensor, state.tensor)) << name;
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
