#include "exporters/executorch/emit/reader.h"
#include "exporters/executorch/emit/writer.h"
#include "exporters/executorch/runner.h"
#include "exporters/executorch/xnnpack/serialize.h"
#include "tests/executorch/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <limits>

namespace exporters::executorch {
namespace {

using namespace testing;
using namespace xnnpack;
using ::testing::HasSubstr;

// One delegate call on inputs and outputs of the given largest sizes.
struct DelegateBuilder : ProgramBuilder {
  XnnGraph graph;
  std::vector<int32_t> args;
  bool dynamic = true;

  uint32_t input(std::vector<uint32_t> dims) {
    const int32_t value = ProgramBuilder::input(at::kFloat, {dims.begin(), dims.end()}, dynamism());
    args.push_back(value);
    graph.inputs.push_back(graph.add({Datatype::kFp32, std::move(dims), {}, {}}));
    return graph.inputs.back();
  }
  uint32_t value(std::vector<uint32_t> dims) { return graph.add({Datatype::kFp32, std::move(dims), {}, {}}); }
  uint32_t weight(const at::Tensor& tensor) {
    return graph.add({Datatype::kFp32, {tensor.sizes().begin(), tensor.sizes().end()}, xnnpack::constant(tensor), {}});
  }
  uint32_t output(std::vector<uint32_t> dims) {
    const int32_t place = activation(at::kFloat, {dims.begin(), dims.end()}, dynamism());
    args.push_back(place);
    ProgramBuilder::output(place);
    graph.outputs.push_back(value(std::move(dims)));
    return graph.outputs.back();
  }
  ShapeDynamism dynamism() const { return dynamic ? ShapeDynamism::kBounded : ShapeDynamism::kStatic; }
  template <typename Op>
  void node(Op op, std::optional<Bounds> bounds = {}) {
    graph.nodes.push_back({std::move(op), bounds});
  }
  ExecutorchRunner runner(const std::filesystem::path& file) {
    method().delegates.push_back(add_delegate(program, graph));
    method().instructions.emplace_back(DelegateCall{0, args});
    save(file);
    return ExecutorchRunner(file);
  }
};

struct XnnpackTest : ::testing::Test {
  std::filesystem::path file = scratch_folder() / "m.pte";
  DelegateBuilder builder;

