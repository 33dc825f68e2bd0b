#include "tests/onnx/harness.h"

#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/optimize/passes.h"
#include "exporters/onnx/runner.h"
#include "exporters/passes/clone.h"
#include "exporters/passes/op_facts.h"
#include "exporters/trace/trace.h"
#include "tests/onnx/support.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>

namespace exporters::onnx::testing {

using exporters::testing::input_name;
using exporters::testing::named;
using exporters::testing::on_named_inputs;

namespace {

std::filesystem::path empty_folder(const std::filesystem::path& path) {
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

// Where the reference checker finds the models of this run; by default a folder of its own.
const std::filesystem::path& models_folder() {
  const char* folder = std::getenv("EXPORTERS_ONNX_MODELS");
  static const std::filesystem::path path =
      empty_folder(folder != nullptr ? folder : std::filesystem::path(::testing::TempDir()) / "onnx_models");
  return path;
}

std::filesystem::path next_model_path() {
  static std::map<std::string, int> counts;
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(info->test_suite_name()) + "." + info->name();
  std::replace(name.begin(), name.end(), '/', '-');
  return models_folder() / (name + "_" + std::to_string(counts[name]++) + ".onnx");
}

void compare(const at::Tensor& actual, const at::Tensor& expected, const Tolerance& tolerance,
             const std::string& what) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  if (!c10::isFloatingType(expected.scalar_type())) {
    EXPECT_TRUE(at::equal(actual, expected)) << what << "\n" << actual << "\nexpected\n" << expected;
    return;
  }
  const at::Tensor a = actual.to(at::kDouble);
  const at::Tensor b = expected.to(at::kDouble);
  EXPECT_TRUE(at::allclose(a, b, tolerance.rtol, tolerance.atol, /*equal_nan=*/true)) << what << "\n"
                                                                                      << actual << "\nexpected\n"
                                                                                      << expected;
}

}  // namespace

ExportedProgram traced(const Forward& forward, const Tensors& samples, const DynamicShapes& shapes,
                       const std::map<std::string, at::Tensor>& parameters) {
  TraceRequest request;
  request.module_class = "Test";
  request.inputs = named(samples);
  for (const auto& [name, tensor] : parameters) {
    request.state.push_back({name, tensor});
  }
  request.dynamic_shapes = shapes;
  request.forward = on_named_inputs(forward);
  return trace(request);
}

namespace {

void expect_same(const std::filesystem::path& path, const std::string& text, const Forward& forward,
                 const std::vector<Tensors>& inputs, const Tolerance& tolerance) {
  const OnnxRunner runner(path);
  for (const Tensors& tensors : inputs) {
    OnnxRunner::Inputs bound;
    std::string what = text + path.filename().string();
    for (size_t i = 0; i < tensors.size(); ++i) {
      bound[input_name(i)] = tensors[i];
      what += " " + ::testing::PrintToString(tensors[i].sizes().vec());
    }
    Tensors expected;
    for (const at::Tensor& tensor : forward(tensors)) {
      expected.push_back(tensor);
    }
    const auto outputs = runner.run(bound);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      compare(outputs[i].second, expected[i], tolerance, what);
    }
  }
}

// The model after the optimizer's passes, but for one of them.
OnnxModel optimized(const ExportedProgram& program, OnnxOptions options, const std::vector<std::string>& disabled) {
  ExportedProgram rewritten = clone(program);
  if (is_functional(*rewritten.graph)) {
    optimize_program(rewritten, disabled);
  }
  options.describe_values = true;
  OnnxModel model = to_onnx(rewritten, options);
  optimize_model(model, disabled);
  model.graph.value_info.clear();
  return model;
}

// Another one each time, so that over all tests each is left out many times.
std::string next_pass() {
  static size_t next = 0;
  return std::string(optimizer_passes()[next++ % optimizer_passes().size()].name);
}

}  // namespace

void expect_same(const ExportedProgram& program, const Forward& forward, const std::vector<Tensors>& inputs,
                 OnnxOptions options, Tolerance tolerance) {
  const std::filesystem::path path = next_model_path();
  const std::string text = program.str();
  save_model(to_onnx(program, options), path);
  expect_same(path, text, forward, inputs, tolerance);

  const std::filesystem::path with_passes = next_model_path();
  save_model(optimized(program, options, {}), with_passes);
  expect_same(with_passes, text + "optimized ", forward, inputs, tolerance);

  const std::string pass = next_pass();
  const std::filesystem::path without_one =
      empty_folder(std::filesystem::path(::testing::TempDir()) / "onnx_without_one") / "model.onnx";
  save_model(optimized(program, options, {pass}), without_one);
  expect_same(without_one, text + "optimized without " + pass + " ", forward, inputs, tolerance);
}

void expect_same(const Forward& forward, const Tensors& samples, const std::vector<Tensors>& more, OnnxOptions options,
                 Tolerance tolerance, const DynamicShapes& shapes) {
  std::vector<Tensors> inputs = {samples};
  inputs.insert(inputs.end(), more.begin(), more.end());
  expect_same(traced(forward, samples, shapes), forward, inputs, options, tolerance);
}

std::vector<std::string> op_types(const OnnxModel& model) {
  std::vector<std::string> types;
  for (const OnnxNode& node : model.graph.nodes) {
    types.push_back(node.op_type);
  }
  return types;
}

size_t count_ops(const OnnxModel& model, std::string_view op) {
  const std::vector<std::string> types = op_types(model);
  return static_cast<size_t>(std::count(types.begin(), types.end(), op));
}

}  // namespace exporters::onnx::testing
