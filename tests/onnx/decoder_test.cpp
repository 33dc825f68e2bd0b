// Decoder-only models with and without a cache, exported once and run in ONNX Runtime at other sizes.
#include "exporters/framework/exported_model.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/models/cache.h"
#include "exporters/models/operators.h"
#include "exporters/models/registry.h"
#include "exporters/onnx/exporter.h"
#include "tests/reference/generation_cases.h"
#include "tests/support/decoder_calls.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/warnings.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace exporters::onnx {
namespace {

using models::ForwardArgs;
using models::PreTrainedModel;
using models::SampleSize;

using testing::arguments;
using testing::expect_same;
using testing::named;
using testing::padded;

constexpr double kTolerance = testing::kDecoderTolerance;

class ExportedDecoder : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_onnx_backend);
  }

  void SetUp() override {
    for (const auto& checkpoint : testing::language_models(GetParam())) {
      models_.push_back(models::load(checkpoint));
    }
    ASSERT_FALSE(models_.empty());
  }

  // Exports once for `sample` and runs at each of `sizes`.
  void check(const std::shared_ptr<const PreTrainedModel>& model, const SampleSize& sample,
             const std::vector<SampleSize>& sizes) {
    const ExportSource source = export_source(model, {}, /*with_cache=*/sample.past > 0);
    OnnxConfig config;
    config.dynamic = true;
    const testing::TemporaryFolder folder;
    {
      // The axes that the architecture fixes are no news.
      const testing::Warnings warnings;
      OnnxExporter().export_model(source, named(model->sample_inputs(sample)), config).save_pretrained(folder.path());
      EXPECT_EQ(warnings.texts, std::vector<std::string>());
    }
    const ExportedModel exported = ExportedModel::from_pretrained(folder.path());
    for (const SampleSize& size : sizes) {
      SCOPED_TRACE(fmt::format("sample ({}, {}, {}) at ({}, {}, {})", sample.batch, sample.sequence, sample.past,
                               size.batch, size.sequence, size.past));
      const ForwardArgs args = padded(*model, size);
      expect_same(exported(named(args)), (*model)(args), args.tensor("attention_mask"));
    }
  }

  std::vector<std::shared_ptr<const PreTrainedModel>> models_;
};

// Given samples of size 1 and of others, when the prefill is exported once, then it runs at every size.
TEST_P(ExportedDecoder, PrefillRunsAtOtherSizes) {
  for (const auto& model : models_) {
    check(model, {.batch = 1, .sequence = 1}, {{1, 1}, {3, 9}, {2, 20}});
    check(model, {.batch = 2, .sequence = 5}, {{1, 1}, {3, 12}});
  }
}

TEST_P(ExportedDecoder, DecodeRunsAtOtherSizesOfBatchQueryAndCache) {
  for (const auto& model : models_) {
    check(model, {.batch = 1, .sequence = 1, .past = 1}, {{1, 1, 1}, {3, 1, 7}, {2, 4, 12}});
    check(model, {.batch = 2, .sequence = 1, .past = 4}, {{1, 1, 15}, {3, 3, 2}});
  }
}

