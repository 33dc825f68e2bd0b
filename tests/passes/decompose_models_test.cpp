// Whole models, decomposed and run.
#include "exporters/dynamo/trace_model.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/interpreter/interpreter.h"
#include "exporters/models/registry.h"
#include "exporters/support/error.h"
#include "exporters/trace/torch_module.h"
#include "exporters/trace/trace.h"
#include "tests/passes/decompose_case.h"
#include "tests/reference/folder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/transformercoder.h>

namespace exporters::decomposition {
namespace {

double largest_difference(const std::vector<PyTree::Leaf>& a, const std::vector<PyTree::Leaf>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const at::Tensor x = std::get<at::Tensor>(a[i]).to(at::kDouble);
    const at::Tensor y = std::get<at::Tensor>(b.at(i)).to(at::kDouble);
    EXPECT_EQ(x.sizes(), y.sizes());
    largest = std::max(largest, (x - y).abs().max().item<double>());
  }
  return largest;
}

std::shared_ptr<ExportedProgram> traced(const std::shared_ptr<const models::PreTrainedModel>& model) {
  const models::ForwardArgs sample = model->sample_inputs({2, 8});
  DynamoConfig config;
  config.dynamic = true;
  return trace_model(export_source(model), {sample.begin(), sample.end()}, config).program;
}

TEST(DecomposedModels, EveryBertHeadIsCoreAtenWithTheSameValues) {
  const std::filesystem::path cases = exporters::testing::reference_folder("models") / "cases";
  for (const models::ModelEntry& entry : models::list()) {
    if (entry.model_type != "bert" || entry.architecture == "BertLMHeadModel") {  // which is a decoder
      continue;
    }
    SCOPED_TRACE(entry.architecture);
    const std::shared_ptr<const models::PreTrainedModel> model =
        models::load(cases / (std::string(entry.architecture) + "_gelu_0"));
    const auto whole = traced(model);
    const auto core = std::make_shared<ExportedProgram>(run_decompositions(*whole));
    EXPECT_THAT(outside_core(*core->graph), ::testing::IsEmpty());
    EXPECT_EQ(core->range_constraints, whole->range_constraints);
    EXPECT_EQ(core->guards.size(), whole->guards.size());
    const Interpreter before(whole);
    const Interpreter after(core);
    for (const models::SampleSize size : {models::SampleSize{1, 1}, {1, 8}, {3, 5}, {2, 12}}) {
      std::vector<at::Tensor> inputs;
      for (const auto& [name, value] : model->sample_inputs(size)) {
        inputs.push_back(value.tensor());
      }
      EXPECT_LT(largest_difference(after.run(inputs), before.run(inputs)), 1e-5);
    }
  }
}

struct EncoderImpl : torch::nn::Module {
  torch::nn::Conv1d stem{torch::nn::Conv1dOptions(6, 8, 3).padding(1)};
  torch::nn::BatchNorm1d norm{8};
  torch::nn::Dropout dropout{0.5};
  torch::nn::TransformerEncoder encoder{
      torch::nn::TransformerEncoderOptions(torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16), 2)};

  EncoderImpl() {
    register_module("stem", stem);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("encoder", encoder);
  }
  at::Tensor forward(const at::Tensor& x) {
    return encoder(dropout(norm(stem(x))).permute({2, 0, 1})).permute({1, 0, 2});
  }
};

TEST(DecomposedModels, LibtorchTransformerEncoderAfterAConvolution) {
  const at::NoGradGuard no_grad;
  const auto module = std::make_shared<EncoderImpl>();
  module->norm->running_mean.fill_(0.3);
  module->eval();
  TraceRequest request = request_for(*module);
  request.inputs.emplace_back("x", at::randn({3, 6, 7}));
  request.forward = [&](const NamedInputs& inputs) -> PyTree { return module->forward(inputs[0].second.tensor()); };
  const auto whole = std::make_shared<ExportedProgram>(trace(request));

  const auto core = std::make_shared<ExportedProgram>(run_decompositions(*whole));

  EXPECT_THAT(outside_core(*core->graph), ::testing::IsEmpty());
  EXPECT_EQ(core->guards.size(), whole->guards.size());
  // Its attention reads sizes as plain numbers: only the traced ones run.
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = at::randn({3, 6, 7});
    const std::vector<PyTree::Leaf> expected = {module->forward(x)};
    EXPECT_LT(largest_difference(Interpreter(core).run(std::vector{x}), expected), 1e-5);
  }
}

}  // namespace
}  // namespace exporters::decomposition
