// What XNNPACK delegates are made of, and what they compute.
#include "exporters/executorch/edge/decompositions.h"
#include "exporters/executorch/edge/lower.h"
#include "exporters/executorch/xnnpack/check_blob.h"
#include "exporters/executorch/xnnpack/graph_builder.h"
#include "exporters/executorch/xnnpack/partitioner.h"
#include "exporters/trace/trace.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"
#include "tests/support/error_of.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <fstream>

namespace exporters::executorch {
namespace {

using namespace testing;
using ::testing::HasSubstr;

using Parameters = std::map<std::string, at::Tensor>;

// ── Last places ──

// DeBERTa's buckets of relative positions, which are whole at the longest distance: 127 · log(511/128) / log(511/128).
TEST(Delegates, WholeNumbersMadeOfLogarithmsAreThoseOfEager) {
  const at::Tensor table = at::randn({300, 8});
  const at::Tensor weight = at::randn({8, 8});
  const auto forward = [=](const Tensors& x) {
    const at::Tensor distance = x[0].to(at::kFloat);
    const at::Tensor steps = at::log(distance / 128) / at::log(at::full({}, 511.0F / 128)) * 127;
    const at::Tensor bucket = at::ceil(steps).to(at::kLong) + 128;
    return Tensors{bucket, at::linear(at::embedding(table, bucket), weight)};
  };
  const Exported exported(forward, {at::tensor({128, 300}, at::kLong)},
                          {.parameters = {{"table", table}, {"weight", weight}}, .largest = 400});
  EXPECT_GE(exported.count("XnnpackBackend"), 1);
  exported.expect_as_eager({{at::arange(128, 512, at::kLong)}, {at::tensor({511}, at::kLong)}});
}

// ── Damaged data ──

std::string bytes_of(const Bytes& bytes) {
  if (const auto* source = std::get_if<WeightSource>(&bytes)) {
    std::ifstream file(source->file, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(source->offset));
    std::string result(source->nbytes, '\0');
    file.read(result.data(), static_cast<std::streamsize>(result.size()));
    return result;
  }
  return std::get<std::string>(bytes);
}

// XNNPACK would read beyond a bias that has fewer elements than there are channels.
TEST(Delegates, DamagedDataIsRefused) {
  const at::Tensor weight = at::randn({8, 4});
  const Exported exported([=](const Tensors& x) { return Tensors{at::linear(x[0], weight)}; }, {at::randn({2, 4})},
                          {.parameters = {{"weight", weight}}});
  const auto error_with = [&](const std::function<void(std::string & blob)>& change) {
    Program program = exported.program();
    std::string blob = bytes_of(program.blobs.at(0));
    change(blob);
    program.blobs[0] = blob;
    return exporters::testing::error_of([&] { xnnpack::check_delegates(program); });
  };
  EXPECT_EQ(error_with([](std::string&) {}), "no error");
  EXPECT_THAT(error_with([](std::string& blob) { blob.resize(blob.size() / 2); }), HasSubstr("damaged data"));

  const std::string none(4, '\xff');  // a product without a bias
  std::vector<std::string> errors;
  const std::string whole = bytes_of(exported.program().blobs.at(0));
  for (size_t at = whole.find(none); at != std::string::npos; at = whole.find(none, at + 4)) {
    errors.push_back(error_with([&](std::string& blob) { blob.replace(at, 4, std::string("\1\0\0\0", 4)); }));
  }
  EXPECT_THAT(errors, ::testing::Contains(HasSubstr("is no bias of 8 channels")));

  Program program = exported.program();
  for (NamedData& data : program.named_data) {
    data.bytes = std::string(7, '\0');
  }
  EXPECT_THAT(error_of([&] { xnnpack::check_delegates(program); }), HasSubstr("which are too few"));
}

// ── Bounds of activations ──

// The XNNPACK graphs of a forward on fixed sizes.
std::vector<xnnpack::XnnGraph> graphs_of(const TensorForward& forward, const Tensors& samples,
                                         const Parameters& parameters) {
  const ExportSource source = source_of(forward, parameters);
  TraceRequest request;
  request.module_class = "Test";
  request.state = source.state;
  request.inputs = named(samples);
  request.forward = source.forward;
  const xnnpack::XnnpackPartitioner partitioner;
  ExportedProgram program = trace(request);
  for (auto& [symbol, range] : program.range_constraints) {
    range.max = 16;
  }
  const EdgeProgram edge = lower_to_edge(program, edge_decompositions(), &partitioner, [](ExportedProgram&) {});
  std::vector<xnnpack::XnnGraph> graphs;
  for (const Partition& partition : partition(edge, &partitioner).partitions) {
    graphs.push_back(xnnpack::GraphBuilder(edge, partition).build());
  }
  return graphs;
}

size_t clamps(const xnnpack::XnnGraph& graph) {
  return static_cast<size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const xnnpack::Node& node) {
    const auto* unary = std::get_if<xnnpack::UnaryNode>(&node.op);
    return unary != nullptr && unary->op == xnnpack::Unary::kClamp;
  }));
}

struct BoundedCase {
  const char* name;
  TensorForward forward;
  Tensors sample;
  Parameters parameters;
};

