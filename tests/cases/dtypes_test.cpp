// Dtypes: what ops promote to, which dtypes ids and masks may have, and how whole numbers divide.
#include "tests/cases/cases.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

namespace exporters::cases {
namespace {

at::Tensor bools(std::initializer_list<int> values) {
  return at::tensor(std::vector<int64_t>(values.begin(), values.end())).to(at::kBool);
}

TEST(Promotion, CumulativeSumsOfBoolAndInt32AreInt64) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{x[0].cumsum(1), x[1].cumsum(0), x[0].to(at::kInt).cumsum(1)};
                       },
                   .sample = {bools({1, 0, 1, 1, 1, 0}).view({2, 3}), at::randint(9, {4}, at::kInt)},
                   .others = {{bools({1, 1}).view({1, 2}), at::randint(9, {1}, at::kInt)},
                              {bools({1, 1, 0, 1}).view({4, 1}), at::full({3}, 2000000000, at::kInt)}}});
}

TEST(Promotion, SumsAndMeansOfWholeNumbers) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{x[0].sum(1), x[1].sum(), x[1].prod(), x[1] / 2, x[1] + 0.5, x[0] + x[0]};
                       },
                   .sample = {bools({1, 0, 1, 1, 1, 0}).view({2, 3}), at::randint(9, {4}, at::kInt)},
                   .others = {{bools({1, 1}).view({1, 2}), at::full({3}, 1000000, at::kInt)}}});
}

TEST(Promotion, AZeroDimTensorDoesNotWidenOthers) {
  expect_as_eager(
      {.forward =
           [](const Tensors& x) {
             return Tensors{x[0] * x[1], x[2] + x[1], x[0] + 1};
           },
       .sample = {at::randn({2, 3}).to(at::kHalf), at::tensor(2.0, at::kDouble), at::randint(9, {4}, at::kInt)},
       .others = {{at::randn({1, 1}).to(at::kHalf), at::tensor(-0.5, at::kDouble), at::randint(9, {2}, at::kInt)}},
       // float16 has 11 bits.
       .tolerance = 1e-3});
}

TEST(Ids, Int32IdsAndInt32Indices) {
  const at::Tensor table = at::randn({9, 4});
  expect_as_eager({.forward =
                       [table](const Tensors& x) {
                         return Tensors{at::embedding(table, x[0]), table.index_select(0, x[0].flatten()),
                                        table.index({x[0].to(at::kLong)})};
                       },
                   .sample = {at::randint(9, {2, 3}, at::kInt)},
                   .others = {{at::randint(9, {1, 1}, at::kInt)}, {at::randint(9, {3, 8}, at::kInt)}},
                   .parameters = {{"embedding.weight", table}}});
}

TEST(Masks, BoolFloatAndInt64MasksOfAttention) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         const at::Tensor float_mask = (1 - x[1].to(at::kFloat)) * -1e4;
                         const at::Tensor bool_mask = x[1].to(at::kBool);
                         const auto attend = [&](const at::Tensor& mask) {
                           return at::scaled_dot_product_attention(x[0], x[0], x[0], mask.unsqueeze(1).unsqueeze(1));
                         };
                         return Tensors{attend(float_mask), attend(bool_mask)};
                       },
                   .sample = {at::randn({2, 2, 3, 4}), at::tensor({1, 1, 0, 1, 1, 1}, at::kLong).view({2, 3})},
                   .others = {{at::randn({1, 2, 1, 4}), at::ones({1, 1}, at::kLong)},
                              {at::randn({3, 2, 5, 4}), at::ones({3, 5}, at::kLong)}}});
}

TEST(Masks, MaskedFillWithMasksOfEachDtype) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{x[0].masked_fill(x[1], -1), x[0].masked_fill(x[2].eq(0), 5),
                                        x[0].where(x[3].gt(0.5), x[0].new_zeros({}))};
                       },
                   .sample = {at::randn({2, 3}), bools({1, 0, 1}), at::tensor({0, 1, 2}, at::kInt), at::randn({2, 3})},
                   .others = {{at::randn({4, 1}), bools({1}), at::tensor({0}, at::kInt), at::randn({4, 1})}}});
}

// ── Whole-number division: the direction of rounding, signs, no detour through floating point ──

TEST(Division, RoundsAsEagerForEverySign) {
  const at::Tensor a = at::tensor({7, -7, 7, -7, 0, -1, 1, 6}, at::kLong);
  const at::Tensor b = at::tensor({2, 2, -2, -2, 3, 3, -3, -3}, at::kLong);
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{x[0].floor_divide(x[1]), x[0].div(x[1], "floor"), x[0].div(x[1], "trunc"),
                                        x[0].div(x[1]),          x[0].remainder(x[1]),    x[0].fmod(x[1]),
                                        x[0].remainder(3),       x[0].div(-3, "floor")};
                       },
                   .sample = {a, b},
                   .others = {{a.slice(0, 1, 2), b.slice(0, 1, 2)}}});
}

TEST(Division, NumbersBeyondADoublesPrecision) {
  const int64_t big = (int64_t{1} << 53) + 1;
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{x[0].div(x[1], "floor"), x[0].div(x[1], "trunc"), x[0].remainder(x[1])};
                       },
                   .sample = {at::tensor({big, -big, big + 2}, at::kLong), at::tensor({1, 1, 2}, at::kLong)},
                   .others = {{at::tensor({-big - 2}, at::kLong), at::tensor({2}, at::kLong)}}});
}

TEST(Division, Int32AndFloatingPointRemainders) {
  expect_as_eager(
      {.forward =
           [](const Tensors& x) {
             return Tensors{x[0].div(x[1], "floor"), x[0].remainder(x[1]),   x[2].remainder(1.5),
                            x[2].fmod(1.5),          x[2].div(0.7, "floor"), x[2].div(0.7, "trunc")};
           },
       .sample = {at::tensor({7, -7, 5}, at::kInt), at::tensor({2, 2, -3}, at::kInt), at::tensor({3.2, -3.2, 0.1})},
       .others = {{at::tensor({-9}, at::kInt), at::tensor({4}, at::kInt), at::tensor({-0.2})}}});
}

// ── float16 ──

TEST(Half, AMaskOfTheSmallestNumberStillLeavesOneKey) {
  const double smallest = -65504;
  expect_as_eager(
      {.forward =
           [smallest](const Tensors& x) {
             const at::Tensor mask = (1 - x[1]) * smallest;
             return Tensors{(x[0] + mask).softmax(-1)};
           },
       .sample = {at::full({2, 3}, -64).to(at::kHalf), at::tensor({1, 0, 0, 1, 1, 0}).view({2, 3}).to(at::kHalf)},
       .others = {{at::full({1, 5}, -64).to(at::kHalf), at::tensor({0, 0, 0, 1, 0}).view({1, 5}).to(at::kHalf)}},
       .tolerance = 1e-3});
}

TEST(Half, ASumBeyondTheRangeIsInfinite) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{x[0] + x[0], x[0].to(at::kFloat) + x[0]};
                       },
                   .sample = {at::full({2}, 40000).to(at::kHalf)},
                   .others = {{at::full({1}, -40000).to(at::kHalf)}},
                   .tolerance = 1e-3});
}

}  // namespace
}  // namespace exporters::cases
