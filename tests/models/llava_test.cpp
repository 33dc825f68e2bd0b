#include "exporters/models/llava.h"

#include "exporters/models/registry.h"
#include "tests/models/decoder_recorded.h"
#include "tests/models/recorded.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace exporters::models {
namespace {

using testing::checkpoints;
using testing::error_of;
using testing::expect_recorded_calls;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

fs::path reference() { return testing::reference_folder("llava"); }

std::unique_ptr<PreTrainedModel> plain() { return load(reference() / "LlavaForConditionalGeneration_plain_0"); }

// Given checkpoints with towers of both kinds, three kinds of texts, one and two layers of features, with and without
// the first token, when they are called with no, one and several images in a row, padded left and right, and with the
// cache after that, then class, fields, the Nones among hidden states, caches and values are the reference's.
TEST(Llava, EqualsTheReference) { EXPECT_GT(expect_recorded_calls(reference()), 150u); }

TEST(Llava, HasTheReferencesStateInItsOrder) {
  for (const fs::path& folder : checkpoints(reference())) {
    SCOPED_TRACE(folder.filename().string());
    testing::expect_state(*load(folder), folder);
  }
  EXPECT_EQ(testing::heads_listed("llava"), testing::heads_made(reference()));
}

TEST(Llava, SamplesRunWithAndWithoutACache) {
  for (const fs::path& folder : checkpoints(reference())) {
    SCOPED_TRACE(folder.filename().string());
    for (const int64_t past : {0, 5}) {
      testing::expect_sample_runs(*load(folder), {.batch = 2, .sequence = 3, .past = past});
    }
  }
}

// The parts by themselves, put together by hand, are the model; their parameters are the model's own.
TEST(Llava, PartsComputeWhatTheModelDoes) {
  for (const char* name : {"plain", "layers", "scaled"}) {
    SCOPED_TRACE(name);
    const auto model = load(reference() / fmt::format("LlavaForConditionalGeneration_{}_0", name));
    const ForwardArgs sample = model->sample_inputs({.batch = 2, .sequence = 4});
    const ImageTextParts& parts = *model->image_text_parts();
    const PyTree encoded = (*parts.image_encoder)({{"pixel_values", sample.tensor("pixel_values")}});
    const at::Tensor selected = select_image_features(parts.features, encoded.at("hidden_states"));
    const at::Tensor features = (*parts.projector)({{"image_features", selected}}).tensor();
    const at::Tensor ids = sample.tensor("input_ids");
    const at::Tensor embeddings = (*parts.embed_tokens)({{"input_ids", ids}}).tensor();
    const at::Tensor merged = merge_image_features(embeddings, ids.eq(parts.features.image_token_id), features);
    const PyTree hidden = (*parts.language_model)({{"inputs_embeds", merged}});
    const at::Tensor logits = (*parts.lm_head)({{"input", hidden.at("last_hidden_state").tensor()}}).tensor();
    ForwardArgs without_mask{{"input_ids", ids}, {"pixel_values", sample.tensor("pixel_values")}};
    EXPECT_TRUE(at::equal(logits, (*model)(without_mask).at("logits").tensor()));

    const auto table = parts.embed_tokens->state();
    EXPECT_EQ(table.front().name, "weight");
    EXPECT_TRUE(table.front().source.has_value());
    bool found = false;
    for (const StateEntry& entry : model->state()) {
      found = found || entry.tensor.unsafeGetTensorImpl() == table.front().tensor.unsafeGetTensorImpl();
    }
    EXPECT_TRUE(found);
  }
}

TEST(Llava, ImagesThatDoNotFitTheirTokensAreAnErrorWithBothNumbers) {
  const auto model = plain();
  ForwardArgs args = model->sample_inputs({.batch = 2, .sequence = 4});
  args.set("pixel_values", at::rand({3, 3, 12, 12}));
  EXPECT_THAT(error_of([&] { (*model)(args); }), HasSubstr("18 image tokens, the images give 27 features"));
}

// Whoever runs a program without that check still refuses both too many features and too few.
TEST(Llava, MergingRefusesAnotherNumberOfFeatures) {
  const at::Tensor embeddings = at::full({1, 4, 2}, 7.0);
  const at::Tensor is_image = at::tensor({0, 1, 1, 0}).to(at::kBool).unsqueeze(0);
  const at::Tensor merged =
      merge_image_features(embeddings, is_image, at::tensor({1.F, 2.F, 3.F, 4.F}).reshape({1, 2, 2}));
  EXPECT_TRUE(at::equal(merged, at::tensor({7.F, 7.F, 1.F, 2.F, 3.F, 4.F, 7.F, 7.F}).reshape({1, 4, 2})));
  for (const int64_t count : {1, 3}) {
    EXPECT_ANY_THROW(merge_image_features(embeddings, is_image, at::rand({1, count, 2}))) << count;
  }
}

struct BadConfig {
  const char* config;
  const char* message;
};

TEST(Llava, ConfigValuesThatMakeNoSenseAreErrors) {
  for (const BadConfig& bad : {
           BadConfig{R"({"vision_feature_layer": 25})", "layer 25, the image encoder has 25 hidden states"},
           {R"({"vision_feature_layer": []})", "names no layer"},
           {R"({"vision_feature_select_strategy": "cls"})", "\"default\""},
           {R"({"vision_config": {"model_type": "pixtral"}})", "encoder of images"},
           {R"({"text_config": {"model_type": "lama"}})", "llama"},
           {R"({"projector_hidden_act": "gelo"})", "gelu"},
       }) {
    SCOPED_TRACE(bad.config);
    auto json = nlohmann::json::parse(bad.config);
    json["model_type"] = "llava";
    const std::string message = error_of([&] {
      const ModelConfig config = ModelConfig::parse(json.dump());
      find(config).make(config);
    });
    EXPECT_THAT(message, HasSubstr(bad.message));
  }
}

TEST(Llava, WhatTheConfigSaysIsNoArgument) {
  const auto model = plain();
  ForwardArgs args = model->sample_inputs({.sequence = 4});
  args.set("vision_feature_layer", PyTree(int64_t{1}));
  EXPECT_THAT(error_of([&] { (*model)(args); }), HasSubstr("the config says which layers"));
}

}  // namespace
}  // namespace exporters::models
