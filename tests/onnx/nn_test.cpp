#include "tests/onnx/harness.h"

#include <ATen/ATen.h>

#include <gmock/gmock.h>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::Not;

at::Tensor x(at::IntArrayRef sizes) { return at::randn(sizes); }

// Weights as parameters of the program, shared between the trace and eager.
struct WithWeights {
  std::map<std::string, at::Tensor> weights;
  Forward forward;

  void expect(const std::vector<Tensors>& inputs, OnnxOptions options = {}, Tolerance tolerance = {}) const {
    expect_same(program(inputs[0]), forward, inputs, options, tolerance);
  }
  ExportedProgram program(const Tensors& samples) const { return traced(forward, samples, {}, weights); }
};

TEST(OnnxLinear, EveryRankWithAndWithoutBias) {
  const at::Tensor w = x({5, 4});
  const at::Tensor b = x({5});
  const WithWeights net{{{"w", w}, {"b", b}}, [=](const Tensors& t) {
                          return Tensors{at::linear(t[0], w, b), at::linear(t[0], w)};
                        }};
  net.expect({{x({3, 4})}, {x({1, 4})}, {x({0, 4})}});
  net.expect({{x({4})}});
  net.expect({{x({2, 3, 4})}, {x({1, 1, 4})}, {x({0, 3, 4})}, {x({3, 0, 4})}});
  net.expect({{x({2, 2, 3, 4})}, {x({1, 3, 1, 4})}});
}

TEST(OnnxLinear, WeightsStayAsTheCheckpointHasThem) {
  const at::Tensor w = x({5, 4});
  const WithWeights net{{{"w", w}}, [=](const Tensors& t) { return Tensors{at::linear(t[0], w), t[0].matmul(w.t())}; }};
  net.expect({{x({2, 3, 4})}});
  const OnnxModel model = to_onnx(net.program({x({2, 3, 4})}));
  EXPECT_THAT(op_types(model), Not(Contains("Transpose")));
  EXPECT_EQ(count_ops(model, "Gemm"), 1u);  // the same product
}

TEST(OnnxLinear, BetweenLayersNothingIsReshaped) {
  const at::Tensor w = x({4, 4});
  const at::Tensor v = x({4});
  const WithWeights net{{{"w", w}, {"v", v}}, [=](const Tensors& t) {
                          const at::Tensor hidden = at::linear(t[0], w, v);
                          const at::Tensor inner = at::linear(at::gelu(hidden), w, v);
                          return Tensors{at::layer_norm(inner + hidden, {4}, v, v)};
                        }};
  net.expect({{x({2, 3, 4})}, {x({1, 5, 4})}, {x({0, 5, 4})}});
  EXPECT_EQ(count_ops(to_onnx(net.program({x({2, 3, 4})})), "Reshape"), 2u);
}

TEST(OnnxLinear, HalfAndBfloat16) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor w = x({5, 4}).to(dtype);
    const at::Tensor b = x({5}).to(dtype);
    const WithWeights net{{{"w", w}, {"b", b}}, [=](const Tensors& t) { return Tensors{at::linear(t[0], w, b)}; }};
    net.expect({{x({2, 3, 4}).to(dtype)}}, {}, {2e-2, 2e-2});
  }
}

TEST(OnnxMatmul, EveryCombinationOfRanks) {
  const Forward matmul = [](const Tensors& t) { return Tensors{at::matmul(t[0], t[1])}; };
  expect_same(matmul, {x({4}), x({4})});
  expect_same(matmul, {x({3, 4}), x({4})}, {{x({1, 2}), x({2})}});
  expect_same(matmul, {x({4}), x({4, 3})});
  expect_same(matmul, {x({3, 4}), x({4, 5})}, {{x({1, 2}), x({2, 7})}});
  expect_same(matmul, {x({2, 3, 4}), x({4, 5})}, {{x({1, 1, 2}), x({2, 7})}});
  expect_same(matmul, {x({2, 1, 3, 4}), x({5, 4, 6})}, {{x({3, 1, 2, 4}), x({2, 4, 1})}});
  expect_same([](const Tensors& t) { return Tensors{at::bmm(t[0], t[1])}; }, {x({2, 3, 4}), x({2, 4, 5})});
  expect_same([](const Tensors& t) { return Tensors{at::matmul(t[0], t[1])}; },
              {at::randint(-5, 5, {3, 4}), at::randint(-5, 5, {4, 2})});
}

