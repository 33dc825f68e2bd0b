#include "exporters/generation/decompose.h"

#include "tests/reference/generation_cases.h"
#include "tests/support/error_of.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using models::PreTrainedModel;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

std::shared_ptr<const PreTrainedModel> language_model(const std::string& family, const std::string& name) {
  return models::load(testing::reference_folder("decoders") / family / name);
}

std::shared_ptr<const PreTrainedModel> llama() { return language_model("llama", "LlamaForCausalLM_plain_0"); }

NamedInputs prompt(int64_t batch, int64_t length, bool with_mask = true) {
  NamedInputs inputs = {{"input_ids", at::full({batch, length}, 5, at::kLong)}};
  if (with_mask) {
    inputs.emplace_back("attention_mask", at::ones({batch, length}, at::kLong));
  }
  return inputs;
}

std::vector<std::string> names_of(const NamedInputs& inputs) {
  std::vector<std::string> names;
  for (const auto& [name, value] : inputs) {
    names.push_back(name);
  }
  return names;
}

const PyTree& cache_of(const GenerationComponent& component) { return component.inputs.back().second; }

TEST(Decompose, GivesTheReferencesComponentsWithTheirInputs) {
  const auto parts = decompose_for_generation(llama(), prompt(2, 9), {});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name, "prefill");
  EXPECT_THAT(names_of(parts[0].inputs), ElementsAre("input_ids", "attention_mask", "position_ids", "cache"));
  EXPECT_TRUE(cache_of(parts[0]).tensors().empty());
  EXPECT_EQ(parts[1].name, "decode");
  EXPECT_THAT(names_of(parts[1].inputs), ElementsAre("input_ids", "attention_mask", "position_ids", "cache"));
  EXPECT_THAT(parts[1].inputs[0].second.tensor().sizes(), ElementsAre(2, 1));
  EXPECT_THAT(parts[1].inputs[1].second.tensor().sizes(), ElementsAre(2, 10));
  const auto leaves = cache_of(parts[1]).tensors();
  ASSERT_EQ(leaves.size(), 4u);
  EXPECT_EQ(leaves[0].first, "layers.0.keys");
  EXPECT_THAT(leaves[0].second.sizes(), ElementsAre(2, 2, 9, 8));
}

TEST(Decompose, WithoutAMaskThereIsNoInputForOne) {
  const auto parts = decompose_for_generation(llama(), prompt(1, 1, /*with_mask=*/false), {});
  EXPECT_THAT(names_of(parts[0].inputs), ElementsAre("input_ids", "position_ids", "cache"));
  EXPECT_THAT(names_of(parts[1].inputs), ElementsAre("input_ids", "position_ids", "cache"));
}

TEST(Decompose, AMultiTokenDecodeHasTwoTokens) {
  const auto parts = decompose_for_generation(llama(), prompt(1, 4), {}, {.multi_token_decode = true});
  EXPECT_THAT(parts[1].inputs[0].second.tensor().sizes(), ElementsAre(1, 2));
  EXPECT_THAT(parts[1].inputs[1].second.tensor().sizes(), ElementsAre(1, 6));
}

TEST(Decompose, MergedIsDecodeAlone) {
  const auto parts = decompose_for_generation(llama(), prompt(1, 4), {}, {.merged = true});
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].name, "decode");
}

TEST(Decompose, AStaticCacheHasItsRoomAndAMaskOverIt) {
  GenerationConfig config;
  config.static_cache = true;
  config.max_cache_len = 12;
  const auto parts = decompose_for_generation(llama(), prompt(2, 4), config);
  EXPECT_EQ(cache_of(parts[0]).type(), "transformers.cache_utils:StaticCache");
  EXPECT_THAT(parts[0].inputs[1].second.tensor().sizes(), ElementsAre(2, 1, 4, 12));
  const auto leaves = cache_of(parts[1]).tensors();
  ASSERT_EQ(leaves.size(), 6u);
  EXPECT_THAT(leaves[0].second.sizes(), ElementsAre(2, 2, 12, 8));
  EXPECT_EQ(leaves[2].first, "layers.0.cumulative_length");
  EXPECT_THAT(parts[1].inputs[1].second.tensor().sizes(), ElementsAre(2, 1, 1, 12));
}

// Layers with a window have the room of the others, and a mask of tokens, of which each kind of layer makes its own.
TEST(Decompose, AStaticCacheOfWindowsTakesAMaskOfTokens) {
  GenerationConfig config;
  config.static_cache = true;
  config.max_cache_len = 12;
  const auto parts =
      decompose_for_generation(language_model("gemma3_text", "Gemma3ForCausalLM_plain_0"), prompt(2, 4), config);
  EXPECT_THAT(parts[0].inputs[1].second.tensor().sizes(), ElementsAre(2, 4));
  EXPECT_THAT(parts[1].inputs[1].second.tensor().sizes(), ElementsAre(2, 5));
  for (const auto& [path, states] : cache_of(parts[1]).tensors()) {
    EXPECT_TRUE(states.dim() == 0 || states.size(2) == 12) << path;
  }
}

// With sizes that stay symbolic a layer with a window grows as the others do, and with fixed ones it keeps its window,
// as the reference's caches do.
TEST(Decompose, LayersWithAWindowGrowWhereSizesAreSymbolic) {
  const auto model = language_model("mistral", "MistralForCausalLM_window_0");
  const auto length = [&](bool dynamic) {
    const auto parts = decompose_for_generation(model, prompt(1, 9), {}, {.dynamic = dynamic});
    return cache_of(parts[1]).tensors()[0].second.size(2);
  };
  EXPECT_EQ(length(true), 9);
  EXPECT_EQ(length(false), 3);  // window - 1
}

// What decode takes is what prefill gives, class for class and number for number: one may be passed to the other also
// where contexts are compared, as torch.export does.
TEST(Decompose, DecodeTakesTheVeryCacheThatPrefillReturns) {
  const auto model = language_model("gemma3_text", "Gemma3ForCausalLM_plain_0");
  const auto parts = decompose_for_generation(model, prompt(2, 9), {});
  EXPECT_THAT(cache_of(parts[1]).context(), HasSubstr("DynamicSlidingWindowLayer"));
  EXPECT_THAT(cache_of(parts[1]).context(), HasSubstr("\"cumulative_length\": 0"));
}

TEST(Decompose, WhatCannotBeDoneIsSaid) {
  const auto error = [](const std::shared_ptr<const PreTrainedModel>& model, const NamedInputs& inputs,
                        const GenerationConfig& config, const DecomposeOptions& options = {}) {
    return error_of([&] { decompose_for_generation(model, inputs, config, options); });
  };
  EXPECT_THAT(error(language_model("llama", "LlamaModel_plain_0"), prompt(1, 4), {}), HasSubstr("cannot generate"));
  GenerationConfig uncached;
  uncached.use_cache = false;
  EXPECT_THAT(error(llama(), prompt(1, 4), uncached), HasSubstr("use_cache"));
  GenerationConfig no_length;
  no_length.static_cache = true;
  EXPECT_THAT(error(llama(), prompt(1, 4), no_length), HasSubstr("max_cache_len"));
  GenerationConfig small = no_length;
  small.max_cache_len = 4;
  EXPECT_THAT(error(llama(), prompt(1, 4), small), HasSubstr("max_cache_len is 4"));
  EXPECT_THAT(error(llama(), prompt(1, 4), {}, {.dynamic = false, .merged = true}), HasSubstr("dynamic sizes"));
  EXPECT_THAT(error(llama(), {}, {}), HasSubstr("'input_ids'"));
}

}  // namespace
}  // namespace exporters
