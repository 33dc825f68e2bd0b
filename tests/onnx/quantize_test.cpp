// Rounded weights: numbers and scales, and what of a graph becomes MatMulNBits.
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/quantize/quantize_weights.h"
#include "exporters/onnx/runner.h"
#include "exporters/support/error.h"
#include "tests/onnx/support.h"

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Format {
  int64_t bits;
  int64_t block_size;
  bool symmetric;
};
constexpr Format kFormats[] = {{4, 16, true},  {4, 32, false}, {4, 128, true}, {4, 256, false},
                               {8, 16, false}, {8, 32, true},  {8, 64, false}, {8, 256, true}};

QuantizationOptions options_of(const Format& format) {
  QuantizationOptions options;
  options.format = {format.bits, format.block_size, format.symmetric};
  options.accuracy_level = 0;
  return options;
}

// y = x · weight, with weight [outputs, inputs] by Gemm(transB), or [inputs, outputs] by MatMul.
OnnxModel product_model(const at::Tensor& weight, bool transposed) {
  OnnxModel model = linear_model(weight);
  const int64_t inputs = weight.size(transposed ? 1 : 0);
  const int64_t outputs = weight.size(transposed ? 0 : 1);
  model.graph.initializers = {{"w", onnx_type(weight.scalar_type()), weight.sizes().vec(), weight}};
  model.graph.nodes = {{"y", "MatMul", "", {"x", "w"}, {"y"}, {}}};
  if (transposed) {
    model.graph.nodes = {{"y", "Gemm", "", {"x", "w"}, {"y"}, {{"transB", int64_t{1}}}}};
  }
  model.graph.inputs = {{"x", OnnxType::kFloat, std::vector<OnnxDim>{"batch", inputs}}};
  model.graph.outputs = {{"y", OnnxType::kFloat, std::vector<OnnxDim>{"batch", outputs}}};
  return model;
}

// The rounded weight as ONNX Runtime reads it: the product with a unit matrix.
at::Tensor weight_in_runtime(OnnxModel model, const std::string& name) {
  const int64_t inputs = std::get<int64_t>((*model.graph.inputs[0].dims)[1]);
  const auto folder = scratch_folder();
  save_model(std::move(model), folder / name);
  return OnnxRunner(folder / name).run({{"x", at::eye(inputs)}})[0].second;
}

at::Tensor steps_of(const at::Tensor& weight, const QuantizationFormat& format) {
  const int64_t columns = weight.size(1);
  const auto rows = static_cast<size_t>(weight.size(0));
  std::vector<uint8_t> values(rows * static_cast<size_t>(format.value_bytes(columns)));
  std::vector<float> scales(rows * static_cast<size_t>(format.blocks(columns)));
  std::vector<uint8_t> zero_points(rows * static_cast<size_t>(format.zero_point_bytes(columns)));
  const at::Tensor contiguous = weight.contiguous();
  quantize_rows({contiguous.const_data_ptr<float>(), static_cast<size_t>(contiguous.numel())}, columns, format,
                c10::kFloat, {values, scales, zero_points});
  at::Tensor steps = at::empty_like(contiguous);
  for (int64_t row = 0; row < weight.size(0); ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      steps[row][column] =
          std::abs(scales[static_cast<size_t>(row * format.blocks(columns) + column / format.block_size)]);
    }
  }
  return steps;
}

// 70 inputs are no whole number of blocks of any size.
TEST(Quantize, WeightsAreAsCloseAsTheirScalesSayInBothLayouts) {
  const at::Tensor weight = at::randn({9, 70});
  for (const Format& format : kFormats) {
    const QuantizationOptions options = options_of(format);
    const at::Tensor steps = steps_of(weight, options.format);
    at::Tensor in_runtime[2];
    for (const bool transposed : {false, true}) {
      OnnxModel model = product_model(transposed ? weight : weight.t().contiguous(), transposed);
      const QuantizedWeights weights = quantize_weights(model, options);
      ASSERT_EQ(weights.matrices.size(), 1u);
      EXPECT_THAT(weights.kept, ElementsAre());
      EXPECT_EQ(model.graph.nodes[0].op_type, "MatMulNBits");
      EXPECT_EQ(model.opset("com.microsoft"), 1);
      in_runtime[transposed] = weight_in_runtime(std::move(model), "m.onnx").t();
    }
    EXPECT_TRUE(in_runtime[0].equal(in_runtime[1]));
    const at::Tensor distance = in_runtime[0].sub(weight).abs();
    // Half a step; a whole one for the outermost value on the side that has one number less.
    const double limit = format.symmetric ? 1.001 : 0.502;
    EXPECT_TRUE(distance.le(steps.mul(limit).add(1e-6)).all().item<bool>()) << format.bits << " " << format.block_size;
    EXPECT_GT(distance.le(steps.mul(0.502).add(1e-6)).to(c10::kFloat).mean().item<float>(), 0.95f);
  }
}

