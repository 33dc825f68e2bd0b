// Modules of libtorch itself.
#include "tests/cases/cases.h"
#include "tests/support/normalized_net.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/transformercoder.h>

namespace exporters::cases {
namespace {

namespace nn = torch::nn;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::map<std::string, at::Tensor> parameters_of(const nn::Module& module) {
  std::map<std::string, at::Tensor> result;
  for (const auto& item : module.named_parameters()) {
    result.emplace(item.key(), item.value());
  }
  return result;
}

nn::TransformerEncoder transformer() {
  nn::TransformerEncoder encoder(
      nn::TransformerEncoderOptions(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16), 2));
  encoder->eval();
  return encoder;
}

// Its attention reads sizes as plain numbers, so length and batch cannot stay dynamic.

TEST(TorchModules, ATransformerEncoderIsRightAtTheTracedSizes) {
  const at::NoGradGuard no_grad;
  const auto encoder = transformer();
  expect_as_eager({.forward = [&](const Tensors& x) { return Tensors{encoder.ptr()->forward(x[0])}; },
                   .sample = {at::randn({5, 3, 8})},
                   .others = {{at::randn({5, 3, 8})}},
                   .parameters = parameters_of(*encoder)});
}

TEST(TorchModules, TheFrozenAxesOfATransformerEncoderAreSaidWithTheModule) {
  const at::NoGradGuard no_grad;
  const auto encoder = transformer();
  const Case example = {.forward = [&](const Tensors& x) { return Tensors{encoder.ptr()->forward(x[0])}; },
                        .sample = {at::randn({5, 3, 8})},
                        .parameters = parameters_of(*encoder)};

  const ExportedProgram program = traced(example);

  EXPECT_THAT(static_axes(program), ::testing::ElementsAre("x0 axis 0 = 5", "x0 axis 1 = 3", "x0 axis 2 = 8"));
  for (const Specialization& axis : program.specializations) {
    EXPECT_THAT(axis.str(), HasSubstr("layers.0.self_attn"));
  }
  EXPECT_THAT(interpreter_error(example, {at::randn({6, 3, 8})}), AllOf(HasSubstr("x0"), HasSubstr("5")));
}

TEST(TorchModules, MultiheadAttentionWithItsWeights) {
  const at::NoGradGuard no_grad;
  nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(8, 2));
  attention->eval();
  expect_as_eager({.forward =
                       [&](const Tensors& x) {
                         const auto [output, weights] = attention->forward(x[0], x[1], x[1]);
                         return Tensors{output, weights};
                       },
                   .sample = {at::randn({4, 2, 8}), at::randn({6, 2, 8})},
                   .others = {{at::randn({4, 2, 8}), at::randn({6, 2, 8})}},
                   .parameters = parameters_of(*attention)});
}

// ── Batch statistics ──

TEST(TrainingMode, AnEvaluatedModuleExportsWithRunningStatistics) {
  const at::NoGradGuard no_grad;
  const auto net = std::make_shared<testing::NormalizedNet>();
  net->norm->running_mean.fill_(0.5);
  net->norm->running_var.fill_(4);
  net->eval();
  std::map<std::string, at::Tensor> state = parameters_of(*net);
  for (const auto& item : net->named_buffers()) {
    state.emplace(item.key(), item.value());
  }
  expect_as_eager({.forward = [&](const Tensors& x) { return Tensors{net->forward(x[0])}; },
                   .sample = {at::randn({2, 4})},
                   .others = {{at::randn({1, 4})}, {at::randn({9, 4})}},
                   .parameters = state});
}

}  // namespace
}  // namespace exporters::cases
