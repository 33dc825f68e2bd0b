#include "tests/onnx/optimize/model_builder.h"

#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/optimize/passes.h"
#include "tests/onnx/harness.h"
#include "tests/onnx/support.h"

#include <ATen/ATen.h>

namespace exporters::onnx::testing {

ModelBuilder::ModelBuilder(int64_t opset) {
  model_.ir_version = ir_version_for_opset(opset);
  model_.opsets = {{"", opset}};
  model_.producer_name = "exporters.cpp";
}

std::string ModelBuilder::input(const std::string& name, std::vector<OnnxDim> dims, OnnxType dtype) {
  model_.graph.inputs.push_back({name, dtype, std::move(dims)});
  return name;
}

std::string ModelBuilder::node(const std::string& op, std::vector<std::string> inputs,
                               std::vector<OnnxAttribute> attributes, size_t outputs) {
  const std::string name = op + "_" + std::to_string(count_++);
  OnnxNode node{name, op, "", std::move(inputs), {name}, std::move(attributes)};
  for (size_t i = 1; i < outputs; ++i) {
    node.outputs.push_back(name + "." + std::to_string(i));
  }
  model_.graph.nodes.push_back(std::move(node));
  return name;
}

std::string ModelBuilder::constant(const at::Tensor& tensor) {
  const std::string name = "constant/" + std::to_string(count_++);
  const at::Tensor dense = tensor.contiguous();
  std::string bytes(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
  model_.graph.initializers.push_back(
      {name, onnx_type(tensor.scalar_type()), tensor.sizes().vec(), InlineBytes{std::move(bytes)}});
  return name;
}

std::string ModelBuilder::ints(const std::vector<int64_t>& values) { return constant(at::tensor(values, at::kLong)); }

void ModelBuilder::describe(const std::string& value, std::vector<OnnxDim> dims, OnnxType dtype) {
  model_.graph.value_info.push_back({value, dtype, std::move(dims)});
}

void ModelBuilder::output(const std::string& value, std::vector<OnnxDim> dims, OnnxType dtype) {
  model_.graph.outputs.push_back({value, dtype, std::move(dims)});
}

std::vector<std::string> optimized_by(const std::string& pass, const OnnxModel& model,
                                      const std::vector<OnnxRunner::Inputs>& inputs, double tolerance) {
  std::vector<std::string> others;
  for (const OptimizerPass& each : optimizer_passes()) {
    if (each.name != pass) {
      others.emplace_back(each.name);
    }
  }
  OnnxModel optimized = model;
  optimize_model(optimized, others);
  const auto folder = scratch_folder();
  OnnxModel plain = model;
  plain.graph.value_info.clear();
  std::vector<std::string> ops = op_types(optimized);
  optimized.graph.value_info.clear();
  save_model(std::move(plain), folder / "before.onnx");
  save_model(std::move(optimized), folder / "after.onnx");
  // Without the runtime's own optimizer, which would do what a wrong pass has undone.
  OnnxRunnerOptions options;
  options.graph_optimization = 0;
  const OnnxRunner before(folder / "before.onnx", options);
  const OnnxRunner after(folder / "after.onnx", options);
  for (const OnnxRunner::Inputs& each : inputs) {
    const auto expected = before.run(each);
    const auto actual = after.run(each);
    EXPECT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i].first, expected[i].first);
      EXPECT_EQ(actual[i].second.scalar_type(), expected[i].second.scalar_type());
      EXPECT_EQ(actual[i].second.sizes(), expected[i].second.sizes());
      EXPECT_TRUE(tolerance == 0.0 ? at::equal(actual[i].second, expected[i].second)
                                   : at::allclose(actual[i].second, expected[i].second, tolerance, tolerance))
          << pass << ": output " << i << " is " << actual[i].second << "\nnot " << expected[i].second;
    }
  }
  return ops;
}

}  // namespace exporters::onnx::testing