std::vector<BoundedCase> bounded_cases() {
  at::manual_seed(0);
  const at::Tensor weight = at::randn({5, 8});
  const at::Tensor bias = at::randn({5});
  const at::Tensor filter = at::randn({6, 3, 3, 3});
  return {
      {"linear",
       [=](const Tensors& x) { return Tensors{at::relu(at::linear(x[0], weight, bias))}; },
       {at::randn({4, 8})},
       {{"weight", weight}, {"bias", bias}}},
      {"convolution",
       [=](const Tensors& x) { return Tensors{at::clamp(at::conv2d(x[0], filter), -0.5, 6)}; },
       {at::randn({2, 3, 8, 8})},
       {{"filter", filter}}},
      {"sum",
       [=](const Tensors& x) { return Tensors{at::hardtanh(at::linear(x[0], weight) + x[1], -0.2, 0.7)}; },
       {at::randn({4, 8}), at::randn({4, 5})},
       {{"weight", weight}}},
  };
}

TEST(Activations, AreBoundsOfWhatTheyFollow) {
  for (const BoundedCase& each : bounded_cases()) {
    SCOPED_TRACE(each.name);
    const auto graphs = graphs_of(each.forward, each.sample, each.parameters);
    ASSERT_EQ(graphs.size(), 1u);
    EXPECT_EQ(clamps(graphs[0]), 0u);
    const Exported exported(each.forward, each.sample, {"xnnpack", each.parameters, 16, false});
    exported.expect_as_eager({each.sample}, 1e-5);
  }
}

// The linear layer's result is needed as it is, too.
TEST(Activations, StayApartWhereBothAreNeeded) {
  const at::Tensor weight = at::randn({5, 8});
  const TensorForward forward = [=](const Tensors& x) {
    const at::Tensor y = at::linear(x[0], weight);
    return Tensors{at::relu(y), y};
  };
  const Tensors sample = {at::randn({4, 8})};
  const auto graphs = graphs_of(forward, sample, {{"weight", weight}});
  ASSERT_EQ(graphs.size(), 1u);
  EXPECT_EQ(clamps(graphs[0]), 1u);
  Exported(forward, sample, {"xnnpack", {{"weight", weight}}, 16, false}).expect_as_eager({sample}, 1e-5);
}

// ── Linear layers in int8 ──

// The weight as int8 with a scale for each row holds it, and the input with a scale for each of its rows.
at::Tensor rounded_rows(const at::Tensor& tensor) {
  const at::Tensor scale = tensor.abs().amax({-1}, true).clamp_min(1e-30) / 127;
  return (tensor / scale).round().clamp(-127, 127) * scale;
}

TEST(Int8Linear, AgreesWithRoundedWeightsAtEverySize) {
  at::manual_seed(0);
  at::Tensor weight = at::randn({48, 64}) * at::logspace(-2, 1, 48).unsqueeze(1);  // rows of very different size
  weight[7].zero_();
  const at::Tensor second = at::randn({16, 48});
  const at::Tensor bias = at::randn({48});
  ExportedOptions options{"xnnpack", {{"weight", weight}, {"second", second}, {"bias", bias}}};
  options.quantize_linear = "int8";
  options.static_axes = {"x0.2"};
  const auto network = [=](const at::Tensor& x, const at::Tensor& w, const at::Tensor& v) {
    return at::linear(at::gelu(at::linear(x, w, bias)), v);
  };
  const Exported exported([=](const Tensors& x) { return Tensors{network(x[0], weight, second)}; },
                          {at::randn({2, 3, 64})}, options);
  for (const auto& [batch, length] : {std::pair<int64_t, int64_t>(1, 1), {3, 7}, {16, 16}}) {
    const at::Tensor x = at::randn({batch, length, 64});
    const at::Tensor expected = network(x, rounded_rows(weight), rounded_rows(second));
    const at::Tensor actual = exported.run({x})[0];
    // What is left is the rounding of inputs to 8 bits a row, twice.
    EXPECT_LT((actual - expected).abs().max().item<double>(), 0.02 * expected.abs().max().item<double>());
    EXPECT_FALSE(at::allclose(actual, network(x, weight, second), 1e-5, 1e-5));  // it does round
  }
}

TEST(Int8Linear, WeightsTakeAQuarter) {
  const at::Tensor weight = at::randn({512, 512});
  ExportedOptions options{"xnnpack", {{"weight", weight}}};
  options.quantize_linear = "int8";
  options.static_axes = {"x0.1"};
  const Exported exported([=](const Tensors& x) { return Tensors{at::linear(x[0], weight)}; }, {at::randn({2, 512})},
                          options);
  EXPECT_LT(std::filesystem::file_size(exported.file()), weight.nbytes() / 3);
}

// Equal bytes under different scales are different weights.
TEST(Int8Linear, WeightsThatDifferByAFactorAreKeptApart) {
  const at::Tensor weight = at::randn({32, 32});
  const at::Tensor doubled = weight * 2;
  ExportedOptions options{"xnnpack", {{"weight", weight}, {"doubled", doubled}}};
  options.quantize_linear = "int8";
  options.static_axes = {"x0.1"};
  const Exported exported(
      [=](const Tensors& x) {
        return Tensors{at::linear(x[0], weight), at::linear(x[0], doubled)};
      },
      {at::randn({2, 32})}, options);
  const Tensors outputs = exported.run({at::randn({5, 32})});
  EXPECT_TRUE(at::allclose(outputs[1], outputs[0] * 2, 1e-5, 1e-5));
}

TEST(Int8Linear, IsRefusedWhereNoDelegateRuns) {
  ExportedOptions options{"portable"};
  options.quantize_linear = "int8";
  EXPECT_THAT(
      error_of([&] { Exported([](const Tensors& x) { return Tensors{x[0] + 1}; }, {at::randn({2})}, options); }),
      HasSubstr("'portable' has no linear layers in int8"));
}

}  // namespace
}  // namespace exporters::executorch
