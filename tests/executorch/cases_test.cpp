// Kinds of failure that exporters for ExecuTorch are known for.
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <filesystem>

namespace exporters::executorch {
namespace {

using namespace testing;

struct CasesTest : ::testing::TestWithParam<const char*> {
  CasesTest() { at::manual_seed(0); }
  ExportedOptions options(std::map<std::string, at::Tensor> parameters = {}) const {
    ExportedOptions result;
    result.backend = GetParam();
    result.parameters = std::move(parameters);
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, CasesTest, ::testing::Values("xnnpack", "portable"),
                         [](const auto& info) { return std::string(info.param); });

// ── Constants that do not lie row by row ──

TEST_P(CasesTest, ATransposedParameter) {
  const at::Tensor weight = at::randn({8, 5}).t();
  const Exported exported(
      [=](const Tensors& x) {
        return Tensors{at::linear(x[0], weight), weight + 1};
      },
      {at::randn({2, 8})}, options({{"weight", weight}}));
  exported.expect_as_eager({{at::randn({1, 8})}, {at::randn({16, 8})}});
}

TEST_P(CasesTest, APermutedConstantOfThreeAxes) {
  const at::Tensor table = at::randn({3, 4, 5}).permute({2, 0, 1});
  const Exported exported(
      [=](const Tensors& x) {
        return Tensors{x[0].matmul(table), table.select(0, 1) * 2};
      },
      {at::randn({5, 2, 3})}, options({{"table", table}}));
  exported.expect_as_eager({{at::randn({5, 1, 3})}, {at::randn({5, 16, 3})}});
}

// ── Kernels that need memory of their own ──

TEST_P(CasesTest, TopKOfDynamicRows) {
  const Exported exported(
      [](const Tensors& x) {
        const auto [values, indices] = at::topk(x[0], 3);
        return Tensors{values, indices};
      },
      {at::randn({2, 7})}, options());
  exported.expect_as_eager({{at::randn({1, 3})}, {at::randn({16, 16})}});
}

TEST_P(CasesTest, TheLargestAndItsPlace) {
  const Exported exported(
      [](const Tensors& x) {
        const auto [values, indices] = at::max(x[0], 1);
        return Tensors{values, indices, at::argmax(x[0], 0), at::amin(x[0], {-1}, true)};
      },
      {at::randn({2, 7})}, options());
  exported.expect_as_eager({{at::randn({1, 1})}, {at::randn({16, 16})}});
}

// ── Views around convolutions ──

TEST_P(CasesTest, AViewAroundAConvolutionWithADynamicBatch) {
  const at::Tensor weight = at::randn({6, 3, 3});
  const at::Tensor bias = at::randn({6});
  ExportedOptions wide = options({{"weight", weight}, {"bias", bias}});
  wide.largest = 64;
  const Exported exported(
      [=](const Tensors& x) {
        const at::Tensor y = at::conv1d(x[0].view_symint({x[0].sym_size(0), 3, 8}), weight, bias, 1, 1);
        return Tensors{y.view_symint({x[0].sym_size(0), 48})};
      },
      {at::randn({2, 24})}, wide);
  exported.expect_as_eager({{at::randn({1, 24})}, {at::randn({16, 24})}}, 1e-5);
}

TEST_P(CasesTest, AConvolutionOfPatches) {
  const at::Tensor weight = at::randn({6, 3, 4, 4});
  const Exported exported(
      [=](const Tensors& x) { return Tensors{at::conv2d(x[0], weight, {}, 4).flatten(2).transpose(1, 2)}; },
      {at::randn({2, 3, 8, 8})}, options({{"weight", weight}}));
  exported.expect_as_eager({{at::randn({1, 3, 8, 8})}, {at::randn({16, 3, 8, 8})}}, 1e-5);
}

// ── State ──

TEST_P(CasesTest, ABufferKeepsWhatItHeldAndCounts) {
  const at::Tensor total = at::full({3}, 5.0);
  const at::Tensor start = total.clone();
  const Exported exported(
      [=](const Tensors& x) {
        total.add_(x[0].sum(0));
        return Tensors{total * 2};
      },
      {at::randn({2, 3})}, options({{"total", total}}));
  at::Tensor expected = start.clone();
  for (const int64_t rows : {1, 16, 4}) {
    const at::Tensor given = at::randn({rows, 3});
    expected = expected + given.sum(0);
    EXPECT_TRUE(at::allclose(exported.run({given})[0], expected * 2, 1e-5, 1e-5));
  }
  EXPECT_TRUE(at::equal(total, start));  // the export itself counts nothing
}

TEST_P(CasesTest, ACacheThatIsWrittenAtAPosition) {
  const at::Tensor cache = at::arange(24).to(at::kFloat).view({1, 6, 4});
  at::Tensor expected = cache.clone();
  const Exported exported(
      [=](const Tensors& x) {
        cache.index_copy_(1, x[1], x[0]);
        return Tensors{cache.sum(1)};
      },
      {at::randn({1, 2, 4}), at::tensor({1, 2}, at::kLong)}, options({{"cache", cache}}));
  for (const auto& positions : {std::vector<int64_t>{0}, {3, 1}, {5, 4, 0}}) {
    const at::Tensor index = at::tensor(positions, at::kLong);
    const at::Tensor given = at::randn({1, index.size(0), 4});
    expected.index_copy_(1, index, given);
    EXPECT_TRUE(at::allclose(exported.run({given, index})[0], expected.sum(1), 1e-5, 1e-5));
  }
}

// ── Planned memory ──

TEST_P(CasesTest, MemoryOfAChainDoesNotGrowWithItsLength) {
  const auto chain = [](int64_t length) {
    return [=](const Tensors& x) {
      at::Tensor y = x[0];
      for (int64_t i = 0; i < length; ++i) {
        y = at::cumsum(y, 0);
      }
      return Tensors{y};
    };
  };
  const Exported short_one(chain(4), {at::randn({2, 3})}, options());
  const Exported long_one(chain(40), {at::randn({2, 3})}, options());
  EXPECT_EQ(long_one.method().memory_sizes, short_one.method().memory_sizes);
  long_one.expect_as_eager({{at::rand({16, 2}) * 1e-6}}, 1e-4);
}

// Both branches are alive until the end.
TEST_P(CasesTest, BranchesThatAreAllGivenOutKeepTheirValues) {
  const Exported exported(
      [](const Tensors& x) {
        const at::Tensor shared = at::cumsum(x[0], 0);
        const at::Tensor left = at::cumsum(shared, 1);
        const at::Tensor right = at::cumsum(shared * 2, 1);
        return Tensors{left, right, shared, left + right};
      },
      {at::randn({2, 3})}, options());
  exported.expect_as_eager({{at::randn({1, 1})}, {at::randn({16, 16})}}, 1e-4);
}

// ── Tied weights ──

TEST_P(CasesTest, ATiedEmbeddingIsStoredOnce) {
  const at::Tensor weight = at::randn({1000, 64});
  const Exported exported([=](const Tensors& x) { return Tensors{at::linear(at::embedding(weight, x[0]), weight)}; },
                          {at::randint(0, 1000, {2, 3}, at::kLong)}, options({{"weight", weight}}));
  exported.expect_as_eager({{at::randint(0, 1000, {1, 1}, at::kLong)}, {at::randint(0, 1000, {3, 16}, at::kLong)}},
                           1e-4);
  EXPECT_LT(std::filesystem::file_size(exported.file()), weight.nbytes() * 3 / 2);
}

// ── Half types ──

struct HalfTest : ::testing::TestWithParam<c10::ScalarType> {};

INSTANTIATE_TEST_SUITE_P(Dtypes, HalfTest, ::testing::Values(at::kHalf, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST_P(HalfTest, LinearAttentionAndNorm) {
  at::manual_seed(0);
  const at::Tensor weight = at::randn({8, 8}).to(GetParam());
  const at::Tensor scale = at::randn({8}).to(GetParam());
  const Exported exported(
      [=](const Tensors& x) {
        const at::Tensor h = at::linear(x[0], weight);
        const at::Tensor y = at::scaled_dot_product_attention(h.unsqueeze(1), x[0].unsqueeze(1), h.unsqueeze(1));
        return Tensors{at::layer_norm(y.squeeze(1), {8}, scale), at::gelu(h) + h, at::silu(h)};
      },
      {at::randn({2, 3, 8}).to(GetParam())}, {"xnnpack", {{"weight", weight}, {"scale", scale}}});
  // Eight bits of a bfloat16, eleven of a float16, over a handful of ops.
  exported.expect_as_eager({{at::randn({1, 1, 8}).to(GetParam())}, {at::randn({2, 16, 8}).to(GetParam())}},
                           GetParam() == at::kHalf ? 1e-2 : 6e-2);
}

// Masks hold the lowest number of their type, also where nothing is seen.
TEST_P(HalfTest, AttentionWithTheLowestNumberInItsMask) {
  at::manual_seed(0);
  const double lowest = GetParam() == at::kHalf ? -65504.0 : -3.3895314e38;
  const auto inputs = [&](int64_t queries, int64_t keys) {
    at::Tensor mask = at::zeros({1, 1, queries, keys});
    mask.slice(3, keys / 2).fill_(lowest);
    mask.select(2, queries - 1).fill_(lowest);
    const auto half = [](const at::Tensor& tensor) { return tensor.to(GetParam()); };
    return Tensors{half(at::randn({2, 2, queries, 8})), half(at::randn({2, 2, keys, 8})),
                   half(at::randn({2, 2, keys, 8})), half(mask)};
  };
  const Exported exported(
      [](const Tensors& x) { return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], x[3])}; }, inputs(3, 4));
  exported.expect_as_eager({inputs(1, 1), inputs(5, 16), inputs(16, 7)}, GetParam() == at::kHalf ? 1e-2 : 6e-2);
}

// ── Sizes ──

// Exports with a bound of its own for each axis.
ExportedModel bounded(const TensorForward& forward, const Tensors& samples, const DynamicShapes& shapes) {
  use_executorch();
  ExecutorchConfig config;
  config.dynamic_shapes = shapes;
  const auto folder = scratch_folder();
  ExecutorchExporter().export_model(source_of(forward), named(samples), config).save_pretrained(folder);
  return ExportedModel::from_pretrained(folder);
}

at::Tensor result_of(const ExportedModel& model, const Tensors& inputs) {
  return model(named(inputs)).tensors().at(0).second;
}

TEST(Sizes, EachAxisHasItsOwnBound) {
  const TensorForward forward = [](const Tensors& x) { return Tensors{x[0].cumsum(1) + x[0].sum(0)}; };
  const ExportedModel exported =
      bounded(forward, {at::randn({2, 3})}, {{"x0", {{0, Dim::Auto(0, 4)}, {1, Dim::Auto(0, 9)}}}});
  for (const auto& sizes : {std::pair<int64_t, int64_t>(4, 9), {1, 9}, {4, 1}}) {
    const at::Tensor x = at::randn({sizes.first, sizes.second});
    EXPECT_TRUE(at::allclose(result_of(exported, {x}), forward({x})[0], 1e-5, 1e-5));
  }
  EXPECT_THAT(error_of([&] {
                exported(named({at::randn({5, 1})}));
              }),
              ::testing::AllOf(::testing::HasSubstr("x0"), ::testing::HasSubstr("5"), ::testing::HasSubstr("4")));
  EXPECT_THAT(error_of([&] {
                exported(named({at::randn({1, 10})}));
              }),
              ::testing::AllOf(::testing::HasSubstr("x0"), ::testing::HasSubstr("10"), ::testing::HasSubstr("9")));
}

// What is joined has the sum of the bounds, whichever of the two is long.
TEST(Sizes, WhatIsJoinedHasRoomForBoth) {
  const TensorForward forward = [](const Tensors& x) { return Tensors{at::cumsum(at::cat({x[0], x[1]}, 0), 0)}; };
  const ExportedModel exported = bounded(forward, {at::randn({2, 3}), at::randn({5, 3})},
                                         {{"x0", {{0, Dim::Auto(0, 4)}}}, {"x1", {{0, Dim::Auto(0, 40)}}}});
  for (const auto& sizes : {std::pair<int64_t, int64_t>(4, 40), {1, 40}, {4, 1}}) {
    const Tensors inputs = {at::randn({sizes.first, 3}), at::randn({sizes.second, 3})};
    EXPECT_TRUE(at::allclose(result_of(exported, inputs), forward(inputs)[0], 1e-5, 1e-5));
  }
}

TEST(Sizes, AFixedAxisIsRefusedByNameAtAnotherSize) {
  const TensorForward forward = [](const Tensors& x) { return Tensors{x[0] * 2}; };
  const ExportedModel all = bounded(forward, {at::randn({2, 3})}, {});
  EXPECT_THAT(error_of([&] {
                all(named({at::randn({2, 4})}));
              }),
              ::testing::AllOf(::testing::HasSubstr("x0"), ::testing::HasSubstr("4"), ::testing::HasSubstr("3")));
  const ExportedModel one = bounded(forward, {at::randn({2, 3})}, {{"x0", {{0, Dim::Auto(0, 8)}}}});
  EXPECT_EQ(result_of(one, {at::ones({7, 3})}).size(0), 7);
  EXPECT_THAT(error_of([&] {
                one(named({at::randn({7, 2})}));
              }),
              ::testing::AllOf(::testing::HasSubstr("x0"), ::testing::HasSubstr("2"), ::testing::HasSubstr("3")));
}

// ── Signatures ──

TEST_P(CasesTest, InputsThatAreNotUsedKeepTheirPlaces) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{x[2] * at::Scalar(x[0].sym_size(1)), at::zeros_like(x[2])};
      },
      {at::randn({2, 5}), at::randn({3}), at::randn({2, 3})}, options());
  EXPECT_EQ(exported.method().inputs.size(), 3u);
  exported.expect_as_eager({{at::randn({1, 9}), at::randn({1}), at::randn({4, 2})},
                            {at::randn({16, 1}), at::randn({16}), at::randn({16, 16})}});
}

