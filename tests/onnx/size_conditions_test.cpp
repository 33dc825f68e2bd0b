#include "exporters/onnx/size_conditions.h"
#include "exporters/support/error.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters::onnx {
namespace {

using ::testing::HasSubstr;

// Two inputs of a model: ids [batch, sequence] and a mask of the same axes.
std::vector<OnnxValueInfo> infos() {
  const std::vector<OnnxDim> dims = {std::string("batch"), std::string("sequence")};
  return {{"ids", OnnxType::kInt64, dims}, {"mask", OnnxType::kInt64, dims}};
}

OnnxRunner::Inputs inputs(int64_t batch, int64_t sequence, int64_t mask_sequence) {
  return {{"ids", at::zeros({batch, sequence}, at::kLong)}, {"mask", at::zeros({batch, mask_sequence}, at::kLong)}};
}

SizeConditions through_metadata(const std::vector<BoolExpr>& conditions) {
  OnnxModel model;
  model.metadata = {{kSizeConditionsKey, SizeConditions(conditions).to_metadata()}};
  return SizeConditions::of(model.metadata);
}

std::string message(const SizeConditions& conditions, const OnnxRunner::Inputs& given) {
  try {
    conditions.check(infos(), given);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(SizeConditions, HoldAfterAWayThroughTheModelsMetadata) {
  const Expr batch{Symbol("batch")};
  const Expr sequence{Symbol("sequence")};
  const SizeConditions conditions = through_metadata({le(sequence, 512), ne(batch, 3)});

  EXPECT_EQ(message(conditions, inputs(2, 512, 512)), "no error");
  EXPECT_THAT(message(conditions, inputs(2, 513, 513)), HasSubstr("sequence is 513 (ids axis 1)"));
  EXPECT_THAT(message(conditions, inputs(3, 8, 8)), HasSubstr("Ne(batch, 3)"));
}

TEST(SizeConditions, OneNameHasOneSize) {
  EXPECT_THAT(message(SizeConditions(), inputs(2, 8, 7)),
              HasSubstr("'sequence' is 8 by ids axis 1, but 7 by mask axis 1"));
}

TEST(SizeConditions, SizesThatNoInputHasAreLeftToTheProgram) {
  EXPECT_EQ(message(through_metadata({le(Expr(Symbol("u0")), 4)}), inputs(1, 1, 1)), "no error");
}

TEST(SizeConditions, AnEntryThatIsNoListIsAnError) {
  OnnxModel model;
  model.metadata = {{kSizeConditionsKey, "{\"a\": 1}"}};
  EXPECT_THROW(SizeConditions::of(model.metadata), Error);
}

}  // namespace
}  // namespace exporters::onnx
