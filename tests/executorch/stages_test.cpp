// The stages of the ExecuTorch exporter: each patch and fix against eager, and what the reference needs one for and
// this exporter does not.
#include "exporters/executorch/stages.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <limits>

namespace exporters::executorch {
namespace {

using namespace testing;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct StagesTest : ::testing::TestWithParam<const char*> {
  StagesTest() { at::manual_seed(0); }
  ExportedOptions options(std::map<std::string, at::Tensor> parameters = {},
                          std::set<std::string> static_axes = {}) const {
    ExportedOptions result;
    result.backend = GetParam();
    result.parameters = std::move(parameters);
    result.static_axes = std::move(static_axes);
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, StagesTest, ::testing::Values("xnnpack", "portable"),
                         [](const auto& info) { return std::string(info.param); });

at::Tensor floats(const std::vector<float>& values, at::IntArrayRef sizes) { return at::tensor(values).reshape(sizes); }

// Few values, so that many are equal.
at::Tensor coarse(at::IntArrayRef sizes) { return at::randint(-2, 3, sizes).to(at::kFloat); }

// ── Stage 2: torch patches ──

// A remainder is what roll is made of.
TEST_P(StagesTest, OpsOfOtherOpsMeetPatches) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::roll(x[0], {1, -2}, {0, 1})};
      },
      {coarse({2, 3})}, options());
  exported.expect_as_eager({{coarse({1, 1})}, {coarse({5, 16})}});
}

TEST_P(StagesTest, RemaindersHaveTheSignOfTheDivisor) {
  const auto forward = [](const Tensors& x) {
    return Tensors{at::remainder(x[0], 20), at::remainder(x[0], -3), at::remainder(x[0], x[1]),
                   at::remainder(x[0], 2.5)};
  };
  for (const auto dtype : {at::kLong, at::kInt, at::kFloat}) {
    const auto numbers = [&](const std::vector<int64_t>& values) { return at::tensor(values, at::kLong).to(dtype); };
    const Exported exported(forward, {numbers({-7, 7}), numbers({5, -5})}, options());
    exported.expect_as_eager({{numbers({-100, -20, -7, -1, 0, 1, 20, 127}), numbers({20, -2, -5, 4, 7, 20, -3, -1})}});
  }
}

TEST_P(StagesTest, SortKeepsTheOrderOfEqualElements) {
  const Exported exported(
      [](const Tensors& x) {
        const auto [rising, from] = at::sort(x[0], /*stable=*/true, 1, false);
        const auto [falling, to] = at::sort(x[0], /*stable=*/true, 0, true);
        return Tensors{rising, from, falling, to};
      },
      {coarse({2, 3})}, options());
  exported.expect_as_eager(
      {{coarse({1, 1})}, {coarse({7, 16})}, {floats({kNan, 1, -kInfinity, kNan, kInfinity, 1}, {2, 3})}});
}

TEST_P(StagesTest, SortOfNumbersThatAreNone) {
  const Exported exported(
      [](const Tensors& x) {
        const auto [values, indices] = at::sort(x[0]);
        return Tensors{values, indices};
      },
      {at::tensor({3, 1}, at::kLong)}, options());
  exported.expect_as_eager({{at::tensor({5}, at::kLong)}, {at::randperm(16, at::kLong)}});
}

// ── Stage 5: node fixes ──

TEST_P(StagesTest, TensorsWithoutAxesHaveOneWhereAnOpNeedsIt) {
  const Exported exported(
      [](const Tensors& x) {
        const at::Tensor s = x[0];
        return Tensors{s.sum(0),
                       s.sum(at::IntArrayRef{-1}, /*keepdim=*/true),
                       s.mean(0),
                       s.amax(0),
                       s.amin(0),
                       s.logsumexp(0),
                       s.norm(),
                       at::linalg_vector_norm(s, 1, at::IntArrayRef{0}),
                       s.var(0, /*unbiased=*/false),
                       s.cumsum(-1),
                       s.softmax(0),
                       at::flip(s, {0}),
                       s.gt(0).any(0),
                       s.argmax(0)};
      },
      {at::scalar_tensor(-2.0)}, options());
  exported.expect_as_eager({{at::scalar_tensor(-2.0)}, {at::scalar_tensor(3.5)}, {at::scalar_tensor(0.0)}});
}