TEST(Quantize, TheRuntimesNumbersAreThoseOfDequantizeRows) {
  const at::Tensor weight = at::randn({5, 45});
  for (const Format& format : kFormats) {
    OnnxModel model = product_model(weight, true);
    const QuantizedWeights weights = quantize_weights(model, options_of(format));
    const at::Tensor expected = at::empty_like(weight);
    weights.matrices[0]->for_each_rows([&](int64_t row, const at::Tensor& values, const QuantizedRows& rows) {
      dequantize_rows(rows, 45, weights.matrices[0]->format(),
                      {expected.mutable_data_ptr<float>() + row * 45, static_cast<size_t>(values.numel())});
    });
    EXPECT_TRUE(at::allclose(weight_in_runtime(std::move(model), "m.onnx").t(), expected, 1e-6, 1e-7));
  }
}

TEST(Quantize, ExtremesZerosAndConstantsHaveTheirNumbers) {
  at::Tensor weight = at::zeros({4, 32});
  weight[1].fill_(-2.5);
  weight[2].fill_(1e-30);
  weight[3][7] = 3.0e38;
  for (const Format& format : {Format{4, 32, true}, Format{4, 32, false}, Format{8, 32, true}, Format{8, 32, false}}) {
    OnnxModel model = product_model(weight, true);
    quantize_weights(model, options_of(format));
    const at::Tensor back = weight_in_runtime(std::move(model), "m.onnx").t();
    EXPECT_TRUE(at::allclose(back, weight, /*rtol=*/1e-5, /*atol=*/0)) << format.bits << format.symmetric << back;
  }
}

TEST(Quantize, ValuesThatAreNotFiniteAreRefusedByName) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    at::Tensor weight = at::randn({4, 70});
    weight[3][69] = bad;
    OnnxModel model = product_model(weight, true);
    quantize_weights(model, options_of({4, 32, true}));
    EXPECT_THAT(error_of([&] { save_model(std::move(model), scratch_folder() / "m.onnx"); }), HasSubstr("'w'"));
  }
}

TEST(Quantize, TheBytesDoNotDependOnTheNumberOfThreads) {
  const at::Tensor weight = at::randn({300, 70});
  const auto folder = scratch_folder();
  const int before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    OnnxModel model = product_model(weight, true);
    quantize_weights(model, options_of({4, 32, false}));
    save_model(std::move(model), folder / (std::to_string(threads) + ".onnx"));
  }
  at::set_num_threads(before);
  EXPECT_EQ(read_bytes(folder / "1.onnx.data"), read_bytes(folder / "2.onnx.data"));
}

// ── What becomes MatMulNBits ──

TEST(Quantize, BiasesOfAnyFormStay) {
  const at::Tensor weight = at::randn({6, 32});
  const at::Tensor vector = at::randn({6});
  const at::Tensor column = at::randn({5, 1});
  for (const at::Tensor& bias : {vector, column}) {
    OnnxModel model = product_model(weight, true);
    model.graph.initializers.push_back({"b", OnnxType::kFloat, bias.sizes().vec(), bias});
    model.graph.nodes[0].inputs.push_back("b");
    QuantizedWeights weights = quantize_weights(model, options_of({8, 32, true}));
    EXPECT_EQ(model.graph.nodes.size(), bias.dim() == 1 ? 1u : 2u);
    const auto folder = scratch_folder();
    save_model(std::move(model), folder / "m.onnx");
    const at::Tensor x = at::randn({5, 32});
    const at::Tensor expected = x.matmul(weight.t()).add(bias);
    // int8 weights: errors of 1/256 of the largest weight, in sums of 32 products.
    EXPECT_TRUE(at::allclose(OnnxRunner(folder / "m.onnx").run({{"x", x}})[0].second, expected, 0, 0.2));
  }
}