TEST(OnnxMatmul, AddedProducts) {
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::addmm(t[0], t[1], t[2]), at::addmm(t[0], t[1], t[2], 0.5, 2),
                       at::addmm(t[0], t[1], t[2], 0)};
      },
      {x({5}), x({3, 4}), x({4, 5})});
  expect_same([](const Tensors& t) { return Tensors{at::baddbmm(t[0], t[1], t[2], 1, 0.3)}; },
              {x({2, 3, 5}), x({2, 3, 4}), x({2, 4, 5})});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::einsum("bhqd,bhkd->bhqk", {t[0], t[1]})};
      },
      {x({2, 3, 4, 5}), x({2, 3, 6, 5})}, {{x({1, 1, 2, 5}), x({1, 1, 3, 5})}});
}

TEST(OnnxNorms, LayerNorm) {
  const at::Tensor w = x({4});
  const at::Tensor b = x({4});
  const WithWeights net{
      {{"w", w}, {"b", b}}, [=](const Tensors& t) {
        return Tensors{at::layer_norm(t[0], {4}, w, b, 1e-12), at::layer_norm(t[0], {4}, w), at::layer_norm(t[0], {4})};
      }};
  net.expect({{x({2, 3, 4})}, {x({1, 1, 4})}, {x({0, 2, 4})}}, {}, {1e-5, 1e-5});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::layer_norm(t[0], {3, 4})};
      },
      {x({2, 3, 4})}, {}, {}, {1e-5, 1e-5}, {{"x0", {{1, Dim::Static()}, {2, Dim::Static()}}}});
}

TEST(OnnxNorms, RmsNormAtBothOpsets) {
  const at::Tensor w = x({4});
  const WithWeights net{
      {{"w", w}}, [=](const Tensors& t) {
        return Tensors{at::rms_norm(t[0], {4}, w, 1e-6), at::rms_norm(t[0], {4}), at::rms_norm(t[0], {4}, w)};
      }};
  for (const int64_t opset : {18, 23}) {
    net.expect({{x({2, 3, 4})}, {x({1, 1, 4})}}, at_opset(opset), {1e-5, 1e-5});
  }
}

TEST(OnnxNorms, BatchGroupAndInstanceNorm) {
  const at::Tensor w = x({6});
  const at::Tensor b = x({6});
  const at::Tensor mean = x({6});
  const at::Tensor var = at::rand({6}) + 0.5;
  const WithWeights net{{{"w", w}, {"b", b}, {"mean", mean}, {"var", var}}, [=](const Tensors& t) {
                          return Tensors{at::batch_norm(t[0], w, b, mean, var, false, 0.1, 1e-5, false),
                                         at::batch_norm(t[0], {}, {}, mean, var, false, 0.1, 1e-5, false),
                                         at::group_norm(t[0], 3, w, b), at::group_norm(t[0], 2),
                                         at::instance_norm(t[0], w, b, {}, {}, true, 0.1, 1e-5, false)};
                        }};
  net.expect({{x({2, 6, 4, 3})}, {x({1, 6, 2, 5})}}, {}, {1e-4, 1e-5});
}

TEST(OnnxAttention, EveryMaskForm) {
  const auto q = x({2, 4, 5, 8});
  const auto k = x({2, 4, 7, 8});
  const auto v = x({2, 4, 7, 6});
  const Forward masked = [](const Tensors& t) {
    return Tensors{at::scaled_dot_product_attention(t[0], t[1], t[2], t[3])};
  };
  const auto bools = [](at::IntArrayRef sizes) {
    at::Tensor mask = at::randint(0, 2, sizes).to(at::kBool);
    mask.select(-1, 0).fill_(true);
    return mask;
  };
  for (const int64_t opset : {18, 23}) {
    const OnnxOptions options = at_opset(opset);
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{5, 7}, {2, 1, 5, 7}, {2, 4, 5, 7}, {2, 1, 1, 7}, {1, 1, 5, 7}}) {
      expect_same(masked, {q, k, v, bools(sizes)}, {}, options, {1e-5, 1e-5});
      expect_same(masked, {q, k, v, x(sizes)}, {}, options, {1e-5, 1e-5});
    }
    expect_same([](const Tensors& t) { return Tensors{at::scaled_dot_product_attention(t[0], t[1], t[2])}; }, {q, k, v},
                {{x({1, 4, 1, 8}), x({1, 4, 3, 8}), x({1, 4, 3, 6})}}, options, {1e-5, 1e-5});
    for (const double scale : {0.3, 0.0}) {
      expect_same(
          [scale](const Tensors& t) {
            return Tensors{at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0, false, scale)};
          },
          {q, k, v}, {}, options, {1e-5, 1e-5});
    }
  }
}

