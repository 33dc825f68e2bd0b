#include "exporters/passes/constant_folding.h"

#include "exporters/support/error.h"
#include "tests/graph/metadata.h"
#include "tests/passes/pass_fixture.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct ConstantFolding : PassTest {};

TEST_F(ConstantFolding, WhatFollowsFromBuffersIsComputedOnce) {
  Value* table = builder.call("aten.cos.default", {builder.buffer("freqs", at::randn({3}))});
  Value* steps = builder.call("aten.arange.default", {3});
  Value* row = builder.call("aten.mul.Tensor", {table, steps});
  auto program = builder.finish({builder.call("aten.add.Tensor", {x, row}), builder.call("aten.neg.default", {row})});
  EXPECT_EQ(fold_constants(*program), 4u);
  EXPECT_THAT(calls(*program->graph), ElementsAre("add"));
  expect_same_results(program);
}

TEST_F(ConstantFolding, WeightsLargeResultsAndRandomOnesStay) {
  Value* weight = builder.call("aten.neg.default", {builder.parameter("weight", at::randn({3}))});
  Value* large =
      builder.call("aten.expand.default", {builder.buffer("small", at::randn({1})), std::vector<Argument>{4096, 4096}});
  auto program = builder.finish({builder.call("aten.add.Tensor", {x, weight}), large});
  EXPECT_EQ(fold_constants(*program), 0u);
  expect_same_results(program);
  builder.call("aten.rand.default", {std::vector<Argument>{2}});
  EXPECT_EQ(fold_constants(*program), 0u);
}

// A view of a buffer is a constant of its own: the buffer's other bytes need not be written.
TEST_F(ConstantFolding, AFoldedViewDoesNotKeepTheWholeBuffer) {
  Value* first = builder.call("aten.slice.Tensor", {builder.buffer("table", at::randn({16, 3})), 0, 0, 1});
  auto program = builder.finish({builder.call("aten.mul.Tensor", {x, first})});
  EXPECT_EQ(fold_constants(*program), 1u);
  expect_same_results(program);
  EXPECT_EQ(program->state.at("folded." + first->name()).tensor.storage().nbytes(), 3 * sizeof(float));
}

TEST_F(ConstantFolding, AProgramWithInPlaceOpsIsRefused) {
  auto program = builder.finish({builder.call("aten.add_.Tensor", {x, 1})});
  EXPECT_THROW(fold_constants(*program), Error);
}

}  // namespace
}  // namespace exporters