OnnxModel with_node(OnnxModel model, OnnxNode node) {
  model.graph.outputs.push_back({node.outputs[0], OnnxType::kFloat, std::nullopt});
  model.graph.nodes.push_back(std::move(node));
  return model;
}

std::string reason(OnnxModel model) {
  const std::vector<OnnxNode> before = model.graph.nodes;
  const QuantizedWeights weights = quantize_weights(model, options_of({4, 32, true}));
  EXPECT_EQ(weights.matrices.size(), 0u);
  EXPECT_FALSE(model.opset("com.microsoft"));
  EXPECT_EQ(model.graph.nodes[0].op_type, before[0].op_type);
  return weights.kept.empty() ? "" : weights.kept[0].reason;
}

TEST(Quantize, WeightsWithOtherUsesStayAndSayWhy) {
  const at::Tensor weight = at::randn({64, 32});
  const OnnxModel product = product_model(weight, true);
  EXPECT_THAT(reason(with_node(product, {"g", "Gather", "", {"w", "ids"}, {"rows"}, {}})),
              HasSubstr("tied to an embedding"));
  EXPECT_THAT(reason(with_node(product, {"n", "Neg", "", {"w"}, {"negative"}, {}})), HasSubstr("read by Neg too"));
  EXPECT_THAT(reason(with_node(product, {"m", "MatMul", "", {"x2", "w"}, {"z"}, {}})), HasSubstr("two forms"));

  OnnxModel scaled = product;
  scaled.graph.nodes[0].attributes.push_back({"alpha", 0.5f});
  EXPECT_THAT(reason(scaled), HasSubstr("read by Gemm"));
  OnnxModel first = product;
  first.graph.nodes[0].inputs = {"w", "x"};
  EXPECT_THAT(reason(first), HasSubstr("read by Gemm"));
  EXPECT_THAT(reason(product_model(weight.to(c10::kDouble), true)), HasSubstr("float64"));
}

// Two initializers with the same bytes are one weight.
TEST(Quantize, TiedWeightsUnderTwoNamesStay) {
  const at::Tensor weight = at::randn({64, 32});
  OnnxModel model = product_model(weight, true);
  model.graph.initializers.push_back({"embedding", OnnxType::kFloat, {64, 32}, weight});
  model = with_node(std::move(model), {"g", "Gather", "", {"embedding", "ids"}, {"rows"}, {}});
  EXPECT_THAT(reason(model), HasSubstr("tied to an embedding"));
}

TEST(Quantize, BothModesOfSavingAndSeveralModelsShareWhatIsRounded) {
  const at::Tensor weight = at::randn({64, 70});
  const auto folder = scratch_folder();
  std::vector<std::pair<std::string, OnnxModel>> models;
  for (const char* name : {"a.onnx", "b.onnx"}) {
    models.emplace_back(name, product_model(weight, true));
    quantize_weights(models.back().second, options_of({4, 32, false}));
  }
  save_models(models, folder);
  EXPECT_EQ(std::filesystem::file_size(folder / "b.onnx.data"), 0u);
  save_model(models[0].second, folder / "inline.onnx", {.weights = WeightsMode::kInline});
  EXPECT_EQ(std::filesystem::file_size(folder / "inline.onnx.data"), 0u);

  const at::Tensor x = at::randn({3, 70});
  const at::Tensor first = OnnxRunner(folder / "a.onnx").run({{"x", x}})[0].second;
  EXPECT_TRUE(OnnxRunner(folder / "b.onnx").run({{"x", x}})[0].second.equal(first));
  EXPECT_TRUE(OnnxRunner(folder / "inline.onnx").run({{"x", x}})[0].second.equal(first));
}

TEST(Quantize, FormatsThatTheOperatorDoesNotHaveAreRefused) {
  OnnxModel model = product_model(at::randn({64, 70}), true);
  EXPECT_THAT(error_of([&] { quantize_weights(model, options_of({4, 48, true})); }), HasSubstr("not 48"));
  EXPECT_THAT(error_of([&] { quantize_weights(model, options_of({2, 32, true})); }), HasSubstr("not 2"));
}

}  // namespace
}  // namespace exporters::onnx
