#include "tests/onnx/harness.h"

#include <ATen/ATen.h>

namespace exporters::onnx {
namespace {

using namespace testing;

at::Tensor x(at::IntArrayRef sizes) { return at::randn(sizes); }
at::Tensor ids(at::IntArrayRef sizes, int64_t below) { return at::randint(0, below, sizes, at::kLong); }
at::Tensor longs(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }
at::Tensor bools(at::IntArrayRef sizes) { return at::randint(0, 2, sizes).to(at::kBool); }

TEST(OnnxIndexing, EmbeddingGatherSelect) {
  expect_same([](const Tensors& t) { return Tensors{at::embedding(t[0], t[1])}; }, {x({7, 4}), ids({2, 3}, 7)},
              {{x({7, 4}), ids({1, 1}, 7)}, {x({7, 4}), ids({2, 0}, 7)}});
  expect_same([](const Tensors& t) { return Tensors{at::embedding(t[0], t[1])}; },
              {x({7, 4}), ids({5}, 7).to(at::kInt)});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::index_select(t[0], 1, t[1]), at::index_select(t[0], -2, t[1])};
      },
      {x({3, 4}), ids({5}, 3)});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::gather(t[0], 1, t[1]), at::gather(t[0], 0, t[1])};
      },
      {x({3, 4}), ids({2, 3}, 3)}, {{x({5, 4}), ids({1, 4}, 4)}});
  expect_same([](const Tensors& t) { return Tensors{at::take(t[0], t[1])}; }, {x({3, 4}), ids({2, 3}, 12)});
  expect_same([](const Tensors& t) { return Tensors{at::take_along_dim(t[0], t[1], 1)}; }, {x({3, 4}), ids({3, 2}, 4)});
}

TEST(OnnxIndexing, IndexTensorForms) {
  const auto index = [](std::vector<std::optional<at::Tensor>> indices, const at::Tensor& self) {
    c10::List<std::optional<at::Tensor>> list;
    for (auto& i : indices) list.push_back(i);
    return at::index(self, list);
  };
  const at::Tensor data = x({3, 4, 5});
  const at::Tensor negative = longs({-1, 0, -2});
  expect_same(
      [&](const Tensors& t) {
        return Tensors{index({t[1]}, t[0]), index({std::nullopt, t[1]}, t[0])};
      },
      {data, negative}, {{x({4, 3, 2}), longs({1, -3})}});
  expect_same(
      [&](const Tensors& t) {
        return Tensors{index({t[1], t[2]}, t[0]), index({std::nullopt, t[1], t[2]}, t[0])};
      },
      {data, ids({2, 3}, 3), ids({3}, 4)});
  expect_same(
      [&](const Tensors& t) {
        return Tensors{index({t[1], std::nullopt, t[2]}, t[0])};
      },
      {data, ids({2}, 3), ids({2}, 5)});
}

TEST(OnnxIndexing, DataDependentSizes) {
  const auto index = [](const at::Tensor& self, const at::Tensor& mask) {
    c10::List<std::optional<at::Tensor>> list;
    list.push_back(mask);
    return at::index(self, list);
  };
  expect_same([](const Tensors& t) { return Tensors{at::nonzero(t[0])}; }, {bools({3, 4})},
              {{at::zeros({3, 4}, at::kBool)}});
  expect_same([](const Tensors& t) { return Tensors{at::masked_select(t[0], t[1])}; }, {x({3, 4}), bools({3, 4})},
              {{x({2, 5}), bools({2, 5})}, {x({1, 4}), at::zeros({1, 4}, at::kBool)}});
  expect_same([&](const Tensors& t) { return Tensors{index(t[0], t[1])}; }, {x({3, 4}), bools({3})},
              {{x({5, 4}), bools({5})}});
}

TEST(OnnxIndexing, OneHot) {
  expect_same([](const Tensors& t) { return Tensors{at::one_hot(t[0], 5)}; }, {ids({2, 3}, 5)}, {{ids({1, 7}, 5)}});
}

// ── Writing ──

TEST(OnnxScatter, AlongAnAxis) {
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::scatter(t[0], 1, t[1], t[2]), at::scatter(t[0], 1, t[1], 2.5),
                       at::scatter_add(t[0], 1, t[1], t[2])};
      },
      {x({3, 4}), longs({0, 2, 1, 3, 3, 0}).view({3, 2}), x({3, 2})});
  expect_same([](const Tensors& t) { return Tensors{at::scatter_add(t[0], 0, t[1], t[2])}; },
              {x({3}), longs({1, 1, 1, 0}), x({4})});
}