  // XNNPACK's exp, tanh and division are approximations to some units in the last place.
  static void expect_close(const at::Tensor& got, const at::Tensor& expected, double tolerance = 1e-6) {
    ASSERT_EQ(got.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(got, expected, tolerance, tolerance)) << (got - expected).abs().max().item<double>();
  }
};

TEST_F(XnnpackTest, FullyConnectedWithDynamicRows) {
  const at::Tensor weight = at::randn({5, 8});
  const at::Tensor bias = at::randn({5});
  const uint32_t x = builder.input({6, 8});
  const uint32_t w = builder.weight(weight);
  const uint32_t b = builder.weight(bias);
  builder.node(FullyConnected{x, w, b, builder.output({6, 5})});
  ExecutorchRunner runner = builder.runner(file);
  for (const int64_t rows : {6, 1, 4}) {
    const at::Tensor given = at::randn({rows, 8});
    expect_close(runner.run({given})[0], at::linear(given, weight, bias), 1e-5);
  }
  const at::Tensor given = at::randn({3, 8});
  keep_for_python(file, {given}, {at::linear(given, weight, bias)});
}

TEST_F(XnnpackTest, FullyConnectedWithoutBiasAndWithBounds) {
  const at::Tensor weight = at::randn({5, 8});
  const uint32_t x = builder.input({2, 3, 8});
  const uint32_t w = builder.weight(weight);
  builder.node(FullyConnected{x, w, {}, builder.output({2, 3, 5})}, Bounds{0, std::numeric_limits<float>::infinity()});
  ExecutorchRunner runner = builder.runner(file);
  const at::Tensor given = at::randn({1, 3, 8});
  expect_close(runner.run({given})[0], at::relu(at::linear(given, weight)), 1e-5);
}

TEST_F(XnnpackTest, WeightsOfSeveralDelegatesAreStoredOnce) {
  const at::Tensor weight = at::randn({300, 300});
  const uint32_t x = builder.input({2, 300});
  const uint32_t w = builder.weight(weight);
  const uint32_t again = builder.weight(weight.clone());
  const uint32_t between = builder.value({2, 300});
  builder.node(FullyConnected{x, w, {}, between});
  builder.node(FullyConnected{between, again, {}, builder.output({2, 300})});
  ExecutorchRunner runner = builder.runner(file);
  EXPECT_EQ(runner.program().named_data.size(), 1u);
  const at::Tensor given = at::randn({2, 300});
  expect_close(runner.run({given})[0], at::linear(at::linear(given, weight), weight), 1e-3);
}

TEST_F(XnnpackTest, BatchMatmulPlainAndTransposed) {
  const uint32_t a = builder.input({2, 4, 8});
  const uint32_t b = builder.input({2, 4, 8});
  const uint32_t scores = builder.value({2, 4, 4});
  builder.node(BinaryNode{Binary::kBatchMatmulTransposed, a, b, scores});
  builder.node(BinaryNode{Binary::kBatchMatmul, scores, b, builder.output({2, 4, 8})});
  ExecutorchRunner runner = builder.runner(file);
  for (const auto& [batch, length] : {std::pair{2, 4}, {1, 1}, {2, 3}}) {
    const at::Tensor x = at::randn({batch, length, 8});
    const at::Tensor y = at::randn({batch, length, 8});
    expect_close(runner.run({x, y})[0], x.matmul(y.transpose(1, 2)).matmul(y), 1e-5);
  }
}

struct UnaryCase {
  Unary op;
  at::Tensor (*expected)(const at::Tensor&);
};

TEST_F(XnnpackTest, EveryUnaryNode) {
  const UnaryCase cases[] = {
      {Unary::kSoftmax, [](const at::Tensor& x) { return at::softmax(x, -1); }},
      {Unary::kSigmoid, [](const at::Tensor& x) { return at::sigmoid(x); }},
      {Unary::kFloor, [](const at::Tensor& x) { return at::floor(x); }},
      {Unary::kCeil, [](const at::Tensor& x) { return at::ceil(x); }},
      {Unary::kSqrt, [](const at::Tensor& x) { return at::sqrt(x); }},
      {Unary::kRsqrt, [](const at::Tensor& x) { return at::rsqrt(x); }},
      {Unary::kHardswish, [](const at::Tensor& x) { return at::hardswish(x); }},
      {Unary::kNegate, [](const at::Tensor& x) { return at::neg(x); }},
      {Unary::kSquare, [](const at::Tensor& x) { return at::square(x); }},
      {Unary::kAbs, [](const at::Tensor& x) { return at::abs(x); }},
      {Unary::kLog, [](const at::Tensor& x) { return at::log(x); }},
      {Unary::kGelu, [](const at::Tensor& x) { return at::gelu(x); }},
      {Unary::kTanh, [](const at::Tensor& x) { return at::tanh(x); }},
      {Unary::kExp, [](const at::Tensor& x) { return at::exp(x); }},
      {Unary::kSin, [](const at::Tensor& x) { return at::sin(x); }},
      {Unary::kCos, [](const at::Tensor& x) { return at::cos(x); }},
      {Unary::kCopy, [](const at::Tensor& x) { return x.clone(); }},
  };
  for (const UnaryCase& each : cases) {
    DelegateBuilder one;
    const uint32_t x = one.input({3, 7});
    one.node(UnaryNode{each.op, x, one.output({3, 7})});
    ExecutorchRunner runner = one.runner(file);
    const bool positive = each.op == Unary::kSqrt || each.op == Unary::kRsqrt || each.op == Unary::kLog;
    const at::Tensor given = positive ? at::rand({2, 7}) + 0.1 : at::randn({2, 7});
    SCOPED_TRACE(static_cast<int>(each.op));
    expect_close(runner.run({given})[0], each.expected(given), 2e-6);
  }
}

TEST_F(XnnpackTest, EveryBinaryNodeBroadcasts) {
  const std::pair<Binary, at::Tensor (*)(const at::Tensor&, const at::Tensor&)> cases[] = {
      {Binary::kAdd, [](const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }},
      {Binary::kSubtract, [](const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }},
      {Binary::kMultiply, [](const at::Tensor& a, const at::Tensor& b) { return at::mul(a, b); }},
      {Binary::kDivide, [](const at::Tensor& a, const at::Tensor& b) { return at::div(a, b); }},
      {Binary::kMinimum, [](const at::Tensor& a, const at::Tensor& b) { return at::minimum(a, b); }},
      {Binary::kMaximum, [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); }},
  };
  for (const auto& [op, expected] : cases) {
    DelegateBuilder one;
    const uint32_t a = one.input({3, 4, 7});
    const uint32_t b = one.input({4, 1});
    one.node(BinaryNode{op, a, b, one.output({3, 4, 7})});
    ExecutorchRunner runner = one.runner(file);
    const at::Tensor x = at::randn({2, 3, 7});
    const at::Tensor y = at::rand({3, 1}) + 0.5;
    SCOPED_TRACE(static_cast<int>(op));
    expect_close(runner.run({x, y})[0], expected(x, y));
  }
}

TEST_F(XnnpackTest, LayoutNodes) {
  const uint32_t x = builder.input({2, 3, 4});
  const uint32_t turned = builder.value({3, 2, 4});
  builder.node(Transpose{{1, 0, 2}, x, turned});
  const uint32_t flat = builder.value({3, 8});
  builder.node(Reshape{{0, 8}, turned, flat});
  const uint32_t part = builder.value({3, 5});
  builder.node(Slice{{0, 2}, {3, 5}, flat, part});
  const uint32_t padded = builder.value({3, 7});
  builder.node(Pad{{0, 1}, {0, 1}, 0.5f, part, padded});
  builder.node(Concatenate{1, {padded, flat}, builder.output({3, 15})});
  builder.dynamic = false;
  ExecutorchRunner runner = builder.runner(file);
  const at::Tensor given = at::randn({2, 3, 4});
  const at::Tensor expected_flat = given.permute({1, 0, 2}).reshape({3, 8});
  const at::Tensor expected_part = at::constant_pad_nd(expected_flat.slice(1, 2, 7), {1, 1}, 0.5);
  expect_close(runner.run({given})[0], at::cat({expected_part, expected_flat}, 1));
}

TEST_F(XnnpackTest, ActivationsWithParameters) {
  const uint32_t x = builder.input({3, 5});
  const uint32_t leaky = builder.value({3, 5});
  builder.node(LeakyRelu{0.2f, x, leaky});
  builder.node(Elu{1.0f, leaky, builder.output({3, 5})});
  ExecutorchRunner runner = builder.runner(file);
  const at::Tensor given = at::randn({3, 5});
  expect_close(runner.run({given})[0], at::elu(at::leaky_relu(given, 0.2)), 2e-6);
}

TEST_F(XnnpackTest, ConvolutionPlainAndDepthwise) {
  const at::Tensor filter = at::randn({6, 3, 3, 4});     // out, h, w, in
  const at::Tensor depthwise = at::randn({1, 3, 3, 6});  // 1, h, w, channels
  builder.dynamic = false;
  const uint32_t x = builder.input({1, 8, 8, 4});
  Convolution plain;
  plain.padding = {1, 1, 1, 1};
  plain.kernel = {3, 3};
  plain.group_input_channels = 4;
  plain.group_output_channels = 6;
  plain.input = x;
  plain.filter = builder.weight(filter);
  plain.output = builder.value({1, 8, 8, 6});
  builder.node(plain);
  Convolution each = plain;
  each.kind = Convolution::Kind::kDepthwise;
  each.stride = {2, 2};
  each.groups = 6;
  each.group_input_channels = 1;
  each.group_output_channels = 1;
  each.input = plain.output;
  each.filter = builder.weight(depthwise);
  each.output = builder.output({1, 4, 4, 6});
  builder.node(each);
  ExecutorchRunner runner = builder.runner(file);
  const at::Tensor given = at::randn({1, 8, 8, 4});
  const at::Tensor first =
      at::conv2d(given.permute({0, 3, 1, 2}), filter.permute({0, 3, 1, 2}), {}, {1, 1}, at::IntArrayRef{1, 1});
  const at::Tensor second =
      at::conv2d(first, depthwise.permute({3, 0, 1, 2}), {}, {2, 2}, at::IntArrayRef{1, 1}, {1, 1}, 6);
  expect_close(runner.run({given})[0], second.permute({0, 2, 3, 1}), 1e-4);
}

// Activations are rounded to 8 bits a row at run time, so results agree to about a hundredth of their size.
TEST_F(XnnpackTest, LinearWithInt8WeightsAndRowsQuantizedAtRunTime) {
  const at::Tensor weight = at::randn({6, 32});
  const at::Tensor scales = std::get<0>(weight.abs().max(1)) / 127;
  const at::Tensor quantized = (weight / scales.unsqueeze(1)).round().clamp(-127, 127).to(at::kChar);
  const at::Tensor bias = at::randn({6});
  const uint32_t x = builder.input({4, 32});
  const uint32_t rounded = builder.graph.add({Datatype::kQdint8, {4, 32}, {}, RowScales{1}});
  builder.node(UnaryNode{Unary::kConvert, x, rounded});
  const float* begin = scales.const_data_ptr<float>();
  const uint32_t w = builder.graph.add(
      {Datatype::kQcint8, {6, 32}, xnnpack::constant(quantized), ChannelScales{0, {begin, begin + 6}}});
  const uint32_t b = builder.weight(bias);
  builder.node(FullyConnected{rounded, w, b, builder.output({4, 6})});
  ExecutorchRunner runner = builder.runner(file);
  for (const int64_t rows : {4, 1}) {
    const at::Tensor given = at::randn({rows, 32});
    const at::Tensor expected = at::linear(given, quantized.to(at::kFloat) * scales.unsqueeze(1), bias);
    const at::Tensor got = runner.run({given})[0];
    EXPECT_LT((got - expected).abs().max().item<double>(), 0.02 * expected.abs().max().item<double>());
  }
}

TEST_F(XnnpackTest, TheSameGraphGivesTheSameBytes) {
  const auto blob = [] {
    DelegateBuilder one;
    const uint32_t x = one.input({6, 8});
    one.node(FullyConnected{x, one.weight(at::ones({5, 8})), {}, one.output({6, 5})});
    return serialize(one.graph);
  };
  EXPECT_EQ(blob(), blob());
}

TEST_F(XnnpackTest, WrongGraphsAreRefused) {
  const uint32_t x = builder.input({6, 8});
  const uint32_t w = builder.weight(at::ones({5, 8}));
  builder.node(FullyConnected{x, w, {}, builder.output({6, 5})});
  XnnGraph graph = builder.graph;
  graph.outputs = {x};
  EXPECT_THAT(error_of([&] { serialize(graph); }), HasSubstr("passes through"));
  graph = builder.graph;
  std::get<FullyConnected>(graph.nodes[0].op).bias = 77;
  EXPECT_THAT(error_of([&] { serialize(graph); }), AllOf(HasSubstr("not there"), HasSubstr("node 0")));
  graph = builder.graph;
  graph.values[w].dims = {5, 9};
  EXPECT_THAT(error_of([&] { serialize(graph); }), AllOf(HasSubstr("160 bytes"), HasSubstr("180")));
  graph = builder.graph;
  graph.values[x].dims.resize(7, 1);
  EXPECT_THAT(error_of([&] { serialize(graph); }), HasSubstr("6 dimensions"));
}

TEST(XnnpackConstant, KeysFollowTheContent) {
  const at::Tensor tensor = at::arange(100);
  const auto file = scratch_folder() / "w.bin";
  write_bytes(file, "xx" + std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()));
  const std::string key = constant(tensor).key;
  EXPECT_EQ(constant(tensor.clone()).key, key);
  EXPECT_EQ(constant(WeightSource{file, "w", 2, tensor.nbytes()}).key, key);
  EXPECT_NE(constant(tensor + 1).key, key);
}

}  // namespace
}  // namespace exporters::executorch
