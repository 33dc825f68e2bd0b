// Exports take time in proportion to the model.
#include "exporters/onnx/exporter.h"
#include "tests/onnx/exported.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

namespace exporters::onnx {
namespace {

using namespace testing;

// Layers with a product, a normalization, attention over two heads and a residual, as transformers have them.
Forward stack(int64_t layers) {
  constexpr int64_t kWidth = 8;
  auto weights = std::make_shared<Tensors>();
  for (int64_t layer = 0; layer < layers; ++layer) {
    weights->push_back(at::randn({kWidth, kWidth}) * 0.1);
  }
  return [weights](const Tensors& t) {
    at::Tensor x = t[0];
    for (const at::Tensor& weight : *weights) {
      const at::Tensor heads = at::linear(at::layer_norm(x, {kWidth}), weight).unflatten(-1, {2, -1}).transpose(1, 2);
      const at::Tensor mask = at::le(at::arange(x.sym_size(1)).unsqueeze(0), at::arange(x.sym_size(1)).unsqueeze(1));
      x = x + at::scaled_dot_product_attention(heads, heads, heads, mask).transpose(1, 2).flatten(2);
    }
    return Tensors{x};
  };
}

// Processor time: others on the machine do not count.
double seconds_for(int64_t layers) {
  const Forward forward = stack(layers);
  double best = 1e9;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::clock_t start = std::clock();
    const Exported model(forward, {at::randn({2, 3, 8})});
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    EXPECT_GE(count_ops(model.model(), "Attention"), static_cast<size_t>(layers));
    // The mask is made once for all layers.
    EXPECT_EQ(count_ops(model.model(), "LessOrEqual"), 1u);
  }
  return best;
}

// A quadratic step would make it 16 times as long.
TEST(OnnxManyLayers, FourTimesTheLayersTakeAboutFourTimesAsLong) {
  const double few = seconds_for(200);
  const double many = seconds_for(800);
  EXPECT_LT(many, 4 * 2 * few) << few;
}

}  // namespace
}  // namespace exporters::onnx