TEST(OnnxScatter, ReduceInEveryMode) {
  for (const char* mode : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      const Forward forward = [=](const Tensors& t) {
        return Tensors{at::scatter_reduce(t[0], 0, t[1], t[2], mode, include_self)};
      };
      expect_same(forward, {x({5}), longs({0, 1, 1, 3, 3, 3}), x({6})}, {{x({5}), longs({4, 4, 4, 4, 4, 4}), x({6})}});
      expect_same(forward, {at::randint(-9, 9, {5}), longs({0, 1, 1, 3, 3, 3}), at::randint(-9, 9, {6})});
    }
  }
}

TEST(OnnxScatter, Rows) {
  const at::Tensor index = longs({2, 0});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::index_add(t[0], 1, t[1], t[2], 2), at::index_copy(t[0], 1, t[1], t[2]),
                       at::index_fill(t[0], 1, t[1], 3)};
      },
      {x({3, 4}), index, x({3, 2})});
  expect_same([](const Tensors& t) { return Tensors{at::index_add(t[0], 0, t[1], t[2])}; },
              {x({3, 4}), longs({1, 1, 2}), x({3, 4})});
}

at::Tensor assign(const at::Tensor& self, std::vector<std::optional<at::Tensor>> indices, const at::Tensor& values,
                  bool accumulate = false) {
  c10::List<std::optional<at::Tensor>> list;
  for (auto& i : indices) list.push_back(i);
  return at::index_put(self, list, values, accumulate);
}

TEST(OnnxIndexPut, Masks) {
  const auto scalar = at::tensor(0.0f);
  expect_same([](const Tensors& t) { return Tensors{assign(t[0], {t[1]}, t[2])}; }, {x({3, 4}), bools({3, 4}), scalar},
              {{x({2, 5}), at::zeros({2, 5}, at::kBool), scalar}});
  expect_same([](const Tensors& t) { return Tensors{assign(t[0], {t[1]}, t[2])}; }, {x({3, 4}), bools({3}), x({4})});
  expect_same(
      [](const Tensors& t) {
        return Tensors{assign(t[0], {std::nullopt, t[1]}, t[2])};
      },
      {x({3, 4}), bools({4}), scalar});
}

TEST(OnnxIndexPut, Integers) {
  expect_same(
      [](const Tensors& t) {
        return Tensors{assign(t[0], {t[1]}, t[2]), assign(t[0], {t[1]}, t[2], true)};
      },
      {x({5, 4}), longs({1, -1, 3}), x({3, 4})});
  expect_same([](const Tensors& t) { return Tensors{assign(t[0], {t[1]}, t[2], true)}; },
              {x({5, 4}), longs({1, 1, 1}), x({4})});
  expect_same(
      [](const Tensors& t) {
        return Tensors{assign(t[0], {std::nullopt, t[1]}, t[2])};
      },
      {x({5, 4}), longs({0, -1}), x({5, 2})});
  expect_same(
      [](const Tensors& t) {
        return Tensors{assign(t[0], {t[1], t[2]}, t[3])};
      },
      {x({5, 4, 3}), longs({0, 4}), longs({1, 2}), x({2, 3})});
  expect_same(
      [](const Tensors& t) {
        return Tensors{assign(t[0], {t[1], std::nullopt, t[2]}, t[3])};
      },
      {x({5, 4, 3}), longs({0, 4}), longs({1, 2}), x({2, 4})});
}

TEST(OnnxScatter, Slices) {
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::slice_scatter(t[0], t[1], 0, 1, 3), at::slice_scatter(t[0], t[1], 0, 0, 4, 2),
                       at::slice_scatter(t[0], t[1], 0, -2)};
      },
      {x({4, 3}), x({2, 3})});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::select_scatter(t[0], t[1], 1, -1), at::select_scatter(t[0], t[1], 1, 0)};
      },
      {x({4, 3}), x({4})}, {{x({2, 5}), x({2})}});
}

TEST(OnnxScatter, MaskedScatterKeepsTheSourceOrder) {
  at::Tensor mask = at::zeros({2, 5, 1}, at::kBool);
  mask[0][2] = true;
  mask[1][0] = true;
  mask[1][4] = true;
  expect_same([](const Tensors& t) { return Tensors{at::masked_scatter(t[0], t[1], t[2])}; },
              {x({2, 5, 4}), mask, x({6, 4})});
}

// ── Sorting and counting ──

