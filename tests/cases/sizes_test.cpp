// Sizes of the sample that must not stay in the program, and those that do and are said.
#include "tests/cases/cases.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters::cases {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v);
}

// ── A sample size of 1 or 0 ──

Case gram(at::Tensor sample) {
  const at::Tensor weight = at::randn({4, 4});
  return {.forward =
              [weight](const Tensors& x) {
                const at::Tensor y = at::linear(x[0], weight);
                return Tensors{at::bmm(y, y.transpose(1, 2))};
              },
          .sample = {std::move(sample)},
          .others = {{at::randn({5, 3, 4})}, {at::randn({32, 7, 4})}},
          .parameters = {{"fc.weight", weight}}};
}

TEST(SampleOfOne, BatchOfOneStaysDynamic) {
  const Case example = gram(at::randn({1, 3, 4}));

  EXPECT_THAT(static_axes(traced(example)), ElementsAre("x0 axis 2 = 4"));
  expect_as_eager(example);
}

TEST(SampleOfOne, ANamedBatchKeepsItsRange) {
  Case example = gram(at::randn({1, 3, 4}));
  example.dynamic_shapes = {{"x0", {{0, Dim::named("batch", 1, 32)}}}};

  const ExportedProgram program = traced(example);

  ASSERT_EQ(program.dim_names.size(), 1u);
  EXPECT_EQ(program.dim_names.begin()->second, "batch");
  EXPECT_EQ(program.range_constraints.at(program.dim_names.begin()->first), (Range{1, 32}));
  expect_as_eager(example);
}

TEST(SampleOfOne, BothAxesOfOneInAttention) {
  expect_as_eager({.forward = [](const Tensors& x) { return Tensors{attention(x[0], x[0], x[0]).flatten(2)}; },
                   .sample = {at::randn({1, 1, 1, 8})},
                   .others = {{at::randn({2, 3, 5, 8})}, {at::randn({3, 1, 4, 8})}}});
}

TEST(SampleOfOne, SqueezeOfAKnownAxisOnly) {
  expect_as_eager({.forward = [](const Tensors& x) { return Tensors{x[0].unsqueeze(1).squeeze(1) * 2}; },
                   .sample = {at::randn({1, 1})},
                   .others = {{at::randn({4, 1})}, {at::randn({1, 6})}}});
}

TEST(SampleOfZero, AnEmptyBatchStaysDynamic) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{(x[0] * 2).softmax(-1), x[0].sum(0)};
                       },
                   .sample = {at::randn({0, 3})},
                   .others = {{at::randn({1, 3})}, {at::randn({6, 5})}}});
}

Case decode_step(int64_t past, int64_t query) {
  return {.forward =
              [](const Tensors& x) {
                const at::Tensor keys = at::cat({x[0], x[2]}, 2);
                const at::Tensor values = at::cat({x[1], x[2]}, 2);
                return Tensors{attention(x[2], keys, values), keys, values};
              },
          .sample = {at::randn({1, 2, past, 4}), at::randn({1, 2, past, 4}), at::randn({1, 2, query, 4})},
          .others = {{at::randn({1, 2, 0, 4}), at::randn({1, 2, 0, 4}), at::randn({1, 2, 1, 4})},
                     {at::randn({3, 2, 5, 4}), at::randn({3, 2, 5, 4}), at::randn({3, 2, 1, 4})},
                     {at::randn({2, 2, 0, 4}), at::randn({2, 2, 0, 4}), at::randn({2, 2, 6, 4})}}};
}

TEST(SampleOfZero, ZeroLengthPastAndOneTokenQuery) { expect_as_eager(decode_step(0, 1)); }

TEST(SampleOfZero, APastOfFourRunsWithAnEmptyOne) { expect_as_eager(decode_step(4, 2)); }

// ── Batch and length inside shape arguments ──

TEST(InnerShapes, HeadsSplitAndMerged) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         const c10::SymInt batch = x[0].sym_size(0);
                         const c10::SymInt length = x[0].sym_size(1);
                         const at::Tensor heads = x[0].view_symint({batch, length, 2, 4}).transpose(1, 2);
                         return Tensors{heads.transpose(1, 2).reshape_symint({batch, length, 8})};
                       },
                   .sample = {at::randn({2, 3, 8})},
                   .others = {{at::randn({1, 1, 8})}, {at::randn({5, 9, 8})}}});
}

