#include "tests/onnx/harness.h"

#include <ATen/ATen.h>

namespace exporters::onnx {
namespace {

using namespace testing;

at::Tensor x(at::IntArrayRef sizes) { return at::randn(sizes); }

// One input, any number of outputs, three sizes of the same rank.
void at_sizes(const Forward& forward, std::vector<std::vector<int64_t>> sizes) {
  std::vector<Tensors> more;
  for (size_t i = 1; i < sizes.size(); ++i) {
    more.push_back({x(sizes[i])});
  }
  expect_same(forward, {x(sizes[0])}, more);
}

TEST(OnnxViews, Reshapes) {
  at_sizes(
      [](const Tensors& t) {
        return Tensors{t[0].reshape_symint({t[0].sym_size(0), 2, -1})};
      },
      {{3, 4}, {1, 8}, {5, 2}});
  at_sizes([](const Tensors& t) { return Tensors{t[0].reshape({-1})}; }, {{3, 4}, {1, 1}, {0, 2}, {2, 0}});
  at_sizes([](const Tensors& t) { return Tensors{t[0].flatten(0, 1)}; }, {{3, 4, 2}, {1, 7, 2}, {0, 3, 2}});
  at_sizes([](const Tensors& t) { return Tensors{t[0].unflatten_symint(1, {2, -1})}; }, {{3, 4}, {2, 10}});
  at_sizes(
      [](const Tensors& t) {
        return Tensors{t[0].squeeze(1), t[0].unsqueeze(-1), t[0].unsqueeze(0)};
      },
      {{3, 1, 2}, {5, 1, 4}});
  at_sizes(
      [](const Tensors& t) {
        return Tensors{t[0].view_symint({t[0].sym_size(0) * t[0].sym_size(1), t[0].sym_size(2)})};
      },
      {{3, 4, 5}, {1, 1, 2}, {0, 4, 5}, {2, 0, 3}});
}

TEST(OnnxViews, ReshapesThatCancelAreGone) {
  const auto program = traced(
      [](const Tensors& t) {
        const auto b = t[0].sym_size(0);
        return Tensors{t[0].reshape_symint({b, 2, 4}).reshape_symint({b, 8}) + 1};
      },
      {x({3, 8})}, {{"x0", {{1, Dim::Static()}}}});
  EXPECT_EQ(op_types(to_onnx(program)), std::vector<std::string>{"Add"});
}

TEST(OnnxViews, Permutations) {
  at_sizes(
      [](const Tensors& t) {
        return Tensors{t[0].permute({2, 0, 1}), t[0].transpose(0, -1), t[0].movedim(0, 2),
                       t[0].transpose(1, 2).transpose(1, 2) + 1};
      },
      {{2, 3, 4}, {1, 5, 2}, {0, 1, 2}});
  at_sizes([](const Tensors& t) { return Tensors{t[0].t()}; }, {{2, 3}, {4, 1}});
}

TEST(OnnxViews, Expansion) {
  at_sizes(
      [](const Tensors& t) {
        return Tensors{t[0].expand({4, -1, 3}), t[0].repeat({2, 1, 3})};
      },
      {{1, 2, 3}, {1, 5, 3}});
  expect_same(
      [](const Tensors& t) {
        return Tensors{t[0].expand_symint({t[1].sym_size(0), t[1].sym_size(1)})};
      },
      {x({1, 3}), x({4, 3})}, {{x({1, 5}), x({2, 5})}, {x({1, 5}), x({0, 5})}});
  for (const auto dtype : {at::kBool, at::kBFloat16, at::kShort, at::kLong}) {
    expect_same(
        [](const Tensors& t) {
          return Tensors{t[0].expand({3, 4}), t[0].repeat({2, 2})};
        },
        {at::randint(0, 2, {1, 4}).to(dtype)}, {}, {}, {}, {{"x0", {{0, Dim::Static()}, {1, Dim::Static()}}}});
  }
}

TEST(OnnxViews, Slices) {
  at_sizes(
      [](const Tensors& t) {
        return Tensors{t[0].slice(0, 1, 3), t[0].slice(1, -2),  t[0].slice(1, 0, -1), t[0].slice(0, 0, 100, 2),
                       t[0].select(1, 0),   t[0].select(1, -1), t[0].narrow(0, 1, 2)};
      },
      {{5, 4}, {4, 7}, {9, 3}});
}

TEST(OnnxViews, Splits) {
  at_sizes(
      [](const Tensors& t) {
        auto parts = t[0].split(2, 1);
        return Tensors{parts[0], parts[1]};
      },
      {{3, 4}, {5, 4}});
  at_sizes(
      [](const Tensors& t) {
        auto parts = t[0].chunk(3, -1);
        return Tensors{parts[0], parts[1], parts[2]};
      },
      {{3, 6}, {2, 6}});
  at_sizes(
      [](const Tensors& t) {
        auto parts = t[0].split_with_sizes({1, 3, 2}, 1);
        return Tensors{parts[2], parts[0]};
      },
      {{3, 6}, {1, 6}});
  at_sizes(
      [](const Tensors& t) {
        auto parts = t[0].unbind(0);
        return Tensors{parts[1], parts[0]};
      },
      {{2, 6}, {2, 3}});
}

TEST(OnnxViews, Rearrangement) {
  at_sizes([](const Tensors& t) { return Tensors{t[0].flip({0}), t[0].flip({-1, 0})}; }, {{3, 4}, {1, 7}});
  at_sizes(
      [](const Tensors& t) {
        return Tensors{t[0].roll({1}, {0}), t[0].roll({-2, 1}, {0, 1})};
      },
      {{3, 4}, {1, 7}, {5, 2}});
  at_sizes([](const Tensors& t) { return Tensors{t[0].unfold(1, 3, 2)}; }, {{2, 7}, {1, 4}});
  at_sizes(
      [](const Tensors& t) {
        return Tensors{t[0].diagonal(), t[0].diagonal(1), t[0].diagonal(-1)};
      },
      {{3, 4}, {5, 5}});
}

TEST(OnnxJoins, CatAndStack) {
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::cat({t[0], t[1], t[0]}, -1), at::cat({t[0], t[0]}, 0)};
      },
      {x({2, 3}), x({2, 5})}, {{x({4, 1}), x({4, 2})}, {x({0, 1}), x({0, 2})}});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::stack({t[0], t[1]}, 1), at::stack({t[0], t[1]}, -1)};
      },
      {x({2, 3}), x({2, 3})}, {{x({1, 4}), x({1, 4})}});
  expect_same([](const Tensors& t) { return Tensors{at::cat({t[0], t[1]}, 0)}; }, {x({2}), at::arange(3)});
}

