#include "exporters/graph/exported_program.h"
#include "exporters/passes/cse.h"
#include "exporters/passes/dead_code.h"
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

struct SimplePassesTest : PassTest {};

TEST_F(SimplePassesTest, DeadChainsAndListsAreRemoved) {
  Value* used = builder.call("aten.sin.default", {x});
  Value* split = builder.call("aten.split.Tensor", {builder.call("aten.cos.default", {x}), 2});
  builder.call("aten.add.Tensor", {split->elements()[0], 1});
  builder.call("aten.sym_size.int", {x, 0});
  auto program = builder.finish({used});
  EXPECT_EQ(eliminate_dead_code(*program->graph), 4u);
  EXPECT_THAT(calls(*program->graph), ElementsAre("sin"));
  expect_same_results(program);
}

TEST_F(SimplePassesTest, ListWithOneUsedElementStays) {
  Value* split = builder.call("aten.split.Tensor", {x, 2});
  auto program = builder.finish({split->elements()[1]});
  EXPECT_EQ(eliminate_dead_code(*program->graph), 0u);
  expect_same_results(program);
}

TEST_F(SimplePassesTest, EffectsStay) {
  builder.call("aten.add_.Tensor", {x, 1});
  builder.call("aten.rand_like.default", {x});
  Value* all = builder.call("aten.all.default", {builder.call("aten.isfinite.default", {x})});
  builder.node("aten._assert_async.msg", {all, "not finite"});
  builder.call("aten.cos.default", {x});
  auto program = builder.finish({x});
  EXPECT_EQ(eliminate_dead_code(*program->graph), 1u);
  EXPECT_THAT(calls(*program->graph), ElementsAre("add_", "rand_like", "isfinite", "all_1", "_assert_async"));
}

TEST_F(SimplePassesTest, EqualCallsAreMerged) {
  Value* a = builder.call("aten.sin.default", {builder.call("aten.add.Tensor", {x, 1}, {{"alpha", 2}})});
  Value* b = builder.call("aten.sin.default", {builder.call("aten.add.Tensor", {x, 1}, {{"alpha", 2}})});
  Value* first = builder.call("aten.split.Tensor", {x, 2});
  Value* second = builder.call("aten.split.Tensor", {x, 2});
  Value* sum = builder.call("aten.add.Tensor", {first->elements()[0], second->elements()[1]});
  auto program = builder.finish({builder.call("aten.mul.Tensor", {a, b}), sum});
  EXPECT_EQ(merge_common_subexpressions(*program->graph), 3u);
  EXPECT_THAT(calls(*program->graph), ElementsAre("add", "sin", "split", "add_2", "mul"));
  expect_same_results(program);
}

TEST_F(SimplePassesTest, CallsThatDifferInAConstantAreKept) {
  std::vector<Value*> values;
  for (const Argument& number : {Argument(1), Argument(1.0), Argument(true), Argument(0.0), Argument(-0.0)}) {
    values.push_back(builder.call("aten.mul.Tensor", {x, number}));
  }
  values.push_back(builder.call("aten.mul.Scalar", {x, 1}));
  Value* all = builder.call("aten.stack.default", {Argument(Argument::List(values.begin(), values.end()))});
  auto program = builder.finish({all});
  EXPECT_EQ(merge_common_subexpressions(*program->graph), 0u);
}

TEST_F(SimplePassesTest, RandomCallsAreNotMerged) {
  Value* a = builder.call("aten.rand_like.default", {x});
  Value* b = builder.call("aten.rand_like.default", {x});
  auto program = builder.finish({builder.call("aten.sub.Tensor", {a, b})});
  EXPECT_EQ(merge_common_subexpressions(*program->graph), 0u);
}

TEST_F(SimplePassesTest, ReturnedCallsAreKeptApart) {
  Value* a = builder.call("aten.sin.default", {x});
  Value* b = builder.call("aten.sin.default", {x});
  auto program = builder.finish({a, b});
  EXPECT_EQ(merge_common_subexpressions(*program->graph), 0u);
}

TEST_F(SimplePassesTest, GraphWithInPlaceOpsIsRefused) {
  builder.call("aten.add_.Tensor", {x, 1});
  auto program = builder.finish({x});
  try {
    merge_common_subexpressions(*program->graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("aten.add_.Tensor 'add_'"));
  }
}

TEST_F(SimplePassesTest, MergingIsLinear) {
  Value* value = x;
  for (int i = 0; i < 20'000; ++i) {
    Node* node = builder.program().graph->call("aten.add.Tensor", {value, 1});
    Value* one = builder.program().graph->add_output(node);
    one->meta() = x->meta();
    Value* two = builder.program().graph->add_output(builder.program().graph->call("aten.add.Tensor", {value, 1}));
    two->meta() = x->meta();
    Value* sum = builder.program().graph->add_output(builder.program().graph->call("aten.mul.Tensor", {one, two}));
    sum->meta() = x->meta();
    value = sum;
  }
  builder.program().graph->set_outputs({value});
  EXPECT_EQ(merge_common_subexpressions(*builder.program().graph), 20'000u);
}

}  // namespace
}  // namespace exporters
