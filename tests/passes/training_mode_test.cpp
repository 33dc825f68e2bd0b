// Programs that were traced in training mode.
#include "exporters/passes/training_mode.h"
#include "exporters/interpreter/interpreter.h"
#include "exporters/support/error.h"
#include "exporters/trace/trace.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/feature_dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Function = std::function<at::Tensor(const at::Tensor&)>;

std::shared_ptr<ExportedProgram> traced(const Function& forward, const at::Tensor& sample,
                                        std::vector<TracedState> state = {}) {
  TraceRequest request;
  request.module_class = "Toy";
  request.inputs = {{"x", sample}};
  request.state = std::move(state);
  request.forward = [&](const NamedInputs& inputs) {
    const ModuleScope scope("block", "Block");
    return PyTree(forward(inputs.front().second.tensor()));
  };
  return std::make_shared<ExportedProgram>(trace(request));
}

at::Tensor run(const std::shared_ptr<ExportedProgram>& program, const at::Tensor& x) {
  return std::get<at::Tensor>(Interpreter(program).run(std::vector<at::Tensor>{x}).front());
}

std::string refusal(const ExportedProgram& program) {
  try {
    refuse_training_mode(program);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The tracer refuses batch statistics itself; in a program of Python they may be.
void set_training(ExportedProgram& program, bool with_statistics = true) {
  for (Node& node : *program.graph) {
    if (node.is_call("aten.batch_norm.default")) {
      node.set_arg(5, true);
      if (!with_statistics) {
        node.set_arg(3, Argument());
        node.set_arg(4, Argument());
      }
    } else if (node.is_call("aten.dropout.default")) {
      node.set_arg(2, true);
    }
  }
}

// A linear layer, normalization with a counter of batches, dropout: what a forgotten eval() leaves.
struct Net {
  at::Tensor weight = at::randn({4, 4});
  at::Tensor mean = at::randn({4});
  at::Tensor variance = at::rand({4}) + 0.5;
  at::Tensor batches = at::zeros({}, at::kLong);

  at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor y = at::batch_norm(at::linear(x, weight), {}, {}, mean, variance, false, 0.1, 1e-5, false);
    return at::dropout(y, 0.5, false);
  }
  std::shared_ptr<ExportedProgram> traced_in_evaluation() const {
    return traced([this](const at::Tensor& x) { return forward(x); }, at::randn({3, 4}), state());
  }
  std::shared_ptr<ExportedProgram> traced_in_training() const {
    const auto program = traced(
        [this](const at::Tensor& x) {
          at::Tensor counter = batches;
          counter.add_(1);
          return forward(x);
        },
        at::randn({3, 4}), state());
    set_training(*program);
    return program;
  }

 private:
  std::vector<TracedState> state() const {
    return {{"fc.weight", weight, false, true, {}},
            {"norm.running_mean", mean, true, true, {}},
            {"norm.running_var", variance, true, true, {}},
            {"norm.num_batches_tracked", batches, true, true, {}}};
  }
};

TEST(TrainingMode, IsRefusedWithCallsAndModules) {
  const Net net;
  const auto program = net.traced_in_training();

  EXPECT_EQ(training_ops(*program).size(), 2U);
  EXPECT_THAT(refusal(*program), AllOf(HasSubstr("aten.batch_norm.default"), HasSubstr("aten.dropout.default"),
                                       HasSubstr("block"), HasSubstr("eval()")));
}

TEST(TrainingMode, SwitchedToEvaluationComputesWhatEvaluationComputes) {
  const Net net;
  const auto program = net.traced_in_training();

  EXPECT_EQ(switch_to_evaluation(*program), 2U);

  verify(*program);
  EXPECT_EQ(refusal(*program), "no error");
  const at::Tensor mean_before = net.mean.clone();
  for (const int64_t batch : {1, 3, 5}) {
    const at::Tensor x = at::randn({batch, 4});
    EXPECT_TRUE(at::allclose(run(program, x), net.forward(x), 1e-6, 1e-6));
  }
  EXPECT_TRUE(at::allclose(net.mean, mean_before));
  EXPECT_EQ(net.batches.item().toLong(), 0);
}

TEST(TrainingMode, DropoutOfChannelsAndOfAttentionCount) {
  const at::Tensor x = at::randn({1, 2, 4, 8});
  const auto channels = traced([](const at::Tensor& y) { return at::feature_dropout(y, 0.5, true); }, x);
  const auto attention =
      traced([](const at::Tensor& y) { return at::scaled_dot_product_attention(y, y, y, {}, 0.1); }, x);

  EXPECT_THAT(refusal(*channels), HasSubstr("aten.feature_dropout.default"));
  EXPECT_THAT(refusal(*attention), HasSubstr("aten.scaled_dot_product_attention.default"));
  switch_to_evaluation(*channels);
  switch_to_evaluation(*attention);
  EXPECT_TRUE(at::allclose(run(channels, x), x));
  EXPECT_TRUE(at::allclose(run(attention, x), at::scaled_dot_product_attention(x, x, x), 1e-5, 1e-6));
}

TEST(TrainingMode, ProgramsInEvaluationModePass) {
  const Net net;
  const auto program = net.traced_in_evaluation();

  EXPECT_EQ(refusal(*program), "no error");
  EXPECT_EQ(switch_to_evaluation(*program), 0U);
}

TEST(TrainingMode, WithoutRunningStatisticsNormalizationIsTheSameInEvaluation) {
  const Net net;
  const auto program = traced(
      [&](const at::Tensor& x) { return at::batch_norm(x, {}, {}, net.mean, net.variance, false, 0.1, 1e-5, false); },
      at::randn({3, 4}));
  set_training(*program, /*with_statistics=*/false);

  EXPECT_EQ(refusal(*program), "no error");
}

TEST(TrainingMode, ARateOfZeroDropsNothing) {
  const auto program = traced([](const at::Tensor& x) { return at::dropout(x, 0.0, true); }, at::randn({3, 4}));

  EXPECT_EQ(refusal(*program), "no error");
}

}  // namespace
}  // namespace exporters
