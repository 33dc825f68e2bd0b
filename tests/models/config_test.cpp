#include "exporters/models/config.h"

#include "tests/models/recorded.h"
#include "tests/support/temporary_folder.h"

namespace exporters::models {
namespace {

using testing::error_of;

TEST(Config, GettersGiveTheFieldOrTheDefault) {
  const ModelConfig config = ModelConfig::parse(
      R"({"model_type": "bert", "hidden_size": 24, "layer_norm_eps": 1e-12, "use_cache": false, "hidden_act": "relu",
          "pad_token_id": null})");
  EXPECT_EQ(config.model_type(), "bert");
  EXPECT_EQ(config.size("hidden_size", 768), 24);
  EXPECT_EQ(config.size("vocab_size", 30522), 30522);
  EXPECT_EQ(config.number("layer_norm_eps", 1.0), 1e-12);
  EXPECT_FALSE(config.flag("use_cache", true));
  EXPECT_EQ(config.string("hidden_act", "gelu"), "relu");
  // The reference's default is 0, but null says that there is none.
  EXPECT_EQ(config.optional_integer("pad_token_id", 0), std::nullopt);
  EXPECT_EQ(config.optional_integer("eos_token_id", 7), 7);
}

TEST(Config, WrongTypesAndSizesOutOfBoundsAreNamed) {
  const ModelConfig config = ModelConfig::parse(
      R"({"hidden_size": "24", "vocab_size": 0, "layers": -3, "big": 99999999999, "use_cache": 1, "eps": "x"})",
      "c.json");
  for (const char* field : {"hidden_size", "vocab_size", "layers", "big"}) {
    const std::string message = error_of([&] { config.size(field, 1); });
    EXPECT_NE(message.find(field), std::string::npos) << message;
    EXPECT_NE(message.find("c.json"), std::string::npos) << message;
  }
  EXPECT_NE(error_of([&] { config.flag("use_cache", true); }).find("use_cache"), std::string::npos);
  EXPECT_NE(error_of([&] { config.number("eps", 1); }).find("eps"), std::string::npos);
}

TEST(Config, LabelsAreCountedAsTheReferenceCounts) {
  EXPECT_EQ(ModelConfig::parse("{}").num_labels(), 2);
  EXPECT_EQ(ModelConfig::parse(R"({"num_labels": 5})").num_labels(), 5);
  const ModelConfig named = ModelConfig::parse(R"({"id2label": {"0": "no", "1": "maybe", "2": "yes"}})");
  EXPECT_EQ(named.num_labels(), 3);
  EXPECT_EQ(named.id2label().at(1), "maybe");
  EXPECT_NE(error_of([] {
              ModelConfig::parse(R"({"num_labels": 1, "problem_type": "single_label_classification"})").num_labels();
            }).find("problem_type"),
            std::string::npos);
  EXPECT_NE(error_of([] { ModelConfig::parse(R"({"id2label": {"a": "b"}})").id2label(); }).find("id2label"),
            std::string::npos);
}

TEST(Config, DtypeHasAnOldAndANewName) {
  EXPECT_EQ(ModelConfig::parse("{}").dtype(), std::nullopt);
  EXPECT_EQ(parse_dtype("torch.float64"), c10::ScalarType::Double);
  EXPECT_EQ(parse_dtype("bf16"), c10::ScalarType::BFloat16);
  EXPECT_EQ(parse_dtype("fp16"), c10::ScalarType::Half);
  EXPECT_EQ(ModelConfig::parse(R"({"torch_dtype": "float16"})").dtype(), c10::ScalarType::Half);
  EXPECT_EQ(ModelConfig::parse(R"({"dtype": "bfloat16", "torch_dtype": "float16"})").dtype(),
            c10::ScalarType::BFloat16);
  const std::string message = error_of([] { ModelConfig::parse(R"({"dtype": "float61"})").dtype(); });
  EXPECT_NE(message.find("\"float61\""), std::string::npos) << message;
  EXPECT_NE(message.find("'float16'"), std::string::npos) << message;
}

TEST(Config, WhatIsNotAnObjectIsRefused) {
  for (const char* text : {"", "[]", "3", "{", "{\"a\": 1,}", R"({"model_type": 3})", R"({"architectures": "Bert"})"}) {
    EXPECT_THROW(ModelConfig::parse(text), Error) << text;
  }
  const testing::TemporaryFolder empty;
  EXPECT_NE(error_of([&] { ModelConfig::load(empty.path()); }).find("config.json"), std::string::npos);
}

}  // namespace
}  // namespace exporters::models