TEST(OnnxJoins, GridsAndBroadcasts) {
  expect_same(
      [](const Tensors& t) {
        const auto ij = at::meshgrid({t[0], t[1]}, "ij");
        const auto xy = at::meshgrid({t[0], t[1]}, "xy");
        return Tensors{ij[0], ij[1], xy[0], xy[1]};
      },
      {x({3}), x({4})}, {{x({1}), x({2})}});
  expect_same(
      [](const Tensors& t) {
        const auto both = at::broadcast_tensors({t[0], t[1]});
        return Tensors{both[0], both[1]};
      },
      {x({2, 4, 3}), x({4, 3})}, {{x({5, 1, 2}), x({1, 2})}});
}

TEST(OnnxJoins, Padding) {
  at_sizes(
      [](const Tensors& t) {
        return Tensors{at::pad(t[0], {1, 2}), at::constant_pad_nd(t[0], {1, 2, 0, 3}, 7),
                       at::constant_pad_nd(t[0], {-1, 0}, 7)};
      },
      {{3, 4}, {1, 2}});
  at_sizes(
      [](const Tensors& t) {
        return Tensors{at::pad(t[0], {1, 2}, "reflect"), at::pad(t[0], {1, 2}, "replicate"),
                       at::pad(t[0], {1, 2}, "circular")};
      },
      {{2, 3, 4}, {1, 2, 6}});
}

TEST(OnnxConversions, EveryPairOfTypes) {
  const std::vector<at::ScalarType> types = {at::kBool, at::kByte, at::kChar,     at::kShort, at::kInt,
                                             at::kLong, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};
  for (const auto from : types) {
    const at::Tensor input = (at::rand({6}) * 100).to(from);
    expect_same(
        [&](const Tensors& t) {
          Tensors outputs;
          for (const auto to : types) {
            outputs.push_back(t[0].to(to, false, /*copy=*/true));
          }
          return outputs;
        },
        {input});
  }
}

TEST(OnnxConversions, FloatsTruncateTowardZero) {
  expect_same(
      [](const Tensors& t) {
        return Tensors{t[0].to(at::kLong), t[0].to(at::kInt), t[0].to(at::kBool)};
      },
      {at::tensor({-1.9f, -0.5f, 0.0f, 0.3f, 2.9f})});
}

TEST(OnnxFactories, FromSizes) {
  at_sizes(
      [](const Tensors& t) {
        const auto n = t[0].sym_size(0);
        return Tensors{at::arange(c10::Scalar(n)),     at::zeros_symint({n, 2}),      at::ones_symint({n}, at::kLong),
                       at::full_symint({2, n}, 1.5),   at::zeros_like(t[0]),          at::ones_like(t[0], at::kBool),
                       at::full_like(t[0], -INFINITY), t[0].new_zeros_symint({n, 3}), t[0].new_full_symint({n}, 3)};
      },
      {{3, 4}, {1, 2}, {0, 5}});
}

TEST(OnnxFactories, Ranges) {
  const auto on = [](auto function) { return [function](const Tensors& t) { return Tensors{function() + t[0]}; }; };
  expect_same(on([] { return at::arange(2, 8); }), {at::zeros({1}, at::kLong)});
  expect_same(on([] { return at::arange(8, 2, -2); }), {at::zeros({1}, at::kLong)});
  expect_same(on([] { return at::arange(0, 1, 0.1); }), {x({1})});
  expect_same(on([] { return at::linspace(-1, 2, 7); }), {x({1})});
  expect_same(on([] { return at::eye(3, 4); }), {x({1, 1})});
}

TEST(OnnxFactories, Triangles) {
  at_sizes(
      [](const Tensors& t) {
        return Tensors{at::tril(t[0]), at::triu(t[0], 1), at::tril(t[0], -1)};
      },
      {{3, 4}, {5, 5}, {2, 1}});
  for (const auto dtype : {at::kBool, at::kByte, at::kInt, at::kLong, at::kHalf, at::kBFloat16}) {
    expect_same([](const Tensors& t) { return Tensors{at::tril(t[0])}; }, {at::ones({3, 3}, dtype)});
  }
}

}  // namespace
}  // namespace exporters::onnx