TEST(InnerShapes, ATokenExpandedToTheBatch) {
  const at::Tensor token = at::randn({1, 1, 4});
  expect_as_eager({.forward =
                       [token](const Tensors& x) {
                         return Tensors{at::cat({token.expand_symint({x[0].sym_size(0), -1, -1}), x[0]}, 1)};
                       },
                   .sample = {at::randn({1, 2, 4})},
                   .others = {{at::randn({4, 7, 4})}, {at::randn({3, 0, 4})}},
                   .parameters = {{"cls_token", token}}});
}

TEST(InnerShapes, RowsAndColumnsFolded) {
  expect_as_eager(
      {.forward =
           [](const Tensors& x) {
             const at::Tensor folded = x[0].reshape_symint({x[0].sym_size(0) * x[0].sym_size(1), x[0].sym_size(2)});
             return Tensors{folded, x[0].flatten(1), x[0].new_zeros_symint({x[0].sym_size(1), 2})};
           },
       .sample = {at::randn({2, 3, 4})},
       .others = {{at::randn({1, 5, 4})}, {at::randn({4, 1, 6})}}});
}

TEST(InnerShapes, AViewAroundAConvolution) {
  const at::Tensor weight = at::randn({3, 2, 3});
  expect_as_eager({.forward =
                       [weight](const Tensors& x) {
                         const c10::SymInt batch = x[0].sym_size(0);
                         const at::Tensor windows = x[0].view_symint({batch * x[0].sym_size(1), 2, x[0].sym_size(3)});
                         const at::Tensor y = at::conv1d(windows, weight, {}, /*stride=*/1, /*padding=*/1);
                         return Tensors{y.view_symint({batch, x[0].sym_size(1), 3, y.sym_size(2)})};
                       },
                   .sample = {at::randn({1, 2, 2, 8})},
                   .others = {{at::randn({3, 1, 2, 5})}, {at::randn({2, 4, 2, 11})}},
                   .parameters = {{"conv.weight", weight}}});
}

// ── Index helpers ──

TEST(IndexHelpers, FlippedTime) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{at::cat({x[0], x[0].flip({1})}, -1), x[0].flip({0, 1}).cumsum(1)};
                       },
                   .sample = {at::randn({2, 7, 3})},
                   .others = {{at::randn({1, 1, 3})}, {at::randn({4, 12, 3})}}});
}

TEST(IndexHelpers, PositionsFromArange) {
  const at::Tensor table = at::randn({64, 4});
  expect_as_eager(
      {.forward =
           [table](const Tensors& x) {
             const c10::SymInt length = x[0].sym_size(1);
             const at::Tensor positions = at::arange(c10::Scalar(length), at::TensorOptions(at::kLong));
             const at::Tensor backwards = at::arange(c10::Scalar(length - 1), -1, -1, at::TensorOptions(at::kLong));
             return Tensors{x[0] + table.index_select(0, positions), x[0] + table.index_select(0, backwards)};
           },
       .sample = {at::randn({2, 8, 4})},
       .others = {{at::randn({1, 33, 4})}, {at::randn({3, 1, 4})}},
       .parameters = {{"positions.weight", table}}});
}

TEST(IndexHelpers, LastTokenByLength) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         const at::Tensor last = x[1].sum(1).sub(1);
                         const at::Tensor rows = at::arange(c10::Scalar(x[0].sym_size(0)), last.options());
                         return Tensors{x[0].index({rows, last})};
                       },
                   .sample = {at::randn({2, 4, 3}), at::tensor({1, 1, 0, 0, 1, 1, 1, 1}, at::kLong).view({2, 4})},
                   .others = {{at::randn({1, 1, 3}), at::ones({1, 1}, at::kLong)},
                              {at::randn({5, 6, 3}), at::ones({5, 6}, at::kLong)}}});
}

// ── Axes tied by an affine relation ──

TEST(TiedAxes, AMaskLongerThanTheQueryByThePast) {
  const Case example = {.forward =
                            [](const Tensors& x) {
                              const at::Tensor recent = x[2].slice_symint(1, x[1].sym_size(1));
                              return Tensors{x[0] * recent.unsqueeze(-1)};
                            },
                        .sample = {at::randn({2, 3, 4}), at::randn({2, 5, 4}), at::rand({2, 8})},
                        .others = {{at::randn({2, 1, 4}), at::randn({2, 9, 4}), at::rand({2, 10})},
                                   {at::randn({1, 4, 4}), at::randn({1, 0, 4}), at::rand({1, 4})}}};

  EXPECT_THAT(static_axes(traced(example)), IsEmpty());
  expect_as_eager(example);
  EXPECT_THAT(interpreter_error(example, {at::randn({2, 3, 4}), at::randn({2, 5, 4}), at::rand({2, 9})}),
              HasSubstr("x2"));
}

