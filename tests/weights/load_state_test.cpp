#include "exporters/weights/load_state.h"

#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "tests/support/temporary_folder.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::TemporaryFolder;

class LoadStateTest : public ::testing::Test {
 protected:
  Checkpoint checkpoint(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
    save_safetensors(folder_ / "model.safetensors", tensors);
    return Checkpoint::open(folder_.path());
  }

  static std::string error_of(const ParameterMatch& match, const Checkpoint& checkpoint) {
    try {
      require_complete(match, checkpoint, "BertModel");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder_;
};

TEST_F(LoadStateTest, EqualNamesAndShapesMatch) {
  Checkpoint saved = checkpoint({{"a", at::zeros({2, 3})}, {"b", at::zeros(1)}});
  std::vector<ExpectedParameter> expected = {{"a", {2, 3}}, {"b", {1}}};

  ParameterMatch match = match_parameters(expected, saved);

  EXPECT_THAT(match.keys, ElementsAre(Pair("a", "a"), Pair("b", "b")));
  EXPECT_THAT(match.missing, IsEmpty());
  EXPECT_THAT(match.surplus, IsEmpty());
  EXPECT_EQ(error_of(match, saved), "no error");
}

TEST_F(LoadStateTest, AHeadFindsItsBaseInACheckpointOfTheBase) {
  Checkpoint saved = checkpoint({{"embeddings.weight", at::zeros(1)}});
  std::vector<ExpectedParameter> expected = {{"bert.embeddings.weight", {1}}};
  EXPECT_THAT(match_parameters(expected, saved, {.base_prefix = "bert"}).keys,
              ElementsAre(Pair("bert.embeddings.weight", "embeddings.weight")));
}

TEST_F(LoadStateTest, ABaseFindsItselfInACheckpointWithAHead) {
  Checkpoint saved = checkpoint({{"bert.embeddings.weight", at::zeros(1)}, {"cls.bias", at::zeros(1)}});
  std::vector<ExpectedParameter> expected = {{"embeddings.weight", {1}}};

  ParameterMatch match = match_parameters(expected, saved, {.base_prefix = "bert"});

  EXPECT_THAT(match.keys, ElementsAre(Pair("embeddings.weight", "bert.embeddings.weight")));
  EXPECT_THAT(match.surplus, ElementsAre("cls.bias"));
}

TEST_F(LoadStateTest, TheNameItselfComesBeforeTheOneWithAPrefix) {
  Checkpoint saved = checkpoint({{"w", at::zeros(1)}, {"bert.w", at::zeros(1)}});
  std::vector<ExpectedParameter> expected = {{"w", {1}}};
  EXPECT_THAT(match_parameters(expected, saved, {.base_prefix = "bert"}).keys, ElementsAre(Pair("w", "w")));
}

TEST_F(LoadStateTest, GammaAndBetaOfOldCheckpointsAreWeightAndBias) {
  Checkpoint saved = checkpoint({{"bert.x.LayerNorm.gamma", at::zeros(1)}, {"bert.x.LayerNorm.beta", at::zeros(1)}});
  std::vector<ExpectedParameter> expected = {{"x.LayerNorm.weight", {1}}, {"x.LayerNorm.bias", {1}}};
  EXPECT_THAT(match_parameters(expected, saved, {.base_prefix = "bert"}).keys,
              ElementsAre(Pair("x.LayerNorm.bias", "bert.x.LayerNorm.beta"),
                          Pair("x.LayerNorm.weight", "bert.x.LayerNorm.gamma")));
}

TEST_F(LoadStateTest, WhatIsMissingIsNamedWithNearKeys) {
  Checkpoint saved = checkpoint({{"encoder.wieght", at::zeros(1)}});
  std::vector<ExpectedParameter> expected = {{"encoder.weight", {1}}};

  ParameterMatch match = match_parameters(expected, saved);

  EXPECT_THAT(match.missing, ElementsAre("encoder.weight"));
  EXPECT_THAT(error_of(match, saved), AllOf(HasSubstr("lacks a parameter that BertModel needs: 'encoder.weight'"),
                                            HasSubstr("Did you mean 'encoder.wieght'?")));
}

TEST_F(LoadStateTest, AnOptionalParameterMayBeAbsent) {
  Checkpoint saved = checkpoint({{"embed.weight", at::zeros(1)}});
  std::vector<ExpectedParameter> expected = {{"embed.weight", {1}}, {"lm_head.weight", {1}, true}};

  ParameterMatch match = match_parameters(expected, saved);

  EXPECT_THAT(match.absent, ElementsAre("lm_head.weight"));
  EXPECT_EQ(error_of(match, saved), "no error");
}

TEST_F(LoadStateTest, AnotherShapeIsAnErrorWithBoth) {
  Checkpoint saved = checkpoint({{"w", at::zeros({2, 3})}});
  std::vector<ExpectedParameter> expected = {{"w", {3, 2}}};

  ParameterMatch match = match_parameters(expected, saved);

  EXPECT_THAT(match.keys, IsEmpty());
  EXPECT_THAT(error_of(match, saved), AllOf(HasSubstr("'w' of shape [3, 2]"), HasSubstr("'w' of shape [2, 3]")));
}

TEST_F(LoadStateTest, AnotherRankIsAnErrorEvenWithAsManyElements) {
  Checkpoint saved = checkpoint({{"w", at::zeros({1, 4})}});
  std::vector<ExpectedParameter> expected = {{"w", {4}}};
  EXPECT_THAT(error_of(match_parameters(expected, saved), saved), HasSubstr("'w' of shape [4]"));
}

TEST_F(LoadStateTest, SurplusKeysAreOneLine) {
  Checkpoint saved = checkpoint(
      {{"w", at::zeros(1)}, {"s1", at::zeros(1)}, {"s2", at::zeros(1)}, {"embeddings.position_ids", at::zeros(1)}});
  std::vector<ExpectedParameter> expected = {{"w", {1}}};
  std::vector<std::string> messages;
  set_log_sink([&](LogLevel, std::string_view text) { messages.emplace_back(text); });

  EXPECT_EQ(error_of(match_parameters(expected, saved), saved), "no error");
  set_log_sink({});

  EXPECT_THAT(messages, ElementsAre(AllOf(HasSubstr("does not use 2 tensors"), HasSubstr("'s1', 's2'"))));
}

TEST_F(LoadStateTest, SameBytesComparesDtypeShapeAndContent) {
  at::Tensor ones = at::full({70'000, 100}, 1.0);
  at::Tensor late = ones.clone();
  late[69'999][99] = 2;
  Checkpoint saved = checkpoint({{"a", ones},
                                 {"b", ones.clone()},
                                 {"late", late},
                                 {"flat", ones.reshape({-1})},
                                 {"int", at::full({70'000, 100}, 0x3f800000, at::kInt)}});
  const CheckpointEntry& a = *saved.find("a");

  EXPECT_TRUE(same_bytes(a, a));
  EXPECT_TRUE(same_bytes(a, *saved.find("b")));
  EXPECT_FALSE(same_bytes(a, *saved.find("late")));
  EXPECT_FALSE(same_bytes(a, *saved.find("flat")));
  EXPECT_FALSE(same_bytes(a, *saved.find("int")));
}

}  // namespace
}  // namespace exporters