TEST_P(StagesTest, IntegersAndFractions) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{x[0] + 1.5, 1.5 - x[0], x[0] * 0.5, x[0] / 4, x[0] - 0.25, x[0].gt(0) + 0.5};
      },
      {at::tensor({3, -1}, at::kLong)}, options());
  exported.expect_as_eager({{at::tensor({7}, at::kLong)}, {at::tensor({-5, 0, 9}, at::kLong)}});
}

TEST_P(StagesTest, PaddingThatTakesElementsAway) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::constant_pad_nd(x[0], {-1, 2}, 3), at::constant_pad_nd(x[0], {2, -1, -1, 0}, 0.5),
                       at::constant_pad_nd(x[0], {-1, -1}, 0)};
      },
      {coarse({3, 4})}, options());
  exported.expect_as_eager({{coarse({2, 3})}, {coarse({9, 16})}});
}

TEST(StagesLimits, ALongSortIsRefusedByName) {
  EXPECT_THAT(error_of([] {
                Exported([](const Tensors& x) { return Tensors{std::get<0>(at::sort(x[0]))}; }, {at::randn({2, 5000})},
                         {"portable", {}, 8, false});
              }),
              HasSubstr("aten.sort"));
}

TEST_P(StagesTest, SearchsortedAndBucketize) {
  const at::Tensor boundaries = floats({-1, 0, 0, 2, kInfinity}, {5});
  const at::Tensor order = at::tensor({4, 3, 2, 1, 0}, at::kLong);
  const Exported exported(
      [=](const Tensors& x) {
        const at::Tensor rows = at::cumsum(at::abs(x[1]), 1);
        return Tensors{at::bucketize(x[0], boundaries), at::bucketize(x[0], boundaries, true, true),
                       at::searchsorted(rows, x[0]),
                       at::searchsorted(at::flip(boundaries, {0}), x[0], false, false, "right", order)};
      },
      {coarse({2, 3}), coarse({2, 4})}, options({{"boundaries", boundaries}, {"order", order}}));
  exported.expect_as_eager({{coarse({1, 1}), coarse({1, 1})},
                            {coarse({5, 16}), coarse({5, 7})},
                            {floats({kNan, kInfinity}, {1, 2}), coarse({1, 3})}});
}

TEST_P(StagesTest, RunningExtremes) {
  const Exported exported(
      [](const Tensors& x) {
        const auto [most, at_most] = at::cummax(x[0], 1);
        const auto [least, at_least] = at::cummin(x[0], 0);
        return Tensors{most, at_most, least, at_least};
      },
      {coarse({2, 3})}, options());
  exported.expect_as_eager({{coarse({1, 1})}, {coarse({16, 9})}, {floats({1, kNan, 0, 2, 1, -kInfinity}, {2, 3})}});
}

TEST_P(StagesTest, Histograms) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::histc(x[0], 5, -1, 1), at::histc(x[0], 3)};
      },
      {at::randn({7})}, options());
  exported.expect_as_eager({{at::randn({1})}, {at::randn({16}) * 2}});
}

TEST_P(StagesTest, AdaptivePooling) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::adaptive_avg_pool1d(x[0], {1}), at::adaptive_avg_pool2d(x[1], {2, 3}),
                       at::adaptive_avg_pool2d(x[1], {1, 1})};
      },
      {at::randn({2, 3, 8}), at::randn({2, 3, 7, 8})}, options({}, {"x0.1", "x0.2", "x1.1", "x1.2", "x1.3"}));
  exported.expect_as_eager({{at::randn({1, 3, 8}), at::randn({1, 3, 7, 8})}});
}

TEST_P(StagesTest, BernoulliDrawsByItsProbability) {
  const Exported exported([](const Tensors& x) { return Tensors{at::bernoulli(x[0])}; }, {at::rand({2, 16})},
                          options());
  at::Tensor drawn = at::zeros({4, 16});
  const at::Tensor probability = at::arange(64).to(at::kFloat).view({4, 16}) / 63;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    const at::Tensor draw = exported.run({probability})[0];
    EXPECT_TRUE(at::all(draw.eq(0).logical_or(draw.eq(1))).item<bool>());
    drawn += draw;
  }
  // Five deviations of a mean of 400 draws.
  EXPECT_LT((drawn / kRuns - probability).abs().max().item<double>(), 5 * 0.5 / 20);
}

// ── What the reference patches and this exporter does not ──

