// Forwards through the whole exporter, run at sizes other than the traced ones, by kernels alone and with delegates.
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace exporters::executorch {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct LoweringTest : ::testing::TestWithParam<const char*> {
  LoweringTest() { at::manual_seed(0); }
  ExportedOptions options(std::map<std::string, at::Tensor> parameters = {}) const {
    ExportedOptions result;
    result.backend = GetParam();
    result.parameters = std::move(parameters);
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, LoweringTest, ::testing::Values("xnnpack", "portable"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(LoweringTest, LinearKeepsItsKernel) {
  const at::Tensor weight = at::randn({5, 8});
  const at::Tensor bias = at::randn({5});
  const Exported exported([=](const Tensors& x) { return Tensors{at::linear(x[0], weight, bias)}; },
                          {at::randn({2, 3, 8})}, options({{"weight", weight}, {"bias", bias}}));
  EXPECT_EQ(exported.count("aten::addmm.out"), 0);
  exported.expect_as_eager({{at::randn({1, 1, 8})}, {at::randn({16, 16, 8})}, {at::randn({4, 7, 8})}});
}

// Queries of the last row see nothing: zeros, as ATen gives them.
TEST_P(LoweringTest, AttentionWithAMaskOfBools) {
  const TensorForward forward = [](const Tensors& x) {
    return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], x[3])};
  };
  const auto inputs = [](int64_t batch, int64_t queries, int64_t keys) {
    at::Tensor mask = at::rand({batch, 1, queries, keys}) > 0.3;
    mask.select(2, queries - 1).fill_(false);
    return Tensors{at::randn({batch, 2, queries, 8}), at::randn({batch, 2, keys, 8}), at::randn({batch, 2, keys, 8}),
                   mask};
  };
  const Exported exported(forward, inputs(2, 4, 5), options());
  exported.expect_as_eager({inputs(1, 1, 1), inputs(3, 16, 16), inputs(2, 3, 9)});
}

TEST_P(LoweringTest, AttentionWithAMaskOfNumbers) {
  const TensorForward forward = [](const Tensors& x) {
    return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], x[3])};
  };
  const auto inputs = [](int64_t batch, int64_t queries, int64_t keys) {
    at::Tensor mask = at::randn({batch, 1, queries, keys});
    mask.select(2, 0).fill_(-std::numeric_limits<float>::infinity());         // sees nothing: zeros
    mask.select(2, queries - 1).fill_(std::numeric_limits<float>::lowest());  // the lowest number is one: the mean
    return Tensors{at::randn({batch, 2, queries, 8}), at::randn({batch, 2, keys, 8}), at::randn({batch, 2, keys, 8}),
                   mask};
  };
  const Exported exported(forward, inputs(2, 4, 5), options());
  exported.expect_as_eager({inputs(1, 2, 1), inputs(3, 16, 16), inputs(2, 3, 9)});
}

TEST_P(LoweringTest, CausalAttentionWithSharedHeads) {
  const TensorForward forward = [](const Tensors& x) {
    return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, /*is_causal=*/true, 0.3, true)};
  };
  const auto inputs = [](int64_t batch, int64_t queries, int64_t keys) {
    return Tensors{at::randn({batch, 6, queries, 8}), at::randn({batch, 2, keys, 8}), at::randn({batch, 2, keys, 8})};
  };
  ExportedOptions fixed_heads = options();
  fixed_heads.static_axes = {"x0.1", "x1.1", "x2.1"};
  const Exported exported(forward, inputs(2, 4, 5), fixed_heads);
  exported.expect_as_eager({inputs(1, 1, 1), inputs(3, 16, 16), inputs(2, 3, 9), inputs(2, 9, 3)});
}

// Sizes from those of the other input, larger and smaller ones; then twice the height and 1.5 times the width.
TEST_P(LoweringTest, BicubicInterpolation) {
  const TensorForward forward = [](const Tensors& x) {
    const c10::SymInt sizes[] = {x[1].sym_size(0), x[1].sym_size(1)};
    const double factors[] = {2.0, 1.5};
    return Tensors{
        at::upsample_bicubic2d_symint(x[0], sizes, /*align_corners=*/false),
        at::upsample_bicubic2d_symint(x[0], sizes, /*align_corners=*/true),
        at::upsample_bicubic2d_symint(x[0], at::OptionalSymIntArrayRef(), /*align_corners=*/false, factors),
    };
  };
  const auto inputs = [](at::IntArrayRef image, at::IntArrayRef size) {
    return Tensors{at::randn(image), at::randn(size)};
  };
  const Exported exported(forward, inputs({2, 3, 5, 4}, {7, 3}), options());
  exported.expect_as_eager({inputs({1, 1, 1, 1}, {1, 1}), inputs({3, 2, 16, 9}, {4, 16}), inputs({1, 2, 3, 8}, {16, 1}),
                            inputs({2, 3, 2, 3}, {5, 5})});
}