TEST(OnnxAttention, Causal) {
  const Forward causal = [](const Tensors& t) {
    return Tensors{at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0, true)};
  };
  for (const int64_t opset : {18, 23}) {
    // Fewer queries than keys: counted from the first of each, as torch does.
    expect_same(causal, {x({2, 4, 5, 8}), x({2, 4, 7, 8}), x({2, 4, 7, 8})},
                {{x({1, 4, 2, 8}), x({1, 4, 6, 8}), x({1, 4, 6, 8})}}, at_opset(opset), {1e-5, 1e-5});
    expect_same(
        [](const Tensors& t) { return Tensors{at::scaled_dot_product_attention(t[0], t[0], t[0], {}, 0, true)}; },
        {x({2, 4, 5, 8})}, {{x({1, 4, 1, 8})}, {x({3, 4, 9, 8})}}, at_opset(opset), {1e-5, 1e-5});
  }
}

TEST(OnnxAttention, FewerKeyHeads) {
  const Forward grouped = [](const Tensors& t) {
    return Tensors{at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0, false, {}, true)};
  };
  const DynamicShapes heads_static = {
      {"x0", {{1, Dim::Static()}}}, {"x1", {{1, Dim::Static()}}}, {"x2", {{1, Dim::Static()}}}};
  for (const int64_t opset : {18, 23}) {
    expect_same(grouped, {x({2, 4, 5, 8}), x({2, 2, 7, 8}), x({2, 2, 7, 8})}, {}, at_opset(opset), {1e-5, 1e-5},
                heads_static);
  }
}

TEST(OnnxAttention, RowsThatMaskEveryKeyGiveZeros) {
  const Forward masked = [](const Tensors& t) {
    return Tensors{at::scaled_dot_product_attention(t[0], t[0], t[0], t[1])};
  };
  at::Tensor mask = at::ones({2, 1, 5, 5}, at::kBool);
  mask[0][0][2].fill_(false);
  mask[1].fill_(false);
  const at::Tensor infinite = at::zeros({2, 1, 5, 5}).masked_fill(mask.logical_not(), -INFINITY);
  const at::Tensor lowest = at::zeros({2, 1, 5, 5}).masked_fill(mask.logical_not(), -3.4028234663852886e38);
  for (const int64_t opset : {18, 23}) {
    expect_same(masked, {x({2, 4, 5, 8}), mask}, {}, at_opset(opset), {1e-5, 1e-5});
    expect_same(masked, {x({2, 4, 5, 8}), infinite}, {}, at_opset(opset), {1e-5, 1e-5});
    expect_same(masked, {x({2, 4, 5, 8}), lowest}, {}, at_opset(opset), {1e-5, 1e-5});
  }
}

// As BERT calls it: heads split off and transposed, a padding mask expanded to the queries.
Tensors bert_attention(const Tensors& t) {
  const auto b = t[0].sym_size(0);
  const auto s = t[0].sym_size(1);
  const auto heads = [&](const at::Tensor& h) { return h.view_symint({b, s, 4, 8}).transpose(1, 2); };
  const at::Tensor mask = t[1].to(at::kBool).unsqueeze(1).unsqueeze(1).expand_symint({b, 1, s, s});
  const at::Tensor out = at::scaled_dot_product_attention(heads(t[0]), heads(t[0] * 2), heads(t[0] + 1), mask);
  return {out.transpose(1, 2).reshape_symint({b, s, 32})};
}

