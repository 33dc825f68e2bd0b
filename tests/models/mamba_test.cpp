#include "exporters/models/mamba.h"

#include "exporters/models/decoder_families.h"
#include "exporters/models/registry.h"
#include "tests/models/decoder_recorded.h"
#include "tests/models/recorded.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace exporters::models {
namespace {

using testing::checkpoints;
using testing::error_of;
using testing::expect_recorded_calls;
using ::testing::HasSubstr;
using testing::largest_difference;

namespace fs = std::filesystem;

fs::path reference() { return testing::reference_folder("mamba"); }

std::unique_ptr<PreTrainedModel> plain() { return load(reference() / "MambaForCausalLM_plain_0"); }

// Given checkpoints with and without biases, of other kernels and ranks, when they are called with prompts shorter and
// longer than the kernel, padded left and right, and then token by token with the cache, then class, fields, the cache
// with its leaves and values are the reference's.
TEST(Mamba, EqualsTheReference) { EXPECT_GT(expect_recorded_calls(reference()), 150u); }

TEST(Mamba, HasTheReferencesStateInItsOrder) {
  for (const fs::path& folder : checkpoints(reference())) {
    SCOPED_TRACE(folder.filename().string());
    testing::expect_state(*load(folder), folder);
  }
  EXPECT_EQ(testing::heads_listed("mamba"), testing::heads_made(reference()));
}

TEST(Mamba, SamplesRunWithAndWithoutACache) {
  for (const fs::path& folder : checkpoints(reference())) {
    for (const int64_t past : {0, 5}) {
      testing::expect_sample_runs(*load(folder), {.batch = 2, .sequence = 3, .past = past});
    }
  }
}

// Several tokens after a cache are what they are one by one, or all at once from the start.
TEST(Mamba, SeveralTokensGoOnFromTheState) {
  const auto model = plain();
  const at::Tensor ids = model->sample_inputs({.batch = 2, .sequence = 11}).tensor("input_ids");
  const PyTree whole = (*model)({{"input_ids", ids}});
  const PyTree first = (*model)({{"input_ids", ids.slice(1, 0, 4)}});
  const PyTree rest = (*model)({{"input_ids", ids.slice(1, 4)}, {"cache", first.at("cache")}});
  EXPECT_LE(largest_difference(rest.at("logits").tensor(), whole.at("logits").tensor().slice(1, 4)), 1e-5);
  const auto expected = whole.at("cache").tensors();
  const auto actual = rest.at("cache").tensors();
  ASSERT_EQ(actual.size(), 4u);
  EXPECT_EQ(actual[1].first, "layers.0.recurrent_states.0");
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_LE(largest_difference(actual[i].second, expected[i].second), 1e-5) << actual[i].first;
  }
}

TEST(Mamba, WhatItCannotTakeIsAnError) {
  const auto model = plain();
  const at::Tensor ids = model->sample_inputs({.batch = 1, .sequence = 2}).tensor("input_ids");
  const PyTree output = (*model)({{"input_ids", ids}});
  EXPECT_THAT(error_of([&] {
                (*model)({{"input_ids", ids}, {"attention_mask", at::ones({1, 5})}});
              }),
              HasSubstr("attention_mask is [1, 5]"));
  EXPECT_THAT(error_of([&] {
                const auto other = load(reference() / "MambaForCausalLM_changed_0");
                (*other)({{"input_ids", ids}, {"cache", output.at("cache")}});
              }),
              HasSubstr("3 layers"));
  DynamicCache keys;
  keys.layer(1);
  EXPECT_THAT(error_of([&] { (*model)({{"input_ids", ids}, {"cache", keys.to_tree()}}); }), HasSubstr("holds keys"));
  const auto llama = load(testing::reference_folder("decoders") / "llama" / "LlamaForCausalLM_plain_0");
  EXPECT_THAT(error_of([&] {
                (*llama)({{"input_ids", ids}, {"cache", output.at("cache")}});
              }),
              HasSubstr("holds states"));
  EXPECT_THAT(error_of([&] { make_mamba(ModelConfig::parse(R"({"model_type": "mamba", "expand": 0})")); }),
              HasSubstr("expand"));
}

}  // namespace
}  // namespace exporters::models
