#include "exporters/generation/logits.h"

#include "exporters/models/operators.h"
#include "tests/reference/generation_cases.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/log.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

at::Generator seeded(uint64_t seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }

class Logits : public ::testing::Test {
 protected:
  std::shared_ptr<const SafetensorsFile> file_ =
      SafetensorsFile::open(testing::reference_folder("generation") / "logits.safetensors");
  at::Tensor ids_ = file_->tensor("ids");
  at::Tensor scores_ = file_->tensor("scores");
  nlohmann::json cases_ = nlohmann::json::parse(file_->metadata().at("cases"));
};

// Given scores with ties, and the settings of all processors alone and together, when they go through ours and through
// transformers', then every number is the same, and so are the tokens drawn with the same seed.
TEST_F(Logits, AreTransformersToTheLastBit) {
  const int64_t prompt = 6;
  const at::Tensor first_token = file_->tensor("mask").to(at::kInt).argmax(1);
  ASSERT_GT(cases_.size(), 10u);
  for (size_t i = 0; i < cases_.size(); ++i) {
    SCOPED_TRACE(cases_[i].dump());
    nlohmann::json settings = {{"do_sample", true}};
    settings.update(cases_[i]);
    const GenerationConfig config = read_generation_config("{}", "", testing::settings_of(settings));
    const LogitsProcessors processors(config, {prompt, settings.value("max_length", int64_t{30}), first_token});
    const at::Tensor scores = processors(ids_, scores_);
    EXPECT_TRUE(at::equal(scores, file_->tensor(std::to_string(i) + ".scores")));
    EXPECT_TRUE(
        at::equal(choose_tokens(scores, config.do_sample, seeded(i)), file_->tensor(std::to_string(i) + ".tokens")));
  }
}

TEST_F(Logits, TheGivenScoresStayAsTheyAre) {
  const at::Tensor before = scores_.clone();
  const GenerationConfig config = read_generation_config(
      R"({"do_sample": true, "top_k": 3, "top_p": 0.5, "min_p": 0.2, "repetition_penalty": 2.0, "no_repeat_ngram_size": 1})",
      "");
  LogitsProcessors(config, {6, 30, {}})(ids_, scores_);
  EXPECT_TRUE(at::equal(scores_, before));
}

TEST(Sampling, DrawsByTheProbabilities) {
  const at::Tensor probabilities = at::tensor({0.5, 0.3, 0.15, 0.05}, at::kFloat);
  const int64_t draws = 20000;
  const at::Tensor tokens = choose_tokens(at::log(probabilities).expand({draws, 4}), true, seeded(1));
  const at::Tensor shares = at::bincount(tokens, {}, 4).to(at::kFloat) / static_cast<double>(draws);
  // Five standard deviations of the largest share: 5 · sqrt(0.25 / 20000).
  EXPECT_LT((shares - probabilities).abs().max().item<double>(), 0.018);
}

TEST(Sampling, ASeedGivesTheSameTokensAndAnotherSeedOthers) {
  const at::Tensor scores = at::zeros({8, 50});
  EXPECT_TRUE(at::equal(choose_tokens(scores, true, seeded(4)), choose_tokens(scores, true, seeded(4))));
  EXPECT_FALSE(at::equal(choose_tokens(scores, true, seeded(4)), choose_tokens(scores, true, seeded(5))));
}

}  // namespace
}  // namespace exporters
