// Masks, alignment and rotary embeddings of attention.
#include "tests/cases/cases.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace exporters::cases {
namespace {

using ::testing::HasSubstr;

Tensors qkv(int64_t batch, int64_t queries, int64_t keys) {
  return {at::randn({batch, 2, queries, 8}), at::randn({batch, 2, keys, 8}), at::randn({batch, 2, keys, 8})};
}

TEST(CausalAttention, FewerQueriesThanKeysIsUpperLeft) {
  expect_as_eager(
      {.forward =
           [](const Tensors& x) { return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true)}; },
       .sample = qkv(1, 3, 7),
       .others = {qkv(2, 1, 5), qkv(1, 4, 9), qkv(2, 6, 6), qkv(1, 5, 2)}});
}

TEST(CausalAttention, WithAScale) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true, 0.25)};
                       },
                   .sample = qkv(2, 4, 4),
                   .others = {qkv(1, 1, 1), qkv(1, 2, 8)}});
}

TEST(CausalAttention, GroupedQueries) {
  const auto inputs = [](int64_t batch, int64_t queries, int64_t keys) {
    return Tensors{at::randn({batch, 4, queries, 8}), at::randn({batch, 2, keys, 8}), at::randn({batch, 2, keys, 8})};
  };
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, false, {}, true)};
                       },
                   .sample = inputs(1, 3, 5),
                   .others = {inputs(2, 1, 1), inputs(1, 6, 9)}});
}

// ── A row with every key masked ──

Case masked_rows(std::function<at::Tensor(const Tensors&)> attend) {
  const at::Tensor nothing_in_the_first = at::tensor({0, 0, 0, 1, 1, 0}, at::kLong).view({2, 3}).to(at::kBool);
  Tensors sample = qkv(2, 3, 3);
  sample.push_back(nothing_in_the_first);
  Tensors other = qkv(1, 2, 4);
  other.push_back(at::zeros({1, 4}, at::kBool));
  return {.forward = [attend](const Tensors& x) { return Tensors{attend(x)}; }, .sample = sample, .others = {other}};
}

TEST(MaskedRows, ABoolMaskInAttention) {
  expect_as_eager(masked_rows([](const Tensors& x) {
    return at::scaled_dot_product_attention(x[0], x[1], x[2], x[3].unsqueeze(1).unsqueeze(1));
  }));
}

TEST(MaskedRows, AFloatMaskOfMinusInfinityInAttention) {
  expect_as_eager(masked_rows([](const Tensors& x) {
    const at::Tensor mask =
        at::zeros_like(x[3], at::kFloat).masked_fill(x[3].logical_not(), -std::numeric_limits<double>::infinity());
    return at::scaled_dot_product_attention(x[0], x[1], x[2], mask.unsqueeze(1).unsqueeze(1));
  }));
}

TEST(MaskedRows, AWrittenOutSoftmax) {
  expect_as_eager(masked_rows([](const Tensors& x) {
    const at::Tensor scores = at::matmul(x[0], x[1].transpose(2, 3));
    const at::Tensor hidden = x[3].logical_not().unsqueeze(1).unsqueeze(1);
    return at::matmul(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()).softmax(-1), x[2]);
  }));
}

// ── Causal masks made by hand ──

TEST(CausalMasks, FromTriuAndFromComparedPositions) {
  expect_as_eager(
      {.forward =
           [](const Tensors& x) {
             const c10::SymInt length = x[0].sym_size(1);
             const at::Tensor positions = at::arange(c10::Scalar(length), at::TensorOptions(at::kLong));
             const at::Tensor visible = positions.unsqueeze(0) <= positions.unsqueeze(1);
             const at::Tensor window = visible.logical_and(positions.unsqueeze(0) > positions.unsqueeze(1) - 3);
             const at::Tensor above = at::full_symint({length, length}, 1.0).triu(1);
             const at::Tensor scores = at::matmul(x[0], x[0].transpose(1, 2));
             return Tensors{scores.masked_fill(visible.logical_not(), -1e9).softmax(-1),
                            scores.masked_fill(window.logical_not(), -1e9).softmax(-1), scores - above * 1e3};
           },
       .sample = {at::randn({1, 4, 8})},
       .others = {{at::randn({2, 1, 8})}, {at::randn({1, 12, 8})}},
       // Scores of up to some 30, after the subtraction of 1000.
       .tolerance = 1e-4});
}

// ── Rotary embeddings ──

TEST(Rotary, HalvesRotatedByPositions) {
  const at::Tensor frequency = at::tensor({1.0f, 0.1f, 0.01f, 0.001f});
  expect_as_eager({.forward =
                       [frequency](const Tensors& x) {
                         const at::Tensor angle = x[1].to(at::kFloat).unsqueeze(-1) * frequency;
                         const at::Tensor twice = at::cat({angle, angle}, -1);
                         const std::vector<at::Tensor> halves = x[0].chunk(2, -1);
                         return Tensors{x[0] * twice.cos() + at::cat({-halves[1], halves[0]}, -1) * twice.sin()};
                       },
                   .sample = {at::randn({2, 3, 8}), at::tensor({0, 1, 2, 5, 6, 7}, at::kLong).view({2, 3})},
                   .others = {{at::randn({1, 1, 8}), at::tensor({100}, at::kLong).view({1, 1})}},
                   .parameters = {{"inv_freq", frequency}}});
}

Case complex_rotary() {
  const at::Tensor frequency = at::tensor({1.0f, 0.1f, 0.01f, 0.001f});
  return {.forward =
              [frequency](const Tensors& x) {
                const at::Tensor angle = x[1].to(at::kFloat).unsqueeze(-1) * frequency;
                const at::Tensor turn = at::polar(at::ones_like(angle), angle);
                const at::Tensor pairs = at::view_as_complex(x[0].unflatten(-1, {4, 2}));
                return Tensors{at::view_as_real(pairs * turn).flatten(-2)};
              },
          .sample = {at::randn({2, 3, 8}), at::tensor({0, 1, 2, 5, 6, 7}, at::kLong).view({2, 3})},
          .others = {{at::randn({1, 1, 8}), at::tensor({100}, at::kLong).view({1, 1})}},
          .parameters = {{"inv_freq", frequency}}};
}

TEST(Rotary, ComplexNumbersInTheInterpreter) { expect_as_eager_in_interpreter(complex_rotary()); }

TEST(Rotary, ComplexNumbersAreRightOrRefusedByOnnx) {
  const std::string message = error_of([] { to_onnx(complex_rotary()); });

  if (message == "no error") {
    expect_as_eager_in_onnx(complex_rotary());
  } else {
    EXPECT_THAT(message, ::testing::AnyOf(HasSubstr("polar"), HasSubstr("complex")));
  }
}

}  // namespace
}  // namespace exporters::cases