// XNNPACK's own gelu is the one by erf, which is 5e-4 off.
TEST_P(LoweringTest, BothKindsOfGelu) {
  const Exported exported(
      [](const Tensors& x) {
        return Tensors{at::gelu(x[0], "tanh"), at::gelu(x[0] * 2), at::silu(x[0] + 1), at::relu(x[0] - 1)};
      },
      {at::randn({2, 3})}, options());
  exported.expect_as_eager({{at::randn({1, 1}) * 3}, {at::randn({16, 16}) * 3}}, 5e-6);
}

TEST_P(LoweringTest, Normalizations) {
  const at::Tensor weight = at::randn({8});
  const at::Tensor bias = at::randn({8});
  const Exported exported(
      [=](const Tensors& x) {
        return Tensors{at::layer_norm(x[0], {8}, weight, bias, 1e-6), at::layer_norm(x[0], {8}),
                       at::rms_norm(x[0], {8}, weight, 1e-5)};
      },
      {at::randn({2, 3, 8})}, options({{"weight", weight}, {"bias", bias}}));
  exported.expect_as_eager({{at::randn({1, 1, 8}) * 10 + 100}, {at::randn({16, 5, 8})}}, 1e-4);
}

TEST_P(LoweringTest, ShapesThatAreComputed) {
  const Exported exported(
      [](const Tensors& x) {
        const at::Tensor joined = at::cat({x[0], x[1]}, 1);
        const at::Tensor heads = joined.unflatten(-1, {2, 4}).transpose(1, 2);
        return Tensors{heads.flatten(2), joined.slice(1, 1),  joined.select(1, 0),
                       joined.mean(1),   joined.unsqueeze(1), heads.transpose(1, 2).flatten(0, 1)};
      },
      {at::randn({2, 3, 8}), at::randn({2, 5, 8})}, options());
  exported.expect_as_eager(
      {{at::randn({1, 1, 8}), at::randn({1, 1, 8})}, {at::randn({7, 16, 8}), at::randn({7, 2, 8})}});
}

TEST_P(LoweringTest, IntegersAndMasks) {
  const Exported exported(
      [](const Tensors& x) {
        const at::Tensor positions =
            at::arange(c10::Scalar(x[0].sym_size(1)), at::TensorOptions(at::kLong)).unsqueeze(0);
        const at::Tensor seen = positions <= x[0];
        return Tensors{seen,
                       at::where(seen, x[0], positions * 2),
                       at::cumsum(x[0], 1),
                       x[0].to(at::kFloat) / 3,
                       at::bitwise_and(seen, at::ne(x[0], 1)),
                       at::floor_divide(x[0], 2)};
      },
      {at::randint(0, 5, {2, 3}, at::kLong)}, options());
  exported.expect_as_eager({{at::randint(0, 5, {1, 1}, at::kLong)}, {at::randint(0, 30, {16, 16}, at::kLong)}});
}

TEST_P(LoweringTest, InputsAndConstantsThatComeOut) {
  const at::Tensor weight = at::randn({3});
  const Exported exported(
      [=](const Tensors& x) {
        const at::Tensor sum = x[0] + weight;
        return Tensors{x[0], sum, sum, weight, sum.view({-1})};
      },
      {at::randn({2, 3})}, options({{"weight", weight}}));
  exported.expect_as_eager({{at::randn({1, 3})}, {at::randn({16, 3})}});
}

TEST(Lowering, NamesEveryOpWithoutAKernelAtOnce) {
  const std::string message = error_of([] {
    Exported(
        [](const Tensors& x) {
          return Tensors{at::erfinv(x[0]), at::linalg_inv(x[0])};
        },
        {at::randn({3, 3})}, {"portable", {}, 16, false});
  });
  EXPECT_THAT(message, AllOf(HasSubstr("aten.erfinv"), HasSubstr("linalg_inv")));
}

TEST(Lowering, SizesWithoutABoundAreAnError) {
  use_executorch();
  ExecutorchConfig config;
  config.dynamic = true;
  const std::string message = error_of([&] {
    ExecutorchExporter().export_model(source_of([](const Tensors& x) { return Tensors{x[0] + 1}; }),
                                      named({at::randn({2, 3})}), config);
  });
  EXPECT_THAT(message, AllOf(HasSubstr("axis 0 of 'x0'"), HasSubstr("axis 1 of 'x0'"), HasSubstr("--max-dim x0.0=N")));
}

TEST(Lowering, SizesBeyondTheBoundAreRefusedByName) {
  const Exported exported([](const Tensors& x) { return Tensors{x[0] + 1}; }, {at::randn({2, 3})});
  EXPECT_THAT(error_of([&] { exported.run({at::randn({17, 3})}); }), AllOf(HasSubstr("x0"), HasSubstr("17")));
}

}  // namespace
}  // namespace exporters::executorch