// ── Writes through masks and indices ──

TEST_P(CasesTest, WritesThroughABoolMask) {
  const Exported exported(
      [](const Tensors& x) {
        at::Tensor all = x[0].clone();
        all.index_put_({x[1]}, at::full({}, -1.0f));
        return Tensors{all, x[0].masked_fill(x[1].select(1, 0).unsqueeze(1), 7)};
      },
      {at::randn({2, 3}), at::rand({2, 3}) > 0.5}, options());
  exported.expect_as_eager({{at::randn({4, 5}), at::rand({4, 5}) > 0.5},
                            {at::randn({3, 2}), at::zeros({3, 2}, at::kBool)},
                            {at::randn({1, 16}), at::ones({1, 16}, at::kBool)}});
}

TEST_P(CasesTest, WritesAtIndicesThatRepeat) {
  const Exported exported(
      [](const Tensors& x) {
        const c10::List<std::optional<at::Tensor>> columns({std::nullopt, x[1]});
        return Tensors{at::index_put(x[0], columns, x[2], /*accumulate=*/true), at::index_add(x[0], 1, x[1], x[2])};
      },
      {at::randn({2, 5}), at::tensor({0, 3, 3}, at::kLong), at::randn({2, 3})}, options({}));
  exported.expect_as_eager({{at::randn({2, 5}), at::tensor({4, 4}, at::kLong), at::randn({2, 2})},
                            {at::randn({7, 9}), at::tensor({8, 0, 8, 1}, at::kLong), at::randn({7, 4})}});
}

