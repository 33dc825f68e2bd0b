// The loop over eager models, compared with transformers' generate, and over stages that only count.
#include "exporters/generation/generator.h"

#include "exporters/models/operators.h"
#include "tests/reference/generation_cases.h"
#include "tests/support/error_of.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

namespace exporters {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::GenerationCase;
using ::testing::HasSubstr;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

GenerationConfig config_for(const fs::path& checkpoint, const GenerationSettings& settings) {
  return read_generation_config(read_text(checkpoint / "generation_config.json"), read_text(checkpoint / "config.json"),
                                settings);
}

// ── Against the reference ──

class EagerGeneration : public ::testing::TestWithParam<const char*> {};

// Given the prompts of generate calls (greedy and sampled, padded batches and a single row, with stop tokens and
// without, with penalties and bans), when the eager model generates, then the tokens are the reference's.
TEST_P(EagerGeneration, GivesTheReferencesTokens) {
  for (const fs::path& checkpoint : testing::language_models(GetParam())) {
    const std::shared_ptr<const models::PreTrainedModel> model = models::load(checkpoint);
    size_t count = 0;
    for (const GenerationCase& recorded : testing::generation_cases(checkpoint)) {
      SCOPED_TRACE(checkpoint.filename().string() + " " + recorded.name);
      const GenerationConfig config = config_for(checkpoint, recorded.settings);
      const at::Tensor sequences = Generator(eager_stages(model, config), config).generate(recorded.inputs);
      EXPECT_TRUE(at::equal(sequences, recorded.sequences)) << sequences << recorded.sequences;
      ++count;
    }
    EXPECT_EQ(count, 5u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EagerGeneration, ::testing::ValuesIn(testing::kDecoderFamilies),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Encoders, EagerGeneration, ::testing::ValuesIn(testing::kCausalEncoders), testing::test_name);

// Images are in the prompt, and what follows it is text.
TEST(EagerImageText, GivesTheReferencesTokens) {
  const auto checkpoints = testing::image_text_generators();
  EXPECT_EQ(checkpoints.size(), 3u);
  for (const fs::path& checkpoint : checkpoints) {
    const std::shared_ptr<const models::PreTrainedModel> model = models::load(checkpoint);
    for (const GenerationCase& recorded : testing::generation_cases(checkpoint)) {
      SCOPED_TRACE(checkpoint.filename().string() + " " + recorded.name);
      const GenerationConfig config = config_for(checkpoint, recorded.settings);
      const at::Tensor sequences = Generator(eager_stages(model, config), config).generate(recorded.inputs);
      EXPECT_TRUE(at::equal(sequences, recorded.sequences)) << sequences << recorded.sequences;
    }
  }
}

class EagerSeq2Seq : public ::testing::TestWithParam<const char*> {};

// Encoders run once, decoders with both caches.
TEST_P(EagerSeq2Seq, GivesTheReferencesTokens) {
  const auto checkpoints = testing::conditional_generators(GetParam());
  ASSERT_FALSE(checkpoints.empty());
  for (const fs::path& checkpoint : checkpoints) {
    SCOPED_TRACE(checkpoint.filename().string());
    const GenerationCase recorded = testing::generation_case(checkpoint, "greedy");
    const GenerationConfig config = config_for(checkpoint, recorded.settings);
    const at::Tensor sequences =
        Generator(eager_stages(models::load(checkpoint), config), config).generate(recorded.inputs);
    EXPECT_TRUE(at::equal(sequences, recorded.sequences)) << sequences << recorded.sequences;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EagerSeq2Seq, ::testing::ValuesIn(testing::kSeq2SeqFamilies), [](const auto& info) {
  const std::string name = info.param;
  return name == "nllb-moe" ? std::string("nllb_moe") : name;
});

TEST(EagerGenerationWithStaticCache, GivesTheReferencesTokens) {
  for (const char* family : {"llama", "gpt2"}) {
    for (const fs::path& checkpoint : testing::language_models(family)) {
      SCOPED_TRACE(checkpoint.filename().string());
      GenerationCase recorded = testing::generation_case(checkpoint, "greedy");
      recorded.settings.emplace_back("cache_implementation", "static");
      const GenerationConfig config = config_for(checkpoint, recorded.settings);
      const auto stages = eager_stages(models::load(checkpoint), config);
      EXPECT_TRUE(at::equal(Generator(stages, config).generate(recorded.inputs), recorded.sequences));
    }
  }
}

TEST(EagerGenerationErrors, AHeadWithoutScoresOfTokensCannotGenerate) {
  const auto folder = testing::reference_folder("decoders") / "llama" / "LlamaForSequenceClassification_plain_0";
  const Generator generator(eager_stages(models::load(folder), {}), {});
  EXPECT_THAT(error_of([&] {
                generator.generate({{"input_ids", at::ones({1, 2}, at::kLong)}});
              }),
              HasSubstr("cannot generate"));
}

// ── The loop itself ──

constexpr int64_t kVocabulary = 10;

// The next token is the last one plus 1; records what it was called with.
struct Counter {
  std::vector<NamedInputs> calls;

  GenerationStages stages() {
    GenerationStages stages;
    stages.decode.takes = [](std::string_view) { return true; };
    stages.decode.run = [this](NamedInputs inputs) {
      const at::Tensor ids = inputs.front().second.tensor();
      at::Tensor logits = at::zeros({ids.size(0), ids.size(1), kVocabulary});
      logits.scatter_(2, ((ids + 1) % kVocabulary).unsqueeze(-1), 1.0);
      calls.push_back(std::move(inputs));
      return PyTree::object(
          "transformers.modeling_outputs.CausalLMOutputWithPast",
          {{"logits", logits}, {"cache", at::full({}, static_cast<int64_t>(calls.size()), at::kLong)}});
    };
    return stages;
  }
};

at::Tensor generate(Counter& counter, const GenerationSettings& settings, const NamedInputs& inputs,
                    const TokenCallback& on_tokens = {}) {
  return Generator(counter.stages(), read_generation_config("{}", "", settings)).generate(inputs, on_tokens);
}

NamedInputs two_rows() {
  return {{"input_ids", at::tensor({0, 2, 3, 5, 6, 7}, at::kLong).reshape({2, 3})},
          {"attention_mask", at::tensor({0, 1, 1, 1, 1, 1}, at::kLong).reshape({2, 3})}};
}

TEST(Generator, StagesGetWhatTheReferencesForwardGets) {
  Counter counter;
  generate(counter, {{"max_new_tokens", "3"}}, two_rows());
  ASSERT_EQ(counter.calls.size(), 3u);
  const auto tensor = [&](size_t call, const std::string& name) {
    for (const auto& [each, value] : counter.calls[call]) {
      if (each == name) {
        return value.tensor();
      }
    }
    throw std::runtime_error(name);
  };
  EXPECT_TRUE(at::equal(tensor(0, "position_ids"), at::tensor({0, 0, 1, 0, 1, 2}, at::kLong).reshape({2, 3})));
  EXPECT_TRUE(at::equal(tensor(2, "input_ids"), at::tensor({5, 9}, at::kLong).reshape({2, 1})));
  EXPECT_TRUE(at::equal(tensor(2, "position_ids"), at::tensor({3, 4}, at::kLong).reshape({2, 1})));
  EXPECT_TRUE(
      at::equal(tensor(2, "attention_mask"), at::tensor({0, 1, 1, 1, 1, 1, 1, 1, 1, 1}, at::kLong).reshape({2, 5})));
  EXPECT_EQ(tensor(2, "cache").item<int64_t>(), 2);  // what the call before gave
}

TEST(Generator, RowsThatEndArePaddedAndTheLastOneEndsAll) {
  Counter counter;
  const at::Tensor sequences =
      generate(counter, {{"max_new_tokens", "9"}, {"eos_token_id", "[8, 5]"}, {"pad_token_id", "0"}}, two_rows());
  EXPECT_TRUE(at::equal(sequences, at::tensor({0, 2, 3, 4, 5, 5, 6, 7, 8, 0}, at::kLong).reshape({2, 5}))) << sequences;
}

TEST(Generator, TokensAreGivenAsTheyComeAndMayStopIt) {
  Counter counter;
  std::vector<int64_t> seen;
  const at::Tensor sequences =
      generate(counter, {{"max_new_tokens", "9"}}, {{"input_ids", at::tensor({1}, at::kLong).reshape({1, 1})}},
               [&](const at::Tensor& tokens) {
                 seen.push_back(tokens.item<int64_t>());
                 return seen.size() < 3;
               });
  EXPECT_THAT(seen, ::testing::ElementsAre(2, 3, 4));
  EXPECT_EQ(sequences.size(1), 4);
}

TEST(Generator, PaddingIsToldByItsIdWhereThatEndsNoSequence) {
  Counter counter;
  const NamedInputs inputs = {{"input_ids", at::tensor({0, 2, 1, 1}, at::kLong).reshape({2, 2})}};
  generate(counter, {{"max_new_tokens", "1"}, {"pad_token_id", "0"}}, inputs);
  EXPECT_EQ(counter.calls[0][1].second.tensor().sum().item<int64_t>(), 3);
  generate(counter, {{"max_new_tokens", "1"}, {"pad_token_id", "0"}, {"eos_token_id", "0"}}, inputs);
  EXPECT_EQ(counter.calls[1][1].second.tensor().sum().item<int64_t>(), 4);
}

TEST(Generator, ACacheIsComputedAnewWhereItsTokensBegetOtherRotations) {
  Counter counter;
  GenerationStages stages = counter.stages();
  stages.cache_boundary = 4;
  Generator(stages, read_generation_config("{}", "", {{"max_new_tokens", "4"}})).generate(two_rows());
  std::vector<int64_t> queries;
  for (const NamedInputs& call : counter.calls) {
    queries.push_back(call.front().second.tensor().size(1));
  }
  EXPECT_THAT(queries, ::testing::ElementsAre(3, 1, 5, 1));
}

TEST(Generator, WhatCannotBeRightIsRefusedBeforeAnythingRuns) {
  Counter counter;
  const auto error = [&](const GenerationSettings& settings, const NamedInputs& inputs) {
    return error_of([&] { generate(counter, settings, inputs); });
  };
  EXPECT_THAT(error({}, {}), HasSubstr("needs 'input_ids'"));
  EXPECT_THAT(error({}, {{"input_ids", at::zeros({1, 0}, at::kLong)}}), HasSubstr("at least one token"));
  EXPECT_THAT(error({}, {{"input_ids", at::ones({1, 2})}}), HasSubstr("whole numbers"));
  EXPECT_THAT(error({}, {{"input_ids", at::ones({1, 2}, at::kLong)}, {"attention_mask", at::ones({1, 3}, at::kLong)}}),
              HasSubstr("one shape"));
  EXPECT_THAT(error({}, {{"input_ids", at::ones({1, 2}, at::kLong)}, {"pixel_mask", at::ones({1})}}),
              HasSubstr("no input 'pixel_mask'"));
  EXPECT_TRUE(counter.calls.empty());
}

TEST(Generator, ImagesAreRefusedWhereThePromptTakesNone) {
  Counter counter;
  GenerationStages stages = counter.stages();
  stages.decode.takes = [](std::string_view input) { return input != "pixel_values"; };
  const Generator generator(stages, read_generation_config("{}", "", {{"max_new_tokens", "2"}}));
  EXPECT_THAT(error_of([&] {
                generator.generate({{"input_ids", at::ones({1, 2}, at::kLong)}, {"pixel_values", at::ones({1})}});
              }),
              HasSubstr("no input 'pixel_values'"));
  EXPECT_TRUE(counter.calls.empty());
}

TEST(Generator, WithoutAMaskPaddedBatchesAreRefusedAndOthersRun) {
  Counter counter;
  GenerationStages stages = counter.stages();
  stages.decode.takes = [](std::string_view input) { return input != "attention_mask"; };
  const Generator generator(stages, read_generation_config("{}", "", {{"max_new_tokens", "2"}}));
  EXPECT_THAT(error_of([&] { generator.generate(two_rows()); }), HasSubstr("takes no attention_mask"));
  EXPECT_NO_THROW(generator.generate({{"input_ids", at::ones({2, 2}, at::kLong)}}));
}

TEST(Generator, ACacheOfFixedLengthHasToHoldAllTokensButTheLast) {
  Counter counter;
  GenerationStages stages = counter.stages();
  stages.max_cache_len = 5;
  const auto generator = [&](const char* tokens) {
    return Generator(stages, read_generation_config("{}", "", {{"max_new_tokens", tokens}}));
  };
  EXPECT_EQ(generator("3").generate(two_rows()).size(1), 6);
  EXPECT_THAT(error_of([&] { generator("4").generate(two_rows()); }), HasSubstr("room for 5"));
}

TEST(Generator, APreparedMaskCoversTheRoomOfTheCache) {
  Counter counter;
  GenerationStages stages = counter.stages();
  stages.max_cache_len = 5;
  stages.decode.prepared_mask = true;
  Generator(stages, read_generation_config("{}", "", {{"max_new_tokens", "2"}})).generate(two_rows());
  const at::Tensor prompt = counter.calls[0][1].second.tensor();
  EXPECT_EQ(prompt.sizes().vec(), (std::vector<int64_t>{2, 1, 3, 5}));
  EXPECT_TRUE(at::equal(prompt[0][0][2].to(at::kLong), at::tensor({0, 1, 1, 0, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(prompt[1][0][1].to(at::kLong), at::tensor({1, 1, 0, 0, 0}, at::kLong)));
  const at::Tensor step = counter.calls[1][1].second.tensor();
  EXPECT_TRUE(at::equal(step[0][0][0].to(at::kLong), at::tensor({0, 1, 1, 1, 0}, at::kLong)));
}

}  // namespace
}  // namespace exporters
