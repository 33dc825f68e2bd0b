// Writes and reads through masks and indices.
#include "tests/cases/cases.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters::cases {
namespace {

using at::indexing::Slice;

at::Tensor bools(std::initializer_list<int> values) {
  return at::tensor(std::vector<int64_t>(values.begin(), values.end())).to(at::kBool);
}

at::Tensor copy(const at::Tensor& x) { return x.clone(); }

// Masks of every kind that index_put takes, for tensors [2, 3], [1, 4] and one that holds no true value.
Case masked_write(std::function<void(at::Tensor&, const Tensors&)> write) {
  return {.forward =
              [write](const Tensors& x) {
                at::Tensor y = copy(x[0]);
                write(y, x);
                return Tensors{y};
              },
          .sample = {at::randn({2, 3}), bools({1, 0, 1, 0, 1, 1}).view({2, 3}), bools({1, 0}), bools({0, 1, 1})},
          .others = {{at::randn({1, 4}), bools({1, 0, 1, 1}).view({1, 4}), bools({1}), bools({0, 1, 0, 1})},
                     {at::randn({3, 2}), at::zeros({3, 2}, at::kBool), bools({0, 0, 0}), bools({0, 0})}}};
}

TEST(MaskedWrites, ANumberWhereAMaskOfTheWholeShapeIsTrue) {
  expect_as_eager(masked_write([](at::Tensor& y, const Tensors& x) { y.index_put_({x[1]}, at::zeros({})); }));
}

TEST(MaskedWrites, ANumberIntoTheRowsOfAMask) {
  expect_as_eager(masked_write([](at::Tensor& y, const Tensors& x) { y.index_put_({x[2]}, at::full({}, 7.f)); }));
}

TEST(MaskedWrites, ANumberIntoTheColumnsOfAMask) {
  expect_as_eager(masked_write([](at::Tensor& y, const Tensors& x) {
    y.index_put_({Slice(), x[3]}, at::full({}, -1.f));
  }));
}

TEST(MaskedWrites, ARowIntoTheRowsOfAMask) {
  expect_as_eager(masked_write([](at::Tensor& y, const Tensors& x) { y.index_put_({x[2]}, x[0].select(0, 0)); }));
}

TEST(MaskedWrites, AccumulatedThroughAMask) {
  expect_as_eager(masked_write([](at::Tensor& y, const Tensors& x) {
    const c10::List<std::optional<at::Tensor>> indices({x[1]});
    y.index_put_(indices, at::full({}, 2.f), /*accumulate=*/true);
  }));
}

Case indexed_write(std::function<void(at::Tensor&, const Tensors&)> write) {
  return {.forward =
              [write](const Tensors& x) {
                at::Tensor y = copy(x[0]);
                write(y, x);
                return Tensors{y};
              },
          .sample = {at::randn({3, 5}), at::tensor({4, 0, -2}, at::kLong), at::randn({3, 3})},
          .others = {{at::randn({1, 8}), at::tensor({-1, 3}, at::kLong), at::randn({1, 2})},
                     {at::randn({2, 2}), at::zeros({0}, at::kLong), at::randn({2, 0})}}};
}

TEST(IndexedWrites, ColumnsWithNegativeIndices) {
  expect_as_eager(indexed_write([](at::Tensor& y, const Tensors& x) {
    const c10::List<std::optional<at::Tensor>> indices({std::optional<at::Tensor>(), x[1]});
    y.index_put_(indices, x[2]);
  }));
}

TEST(IndexedWrites, AccumulatedDuplicates) {
  Case example = indexed_write([](at::Tensor& y, const Tensors& x) {
    const c10::List<std::optional<at::Tensor>> indices({std::optional<at::Tensor>(), x[1]});
    y.index_put_(indices, x[2], /*accumulate=*/true);
  });
  example.sample[1] = at::tensor({4, 4, -1}, at::kLong);
  expect_as_eager(example);
}

TEST(IndexedWrites, TwoIndicesTogether) {
  expect_as_eager(indexed_write([](at::Tensor& y, const Tensors& x) {
    y.index_put_({at::zeros_symint({x[1].sym_size(0)}, x[1].options()), x[1]}, x[2].select(0, 0));
  }));
}

TEST(IndexedWrites, IndexCopyAddAndFill) {
  expect_as_eager(indexed_write([](at::Tensor& y, const Tensors& x) {
    const at::Tensor wrapped = x[1].remainder(c10::Scalar(x[0].sym_size(1)));
    y.copy_(y.index_copy(1, wrapped, x[2]).index_add(1, wrapped, x[2]).index_fill(1, wrapped, 0.5) + y);
  }));
}

// ── masked_scatter: row k of the source in the k-th true position ──

TEST(MaskedScatter, ABroadcastMaskKeepsTheOrder) {
  expect_as_eager(
      {.forward =
           [](const Tensors& x) {
             return Tensors{x[0].masked_scatter(x[1].unsqueeze(-1), x[2]),
                            x[0].masked_scatter(x[1].unsqueeze(-1).expand_symint(x[0].sym_sizes()), x[2])};
           },
       .sample = {at::zeros({1, 8, 4}), bools({0, 1, 1, 0, 0, 1, 0, 1}).view({1, 8}),
                  at::arange(16, at::kFloat).view({4, 4})},
       .others = {{at::zeros({2, 5, 4}), bools({0, 0, 1, 1, 1, 1, 0, 0, 0, 0}).view({2, 5}),
                   at::arange(16, at::kFloat).view({4, 4})},
                  {at::zeros({1, 3, 4}), bools({0, 0, 0}).view({1, 3}), at::arange(12, at::kFloat).view({3, 4})}}});
}

TEST(MaskedScatter, ASourceLongerThanTheMask) {
  expect_as_eager({.forward = [](const Tensors& x) { return Tensors{x[0].masked_scatter(x[1], x[2] * 2)}; },
                   .sample = {at::zeros({6}), bools({1, 0, 0, 1, 1, 0}), at::arange(9, at::kFloat)},
                   .others = {{at::zeros({2}), bools({0, 1}), at::arange(3, at::kFloat)}}});
}

// ── Reductions into slots ──

Case slots(std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)> reduce) {
  return {.forward = [reduce](const Tensors& x) { return Tensors{reduce(x[0], x[1], x[2])}; },
          .sample = {at::randn({5}), at::tensor({0, 1, 1, 3, 3, 3}, at::kLong), at::randn({6})},
          .others = {{at::randn({2}), at::tensor({1, 1, 1}, at::kLong), at::randn({3})},
                     {at::randn({3}), at::zeros({0}, at::kLong), at::randn({0})}}};
}