// split, chunk: their parts of an axis of symbolic length.
TEST_P(StagesTest, PartsOfADynamicAxis) {
  const Exported exported(
      [](const Tensors& x) {
        const auto halves = at::chunk(x[0], 2, 1);
        const auto parts = at::split(x[1], 2, -1);
        return Tensors{halves[0] * 2, halves[1], parts[0] + parts[1], parts[2], x[0].detach()};
      },
      {at::randn({2, 6}), at::randn({2, 6})}, options({}, {"x0.1", "x1.1"}));
  exported.expect_as_eager({{at::randn({1, 6}), at::randn({1, 6})}, {at::randn({16, 6}), at::randn({16, 6})}});
}

// expand: a result that shares elements is given out dense.
TEST_P(StagesTest, ExpandedAndReshapedResults) {
  const Exported exported(
      [](const Tensors& x) {
        const at::Tensor wide = x[0].unsqueeze(1).expand_symint({x[0].sym_size(0), 3, x[0].sym_size(1)});
        return Tensors{wide, wide.transpose(0, 2).reshape({3, -1}), x[0].t().reshape({-1})};
      },
      {at::randn({2, 5})}, options());
  exported.expect_as_eager({{at::randn({1, 1})}, {at::randn({16, 7})}});
}

TEST_P(StagesTest, EmptyTensorsAmongWhatIsJoined) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::cat({x[0], x[1]}, 0)};
      },
      {at::randn({2, 3}), at::randn({2, 3})}, options());
  exported.expect_as_eager({{at::randn({1, 3}), at::randn({0, 3})}, {at::randn({16, 5}), at::randn({4, 5})}});
}

TEST_P(StagesTest, ConstantsThatAreNotFinite) {
  const at::Tensor limits = floats({-kInfinity, 0, kInfinity}, {3});
  const Exported exported(
      [=](const Tensors& x) {
        return Tensors{at::maximum(x[0], limits), at::softmax(x[0] + limits.slice(0, 0, 2).sum(), -1).isnan(),
                       at::where(x[0] > 0, x[0], at::full({}, -kInfinity))};
      },
      {at::randn({2, 3})}, options({{"limits", limits}}));
  exported.expect_as_eager({{at::randn({1, 3})}, {at::randn({16, 3})}});
}

TEST_P(StagesTest, PreluOfOneAndOfManySlopes) {
  const at::Tensor one = floats({0.25}, {1});
  const at::Tensor many = at::rand({3});
  const Exported exported(
      [=](const Tensors& x) {
        return Tensors{at::prelu(x[0], one), at::prelu(x[0], many)};
      },
      {at::randn({2, 3, 4})}, options({{"one", one}, {"many", many}}));
  exported.expect_as_eager({{at::randn({1, 3, 1})}, {at::randn({5, 3, 16})}});
}

TEST_P(StagesTest, Pooling) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::avg_pool2d(x[0], {2, 2}), at::max_pool2d(x[0], {3, 3}, {2, 2}, {1, 1})};
      },
      {at::randn({2, 3, 8, 8})}, options({}, {"x0.1", "x0.2", "x0.3"}));
  exported.expect_as_eager({{at::randn({1, 3, 8, 8})}, {at::randn({5, 3, 8, 8})}});
}

TEST_P(StagesTest, TopKOfWholeRows) {
  const Exported exported(
      [](const Tensors& x) {
        const auto [values, indices] = at::topk(x[0], 7, 1);
        return Tensors{values, indices};
      },
      {at::randn({2, 7})}, options());
  exported.expect_as_eager({{at::randn({1, 7})}, {at::randn({16, 16})}});
}

// ── Stage 4: program fixes ──

TEST_P(StagesTest, AssertionsAreNoPartOfTheProgram) {
  const Exported exported(
      [](const Tensors& x) {
        at::_assert_async(at::all(x[0].ge(-100)));
        return Tensors{x[0] * 2};
      },
      {at::randn({2, 3})}, options());
  exported.expect_as_eager({{at::randn({1, 1})}, {at::randn({16, 16})}});
}

// ── Stage 5: node fixes ──

TEST_P(StagesTest, PowersNegativeAxesAndStarts) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::pow(x[0], 3),  at::pow(x[0], 0.5),     at::amax(x[0], {-1}),     at::amin(x[0], {-2, -1}),
                       x[0].slice(1, -2), x[0].slice(-1, -3, -1), at::pow(at::arange(5), 2)};
      },
      {at::rand({2, 4})}, options({}, {"x0.1"}));
  exported.expect_as_eager({{at::rand({1, 4})}, {at::rand({16, 4})}});
}

}  // namespace
}  // namespace exporters::executorch