TEST(OnnxSorting, SortAndTopk) {
  const auto sorts = [](const Tensors& t) {
    const auto [v, i] = at::sort(t[0], -1, true);
    const auto [v2, i2] = at::sort(t[0], 0);
    const auto [v3, i3] = at::topk(t[0], 2, -1);
    const auto [v4, i4] = at::topk(t[0], 2, 0, false);
    return Tensors{v, i, v2, i2, v3, i3, v4, i4, at::argsort(t[0], 1, false)};
  };
  expect_same(sorts, {x({3, 4})}, {{x({2, 7})}, {x({6, 2})}});
  // Ties: the lower index first when stable.
  expect_same(
      [](const Tensors& t) {
        const auto [v, i] = at::sort(t[0], /*stable=*/true, 0, true);
        return Tensors{v, i};
      },
      {longs({1, 3, 3, 1, 2, 3})});
  expect_same(
      [](const Tensors& t) {
        const auto [v, i] = at::kthvalue(t[0], 2, 1);
        return Tensors{v, i};
      },
      {x({3, 4})});
}

TEST(OnnxSorting, Searches) {
  const at::Tensor sorted = at::tensor({1.0f, 2.0f, 2.0f, 5.0f});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::bucketize(t[1], t[0]), at::bucketize(t[1], t[0], false, true), at::searchsorted(t[0], t[1]),
                       at::searchsorted(t[0], t[1], false, true)};
      },
      {sorted, at::tensor({0.0f, 1.0f, 2.0f, 2.5f, 5.0f, 9.0f}).view({2, 3})});
}

TEST(OnnxSorting, RepeatInterleave) {
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::repeat_interleave(t[0], 3, 1), at::repeat_interleave(t[0], 2)};
      },
      {x({2, 3})}, {{x({1, 5})}});
}

// ── Reductions ──

TEST(OnnxReductions, SumsMeansAndExtrema) {
  for (const bool keep : {false, true}) {
    for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{-1}, {0}, {0, 2}, {0, 1, 2}}) {
      expect_same(
          [&](const Tensors& t) {
            return Tensors{at::sum(t[0], dims, keep),
                           at::mean(t[0], dims, keep),
                           at::amax(t[0], dims, keep),
                           at::amin(t[0], dims, keep),
                           at::logsumexp(t[0], dims, keep),
                           at::var(t[0], dims, 1, keep),
                           at::std(t[0], dims, 0, keep),
                           at::linalg_vector_norm(t[0], 2, dims, keep),
                           at::linalg_vector_norm(t[0], 1, dims, keep)};
          },
          {x({2, 3, 4})}, {{x({5, 1, 2})}}, {}, {1e-4, 1e-5});
    }
  }
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::sum(t[0]),  at::mean(t[0]),   at::max(t[0]), at::min(t[0]),
                       at::prod(t[0]), at::argmax(t[0]), at::norm(t[0])};
      },
      {x({2, 3})}, {{x({4, 1})}});
}

TEST(OnnxReductions, AlongOneAxisWithIndices) {
  const Forward forward = [](const Tensors& t) {
    const auto [v, i] = at::max(t[0], 1);
    const auto [v2, i2] = at::min(t[0], -2, true);
    return Tensors{v, i, v2, i2, at::argmax(t[0], 1), at::argmin(t[0], 0, true)};
  };
  expect_same(forward, {x({3, 4})}, {{x({1, 7})}});
  for (const auto dtype : {at::kByte, at::kShort, at::kInt, at::kLong}) {
    expect_same(
        [](const Tensors& t) {
          const auto [v, i] = at::max(t[0], 1);
          return Tensors{v, i};
        },
        {longs({1, 5, 2, 7, 0, 3}).view({2, 3}).to(dtype)});
  }
}

TEST(OnnxReductions, IntegersAndBools) {
  for (const auto dtype : {at::kBool, at::kByte, at::kInt, at::kLong}) {
    const at::Tensor n = at::randint(0, 2, {3, 4}).to(dtype);
    expect_same(
        [](const Tensors& t) {
          return Tensors{at::sum(t[0]),    at::sum(t[0], {1}),     at::any(t[0]),      at::all(t[0]),
                         at::any(t[0], 1), at::all(t[0], 0, true), at::cumsum(t[0], 1)};
        },
        {n}, {{at::zeros({2, 5}, dtype)}});
  }
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::any(t[0], 1), at::all(t[0], 1)};
      },
      {bools({3, 4})}, {{at::zeros({3, 0}, at::kBool)}});
  expect_same([](const Tensors& t) { return Tensors{at::amax(t[0], {1}), at::amin(t[0], {0})}; }, {bools({3, 4})});
}

TEST(OnnxReductions, RunningSums) {
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::cumsum(t[0], 0), at::cumsum(t[0], -1)};
      },
      {x({3, 4})}, {{x({1, 7})}, {x({0, 2})}});
  expect_same([](const Tensors& t) { return Tensors{at::mean(t[0], at::IntArrayRef{-1}, false, at::kFloat)}; },
              {x({3, 4}).to(at::kHalf)}, {}, {}, {1e-3, 1e-3});
}

}  // namespace
}  // namespace exporters::onnx
