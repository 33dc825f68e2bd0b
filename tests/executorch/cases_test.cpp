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

}  // namespace
}  // namespace exporters::executorch