TEST(TiedAxes, KeysOfPastAndPresentUnderOneMask) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         const at::Tensor keys = at::cat({x[0], x[1]}, 1);
                         return Tensors{(keys + x[2].unsqueeze(-1)).softmax(1)};
                       },
                   .sample = {at::randn({2, 3, 4}), at::randn({2, 1, 4}), at::randn({2, 4})},
                   .others = {{at::randn({1, 6, 4}), at::randn({1, 1, 4}), at::randn({1, 7})},
                              {at::randn({3, 2, 4}), at::randn({3, 5, 4}), at::randn({3, 7})}}});
}

// ── What is frozen is said ──

TEST(FrozenAxes, ALengthReadAsAPlainNumber) {
  const Case example = {.forward =
                            [](const Tensors& x) {
                              const int64_t length = x[0].size(1);
                              return Tensors{x[0].sum(1) / static_cast<double>(length)};
                            },
                        .sample = {at::randn({2, 6, 4})},
                        .others = {{at::randn({5, 6, 3})}}};

  EXPECT_THAT(static_axes(traced(example)), ElementsAre("x0 axis 1 = 6"));
  expect_as_eager(example);
  EXPECT_THAT(interpreter_error(example, {at::randn({2, 7, 4})}), HasSubstr("x0"));
  EXPECT_THAT(onnx_error(example, {at::randn({2, 7, 4})}), HasSubstr("x0"));
}

TEST(FrozenAxes, ANamedAxisThatWouldFreezeIsAnError) {
  const Case example = {.forward =
                            [](const Tensors& x) {
                              return Tensors{x[0].view({x[0].size(0), -1})};
                            },
                        .sample = {at::randn({2, 6, 4})},
                        .dynamic_shapes = {{"x0", {{0, Dim::named("batch")}}}}};

  const std::string message = error_of([&] { traced(example); });

  EXPECT_THAT(message, HasSubstr("batch"));
  EXPECT_THAT(message, HasSubstr("x0"));
}

TEST(FrozenAxes, ABroadcastOfOneIsStaticAndRefusesOthers) {
  const Case example = {.forward = [](const Tensors& x) { return Tensors{x[0] + x[1]}; },
                        .sample = {at::randn({4, 1}), at::randn({4, 3})},
                        .others = {{at::randn({2, 1}), at::randn({2, 8})}}};

  EXPECT_THAT(static_axes(traced(example)), ElementsAre("x0 axis 1 = 1"));
  expect_as_eager(example);
  EXPECT_THAT(interpreter_error(example, {at::randn({4, 3}), at::randn({4, 3})}), HasSubstr("x0"));
}

TEST(FrozenAxes, ABranchOnTheLengthIsAGuard) {
  const Case example = {
      .forward = [](const Tensors& x) { return Tensors{x[0].sym_size(1) > 16 ? x[0] * 2 : x[0] * 3}; },
      .sample = {at::randn({2, 8})},
      .others = {{at::randn({1, 16})}, {at::randn({3, 1})}}};

  expect_as_eager(example);
  EXPECT_THAT(interpreter_error(example, {at::randn({2, 24})}), HasSubstr("16"));
}

// ── Sizes that depend on data ──

TEST(DataDependentSizes, AttentionOverTheKeptSequences) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         const at::Tensor kept = x[1].nonzero().squeeze(1);
                         const at::Tensor rows = x[0].index_select(0, kept);
                         const at::Tensor mixed = attention(rows, rows, rows);
                         return Tensors{x[0].index_copy(0, kept, mixed)};
                       },
                   .sample = {at::randn({4, 3, 8}), at::tensor({1, 0, 1, 1}).to(at::kBool)},
                   .others = {{at::randn({2, 5, 8}), at::tensor({0, 1}).to(at::kBool)},
                              {at::randn({3, 1, 8}), at::tensor({0, 0, 0}).to(at::kBool)}}});
}

TEST(DataDependentSizes, KeptTokensThroughALinear) {
  const at::Tensor weight = at::randn({4, 4});
  expect_as_eager({.forward =
                       [weight](const Tensors& x) {
                         const at::Tensor kept = x[0].index({x[1]});
                         return Tensors{at::linear(kept, weight).relu(), x[0].index_put({x[1]}, kept * 2)};
                       },
                   .sample = {at::randn({2, 3, 4}), at::tensor({1, 0, 1, 0, 0, 1}).view({2, 3}).to(at::kBool)},
                   .others = {{at::randn({1, 4, 4}), at::ones({1, 4}, at::kBool)},
                              {at::randn({3, 2, 4}), at::zeros({3, 2}, at::kBool)}},
                   .parameters = {{"fc.weight", weight}}});
}

}  // namespace
}  // namespace exporters::cases