class ScatterReduce : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(ScatterReduce, AsEager) {
  const auto [mode, include_self] = GetParam();
  expect_as_eager(slots(
      [mode = mode, include = include_self](const at::Tensor& y, const at::Tensor& index, const at::Tensor& source) {
        return y.scatter_reduce(0, index, source, mode, include);
      }));
}

INSTANTIATE_TEST_SUITE_P(Modes, ScatterReduce,
                         ::testing::Combine(::testing::Values("sum", "prod", "mean", "amax", "amin"),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "WithSelf" : "WithoutSelf");
                         });

TEST(Scatter, AddAndPlain) {
  expect_as_eager(slots([](const at::Tensor& y, const at::Tensor& index, const at::Tensor& source) {
    return y.scatter_add(0, index, source) + y.scatter(0, index, 3);
  }));
}

// ── Repeats, sorting ──

TEST(Repeats, ByANumberByATensorAndAlongAnAxis) {
  expect_as_eager(
      {.forward =
           [](const Tensors& x) {
             return Tensors{x[0].repeat_interleave(2, 1), x[0].repeat_interleave(x[1], 0), at::repeat_interleave(x[1])};
           },
       .sample = {at::randn({3, 2}), at::tensor({1, 0, 2}, at::kLong)},
       .others = {{at::randn({1, 5}), at::tensor({4}, at::kLong)},
                  {at::randn({2, 1}), at::tensor({0, 0}, at::kLong)}}});
}

TEST(Sorting, ValuesOfTopkAndSortWithTies) {
  // Which of two equal elements comes first is not specified, so only values are compared; a stable sort is.
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         const auto stable = x[0].sort(/*stable=*/true, -1, /*descending=*/false);
                         return Tensors{std::get<0>(x[0].topk(2)), std::get<0>(x[0].sort(-1, true)),
                                        std::get<0>(stable), std::get<1>(stable)};
                       },
                   .sample = {at::randint(3, {2, 6}).to(at::kFloat)},
                   .others = {{at::randint(3, {1, 9}).to(at::kFloat)}, {at::randint(3, {4, 2}).to(at::kFloat)}}});
}

// ── Values whose leading axis is symbolic ──

Case column_write(int64_t batch) {
  const auto sample = [](int64_t n) { return Tensors{at::randn({n, 5}), at::randn({n, 2}), at::randn({n, 5})}; };
  return {.forward =
              [](const Tensors& x) {
                at::Tensor y = copy(x[0]);
                y.index_put_({Slice(), at::tensor({1, 3})}, x[1]);
                at::Tensor z = copy(x[0]);
                z.index_put_({Slice(), Slice()}, x[2]);
                return Tensors{y, z};
              },
          .sample = sample(batch),
          .others = {sample(1), sample(2), sample(4)}};
}

TEST(IndexedColumns, ABatchOfAnySizeTakesValuesOfItsOwn) {
  expect_as_eager(column_write(3));
  EXPECT_THAT(traced(column_write(3)).guards, ::testing::IsEmpty());
}

// Only the axis that meets the two fixed columns is static.
TEST(IndexedColumns, ASampleOfOneStaysDynamic) {
  expect_as_eager(column_write(1));
  EXPECT_THAT(static_axes(traced(column_write(1))), ::testing::ElementsAre("x1 axis 1 = 2"));
}

}  // namespace
}  // namespace exporters::cases