TEST(OnnxAttention, FoldedHeadsNeedNoTranspose) {
  const auto mask = [](int64_t b, int64_t s) {
    at::Tensor m = at::ones({b, s}, at::kLong);
    m[b - 1].slice(0, s / 2).fill_(0);
    return m;
  };
  const Tensors sample = {x({2, 5, 32}), mask(2, 5)};
  expect_same(bert_attention, sample, {{x({1, 1, 32}), at::zeros({1, 1}, at::kLong)}, {x({3, 9, 32}), mask(3, 9)}}, {},
              {1e-5, 1e-5});
  const OnnxModel model = to_onnx(traced(bert_attention, sample));
  EXPECT_EQ(count_ops(model, "Transpose"), 0u);
  EXPECT_EQ(count_ops(model, "Attention"), 1u);
}

TEST(OnnxAttention, TrainingModeIsRefused) {
  const auto program =
      traced([](const Tensors& t) { return Tensors{at::scaled_dot_product_attention(t[0], t[0], t[0], {}, 0.1)}; },
             {x({1, 1, 2, 4})});
  EXPECT_THROW(to_onnx(program), std::exception);
}

TEST(OnnxConvolutions, EveryParameter) {
  const at::Tensor w1 = x({6, 2, 3});
  const at::Tensor b = x({6});
  const at::Tensor w2 = x({6, 4, 3, 2});
  const WithWeights one{
      {{"w", w1}, {"b", b}}, [=](const Tensors& t) {
        return Tensors{at::conv1d(t[0], w1, b, 2, 1, 1, 2), at::conv1d(t[0], w1, {}, 1, "same", 1, 2)};
      }};
  one.expect({{x({2, 4, 9})}, {x({1, 4, 5})}}, {}, {1e-5, 1e-5});
  const WithWeights two{{{"w", w2}, {"b", b}}, [=](const Tensors& t) {
                          return Tensors{at::conv2d(t[0], w2, b, {2, 1}, {1, 0}, {1, 2}), at::conv2d(t[0], w2)};
                        }};
  two.expect({{x({2, 4, 9, 8})}, {x({1, 4, 6, 5})}}, {}, {1e-5, 1e-5});
  const at::Tensor wt = x({4, 3, 3});
  const WithWeights transposed{{{"w", wt}},
                               [=](const Tensors& t) { return Tensors{at::conv_transpose1d(t[0], wt, {}, 2, 1, 1)}; }};
  transposed.expect({{x({2, 4, 5})}, {x({1, 4, 3})}}, {}, {1e-5, 1e-5});
}

TEST(OnnxPools, MaxAndAverage) {
  const Forward pools = [](const Tensors& t) {
    return Tensors{at::max_pool2d(t[0], {2, 3}, {2, 1}, {1, 1}), at::max_pool2d(t[0], 2, {}, 0, 1, true),
                   at::avg_pool2d(t[0], 3, 2, 1), at::avg_pool2d(t[0], 3, 2, 1, false, false)};
  };
  expect_same(pools, {x({2, 3, 7, 8})}, {{x({1, 3, 5, 6})}}, {}, {1e-5, 1e-6}, {{"x0", {{1, Dim::Static()}}}});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::adaptive_avg_pool2d(t[0], {1, 1}), at::adaptive_avg_pool1d(t[0].flatten(2), 1)};
      },
      {x({2, 3, 7, 8})}, {{x({1, 3, 4, 4})}});
}

TEST(OnnxPools, Resampling) {
  const Forward up = [](const Tensors& t) {
    return Tensors{at::upsample_nearest2d(t[0], {6, 10}), at::upsample_bilinear2d(t[0], {6, 10}, false),
                   at::upsample_bilinear2d(t[0], {6, 10}, true), at::upsample_bicubic2d(t[0], {6, 10}, false)};
  };
  expect_same(up, {x({2, 3, 4, 5})}, {{x({1, 3, 3, 5})}}, {}, {1e-4, 1e-5});
  expect_same([](const Tensors& t) { return Tensors{at::pixel_shuffle(t[0], 2)}; }, {x({2, 8, 3, 4})},
              {{x({1, 4, 2, 2})}});
}

}  // namespace
}  // namespace exporters::onnx