// Given an exported prefill and decode, when the cache goes from one to the other and on, past windows and the lengths
// at which ropes change, then each step is what the eager model computes with its own cache.
TEST_P(ExportedDecoder, ACacheGoesFromPrefillThroughDecodeSteps) {
  const auto& model = models_.front();
  const auto exported = [&](const SampleSize& sample, const testing::TemporaryFolder& folder) {
    const ExportSource source = export_source(model, {}, sample.past > 0);
    OnnxConfig config;
    config.dynamic = true;
    OnnxExporter().export_model(source, named(model->sample_inputs(sample)), config).save_pretrained(folder.path());
    return ExportedModel::from_pretrained(folder.path());
  };
  const testing::TemporaryFolder prefill_folder;
  const testing::TemporaryFolder decode_folder;
  const ExportedModel prefill = exported({.batch = 2, .sequence = 5}, prefill_folder);
  const ExportedModel decode = exported({.batch = 2, .sequence = 1, .past = 5}, decode_folder);

  const at::Tensor ids = model->sample_inputs({.batch = 2, .sequence = 13}).tensor("input_ids");
  const auto ones = [](int64_t length) { return at::ones({2, length}, at::kLong); };
  const NamedInputs prompt = {{"input_ids", ids.slice(1, 0, 6).contiguous()}, {"attention_mask", ones(6)}};
  PyTree output = prefill(prompt);
  PyTree eager = (*model)(arguments(prompt));
  for (int64_t length = 6; length < 13; ++length) {
    const auto step = [&](const PyTree& before) {
      return NamedInputs{{"input_ids", ids.slice(1, length, length + 1).contiguous()},
                         {"attention_mask", ones(length + 1)},
                         {"position_ids", at::full({2, 1}, length, at::kLong)},
                         {"cache", *before.find("cache")}};
    };
    output = decode(step(output));
    eager = (*model)(arguments(step(eager)));
    const at::Tensor difference = output.at("logits").tensor() - eager.at("logits").tensor();
    EXPECT_LE(at::max(at::abs(difference)).item().toDouble(), kTolerance) << length;
  }
}

// A decode step with room for 12 tokens, of which `past` are taken.
ForwardArgs with_static_cache(const PreTrainedModel& model, int64_t batch, int64_t queries, int64_t past) {
  ForwardArgs args = padded(model, {.batch = batch, .sequence = queries, .past = past});
  models::LayeredCache::Layers layers;
  const auto given = args.find("cache")->tensors();
  for (size_t i = 0; i + 1 < given.size(); i += 2) {
    const auto space = [&](const at::Tensor& states) {
      at::Tensor room = at::zeros({batch, states.size(1), 12, states.size(3)});
      room.slice(2, 0, past).copy_(states);
      return room;
    };
    layers.push_back(std::make_unique<models::StaticLayer>(12, space(given[i].second), space(given[i + 1].second),
                                                           at::full({}, past, at::kLong)));
  }
  args.set("cache", models::StaticCache(std::move(layers)).to_tree());
  return args;
}

// Given a cache of fixed length, when a decode step is exported, then it returns the cache with the new tokens in it,
// at every batch, query and number of tokens in the cache.
TEST(ExportedStaticCache, IsReturnedWithTheNewTokens) {
  static std::once_flag once;
  std::call_once(once, register_onnx_backend);
  const std::shared_ptr<const PreTrainedModel> model =
      models::load(testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0");
  OnnxConfig config;
  config.dynamic = true;
  const testing::TemporaryFolder folder;
  OnnxExporter()
      .export_model(export_source(model), named(with_static_cache(*model, 2, 1, 4)), config)
      .save_pretrained(folder.path());
  const ExportedModel exported = ExportedModel::from_pretrained(folder.path());
  for (const auto& [batch, queries, past] : {std::tuple(2, 1, 4), {1, 1, 9}, {3, 4, 2}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", batch, queries, past));
    // Each run has a cache of its own: eager layers write into it.
    const PyTree actual = exported(named(with_static_cache(*model, batch, queries, past)));
    const PyTree expected = (*model)(with_static_cache(*model, batch, queries, past));
    const auto ours = actual.tensors();
    const auto theirs = expected.tensors();
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_EQ(ours[i].second.sizes(), theirs[i].second.sizes()) << ours[i].first;
      const at::Tensor difference = (ours[i].second - theirs[i].second).to(at::kFloat);
      EXPECT_LE(at::max(at::abs(difference)).item().toDouble(), kTolerance) << ours[i].first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExportedDecoder,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma", "gemma2",
                                           "gemma3_text", "olmo2", "granite", "smollm3", "starcoder2", "gpt2",
                                           "gpt_neox", "opt", "phi", "mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Encoders, ExportedDecoder, ::testing::ValuesIn(testing::kCausalEncoders), testing::test_name);

}  // namespace
}  // namespace exporters::onnx
