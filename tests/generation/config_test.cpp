#include "exporters/generation/config.h"

#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

GenerationConfig read(const std::string& generation, const std::string& model = {},
                      const GenerationSettings& settings = {}) {
  return read_generation_config(generation, model, settings);
}

TEST(GenerationConfig, HasTheReferencesDefaults) {
  const GenerationConfig config = read("{}");
  EXPECT_FALSE(config.do_sample);
  EXPECT_EQ(config.top_k, 50);
  EXPECT_EQ(config.temperature, 1.0);
  EXPECT_EQ(config.repetition_penalty, 1.0);
  EXPECT_TRUE(config.eos_token_id.empty());
  EXPECT_EQ(config.end_length(7), 27);
}

TEST(GenerationConfig, SettingsGoOverTheFile) {
  const GenerationConfig config =
      read(R"({"do_sample": true, "temperature": 0.6, "eos_token_id": [3, 4], "pad_token_id": 0})", {},
           {{"temperature", "0.9"}, {"eos_token_id", "7"}, {"pad_token_id", "null"}, {"seed", "5"}});
  EXPECT_EQ(config.temperature, 0.9);
  EXPECT_THAT(config.eos_token_id, ElementsAre(7));
  EXPECT_EQ(config.pad_token_id, std::nullopt);
  EXPECT_EQ(config.seed, 5u);
  EXPECT_EQ(
      nlohmann::json::parse(config.json),
      nlohmann::json::parse(R"({"do_sample": true, "temperature": 0.9, "eos_token_id": 7, "pad_token_id": null})"));
}

TEST(GenerationConfig, OlderCheckpointsHaveTheirFieldsInTheModelsConfig) {
  const std::string model = R"({"model_type": "llama", "eos_token_id": 2, "hidden_size": 8, "max_length": 12,
                                "max_position_embeddings": 15, "top_k": null})";
  const GenerationConfig alone = read("", model);
  EXPECT_THAT(alone.eos_token_id, ElementsAre(2));
  EXPECT_EQ(alone.end_length(3), 12);
  EXPECT_FALSE(nlohmann::json::parse(alone.json).contains("hidden_size"));
  // Where there is a generation config, the model's has no say, but for the default length.
  const GenerationConfig both = read("{}", model);
  EXPECT_TRUE(both.eos_token_id.empty());
  EXPECT_EQ(both.end_length(3), 15);
}

TEST(GenerationConfig, LengthsFollowTheReferencesRules) {
  EXPECT_EQ(read(R"({"max_length": 9})").end_length(5), 9);
  EXPECT_EQ(read(R"({"max_length": 9, "max_new_tokens": 30})").end_length(5), 35);
  EXPECT_THAT(error_of([] { read(R"({"max_length": 9})").end_length(9); }),
              HasSubstr("prompt has 9 tokens, and generation ends at 9"));
}

TEST(GenerationConfig, WhatIsNotImplementedIsRefused) {
  EXPECT_THAT(error_of([] { read(R"({"num_beams": 4})"); }), HasSubstr("beam search is not supported"));
  EXPECT_THAT(error_of([] { read("{}", {}, {{"guidance_scale", "1.5"}}); }), HasSubstr("guidance_scale"));
  EXPECT_THAT(error_of([] { read(R"({"cache_implementation": "quantized"})"); }), HasSubstr("cache is not supported"));
  // What counts for sampling only is refused only there.
  EXPECT_NO_THROW(read(R"({"typical_p": 0.5})"));
  EXPECT_THAT(error_of([] { read(R"({"typical_p": 0.5, "do_sample": true})"); }), HasSubstr("typical_p"));
}

TEST(GenerationConfig, WhatHasNoPartInTheTokensIsPassedOver) {
  EXPECT_NO_THROW(read(R"({"output_scores": true, "length_penalty": 2.0, "transformers_version": "5.24.0",
                           "some_field_of_a_hub_model": [1]})"));
}

TEST(GenerationConfig, WrongSettingsSayWhatIsAllowed) {
  EXPECT_THAT(error_of([] { read("{}", {}, {{"max_new_token", "5"}}); }), HasSubstr("max_new_tokens"));
  EXPECT_THAT(error_of([] { read("{}", {}, {{"some_field_of_a_hub_model", "5"}}); }), HasSubstr("has no setting"));
  EXPECT_THAT(error_of([] { read("{}", {}, {{"max_new_tokens", "many"}}); }), HasSubstr("max_new_tokens"));
  EXPECT_THAT(error_of([] { read("{}", {}, {{"max_new_tokens", "0"}}); }), HasSubstr("at least 1"));
  EXPECT_THAT(error_of([] {
                read("{}", {}, {{"do_sample", "true"}, {"temperature", "0"}});
              }),
              HasSubstr("set do_sample=false"));
  EXPECT_THAT(error_of([] { read("{}", {}, {{"do_sample", "true"}, {"top_p", "1.5"}}); }), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error_of([] { read("[1]"); }), HasSubstr("no JSON object"));
}

}  // namespace
}  // namespace exporters