TEST_P(CasesTest, ASourceIsScatteredInItsOrder) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::masked_scatter(x[0], x[1].unsqueeze(-1), x[2]),
                       at::masked_scatter(x[0], x[1].unsqueeze(-1).expand_as(x[0]), x[2] * 2)};
      },
      {at::zeros({1, 4, 3}), at::tensor({0, 1, 1, 0}, at::kLong).to(at::kBool).unsqueeze(0), at::randn({2, 3})},
      options());
  at::Tensor mask = at::zeros({2, 7}, at::kBool);
  mask[0][5] = true;
  mask[1].slice(0, 2, 4).fill_(true);
  exported.expect_as_eager({{at::zeros({2, 7, 3}), mask, at::randn({3, 3})}});
}

TEST_P(CasesTest, AReductionWithoutAKernelIsRefusedByName) {
  for (const char* reduce : {"mean", "prod"}) {
    EXPECT_THAT(error_of([&] {
                  Exported([&](const Tensors& x) { return Tensors{at::scatter_reduce(x[0], 0, x[1], x[2], reduce)}; },
                           {at::zeros({5}), at::tensor({0, 0, 3}, at::kLong), at::randn({3})}, options());
                }),
                ::testing::HasSubstr("aten.scatter_reduce"));
  }
}

}  // namespace
}  // namespace exporters::executorch
