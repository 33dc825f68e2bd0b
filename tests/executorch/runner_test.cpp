#include "exporters/executorch/runner.h"

#include "exporters/executorch/emit/writer.h"
#include "tests/executorch/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

namespace exporters::executorch {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::HasSubstr;

// float32 sums of a few terms in another order.
bool close(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() && at::allclose(a, b, 1e-6, 1e-6);
}

struct RunnerTest : ::testing::Test {
  std::filesystem::path file = scratch_folder() / "m.pte";
  at::Tensor weight = at::randn({3, 2});
  at::Tensor bias = at::randn({3});
};

TEST_F(RunnerTest, LinearEqualsAtenAtEverySizeUpToTheBound) {
  ExecutorchRunner runner(linear_program(weight, bias, 8).save(file));
  for (const int64_t batch : {8, 1, 5, 0}) {
    const at::Tensor x = at::randn({batch, 2});
    EXPECT_TRUE(close(runner.run({x})[0], at::linear(x, weight, bias))) << batch;
  }
  const at::Tensor x = at::randn({3, 2});
  keep_for_python(file, {x}, {at::linear(x, weight, bias)});
}

TEST_F(RunnerTest, StridedInputsAreTaken) {
  ExecutorchRunner runner(linear_program(weight, bias, 8).save(file));
  const at::Tensor x = at::randn({2, 5}).t();
  EXPECT_TRUE(close(runner.run({x})[0], at::linear(x, weight, bias)));
}

TEST_F(RunnerTest, AStaticProgramRuns) {
  ExecutorchRunner runner(linear_program(weight, bias, 4, ShapeDynamism::kStatic).save(file));
  const at::Tensor x = at::randn({4, 2});
  EXPECT_TRUE(close(runner.run({x})[0], at::linear(x, weight, bias)));
}

TEST_F(RunnerTest, InputsAndOutputsThatAreNotPlanned) {
  ProgramBuilder builder = linear_program(weight, bias, 8);
  builder.memory.plan_inputs = false;
  builder.memory.plan_outputs = false;
  ExecutorchRunner runner(builder.save(file));
  EXPECT_EQ(runner.program().methods[0].memory_sizes, (std::vector<int64_t>{0, 0}));
  for (const int64_t batch : {8, 1}) {
    const at::Tensor x = at::randn({batch, 2});
    EXPECT_TRUE(close(runner.run({x})[0], at::linear(x, weight, bias)));
  }
}

// [n, 4] seen as [2 n, 2] by sizes computed at run time.
TEST_F(RunnerTest, SizesAreComputedAndViewsCostNothing) {
  ProgramBuilder builder;
  const int32_t x = builder.input(at::kFloat, {6, 4}, ShapeDynamism::kBounded);
  Method& method = builder.method();
  const int32_t zero = method.add(int64_t{0});
  const int32_t two = method.add(int64_t{2});
  const int32_t rows = method.add(int64_t{6});
  method.call("aten::sym_size", "int", {x, zero, rows});
  const int32_t twice = method.add(int64_t{12});
  method.call("executorch_prim::mul", "Scalar", {rows, two, twice});
  const int32_t sizes = method.add(IntList{{twice, two}});
  const int32_t view = builder.activation(at::kFloat, {12, 2}, ShapeDynamism::kBounded);
  method.call("executorch_prim::et_view", "default", {x, sizes, view});
  const int32_t sum = builder.activation(at::kFloat, {12, 2}, ShapeDynamism::kBounded);
  builder.add(view, view, sum);
  builder.output(sum);
  ExecutorchRunner runner(builder.save(file));
  for (const int64_t n : {6, 1, 4}) {
    const at::Tensor given = at::randn({n, 4});
    EXPECT_TRUE(close(runner.run({given})[0], 2 * given.view({2 * n, 2})));
  }
  const at::Tensor given = at::randn({3, 4});
  keep_for_python(file, {given}, {2 * given.view({6, 2})});
}

// A running sum: state += x; gives state + x.
ProgramBuilder running_sum(const at::Tensor* initial) {
  ProgramBuilder builder;
  const int32_t x = builder.input(at::kFloat, {3});
  const int32_t state = builder.state("total", at::kFloat, {3}, initial);
  const int32_t sum = builder.activation(at::kFloat, {3});
  builder.add(state, x, sum);
  builder.copy_into(state, sum);
  builder.output(sum);
  return builder;
}

TEST_F(RunnerTest, StateWithoutAStartValueBeginsAtZero) {
  ExecutorchRunner runner(running_sum(nullptr).save(file));
  const at::Tensor x = at::randn({3});
  EXPECT_TRUE(close(runner.run({x})[0], x));
  EXPECT_TRUE(close(runner.run({x})[0], 2 * x));
}

TEST_F(RunnerTest, StateBeginsWithItsStartValue) {
  const at::Tensor initial = at::arange(3, at::kFloat);
  ExecutorchRunner runner(running_sum(&initial).save(file));
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(close(runner.run({x})[0], initial + 1));
  EXPECT_TRUE(close(runner.run({x})[0], initial + 2));
  keep_for_python(file, {x}, {initial + 1});
}

TEST_F(RunnerTest, RunnersOfOneFileHaveTheirOwnState) {
  running_sum(nullptr).save(file);
  ExecutorchRunner first(file);
  ExecutorchRunner second(file);
  const at::Tensor x = at::ones({3});
  first.run({x});
  EXPECT_TRUE(close(second.run({x})[0], x));
  EXPECT_TRUE(close(first.run({x})[0], 2 * x));
}

// "store" writes what "load" gives back; the activations of either do not disturb it.
TEST_F(RunnerTest, MethodsShareState) {
  ProgramBuilder store;
  store.method().name = "store";
  const int32_t x = store.input(at::kFloat, {3});
  const int32_t kept = store.state("kept", at::kFloat, {3});
  const int32_t doubled = store.activation(at::kFloat, {3});
  store.add(x, x, doubled);
  store.copy_into(kept, doubled);
  store.output(doubled);

  ProgramBuilder load;
  load.method().name = "load";
  const int32_t y = load.input(at::kFloat, {3});
  const int32_t same = load.state("kept", at::kFloat, {3});
  const int32_t sum = load.activation(at::kFloat, {3});
  load.add(same, y, sum);
  load.output(sum);

  Program program = store.program;
  program.methods.push_back(load.method());
  const MethodMemory memory[] = {store.memory, load.memory};
  plan_memory(program, memory);
  save_program(program, file);
  ExecutorchRunner runner(file);
  const at::Tensor given = at::randn({3});
  runner.run({given}, "store");
  EXPECT_TRUE(close(runner.run({at::zeros({3})}, "load")[0], 2 * given));
  EXPECT_TRUE(close(runner.run({at::ones({3})}, "load")[0], 2 * given + 1));
  runner.run({-given}, "store");
  EXPECT_TRUE(close(runner.run({at::zeros({3})}, "load")[0], -2 * given));
}

TEST_F(RunnerTest, NumbersComeOutAndThoseThatGoInAreFixed) {
  ProgramBuilder builder;
  Method& method = builder.method();
  const int32_t a = method.add(int64_t{7});
  const int32_t b = method.add(int64_t{5});
  const int32_t product = method.add(int64_t{0});
  method.inputs = {a};
  method.call("executorch_prim::mul", "Scalar", {a, b, product});
  builder.output(product);
  ExecutorchRunner runner(builder.save(file));
  const std::vector<ExecutorchRunner::Value> inputs = {int64_t{7}};
  EXPECT_EQ(std::get<int64_t>(runner.run(inputs)[0]), 35);
  const std::vector<ExecutorchRunner::Value> others = {int64_t{8}};
  EXPECT_THAT(error_of([&] { runner.run(others); }), AllOf(HasSubstr("input 0 is 8"), HasSubstr("made for 7")));
}

TEST_F(RunnerTest, SeveralRunnersAtOnce) {
  linear_program(weight, bias, 8).save(file);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      ExecutorchRunner runner(file);
      for (int i = 0; i < 30; ++i) {
        const at::Tensor x = at::randn({t + 1, 2});
        right += close(runner.run({x})[0], at::linear(x, weight, bias));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, 90);
}

TEST_F(RunnerTest, ErrorsNameTheInputTheAxisAndTheBound) {
  ExecutorchRunner runner(linear_program(weight, bias, 8).save(file));
  EXPECT_THAT(error_of([&] {
                runner.run({at::zeros({9, 2})});
              }),
              AllOf(HasSubstr("axis 0"), HasSubstr("'x'"), HasSubstr("9"), HasSubstr("bound of 8")));
  EXPECT_THAT(error_of([&] {
                runner.run({at::zeros({4, 2}, at::kInt)});
              }),
              AllOf(HasSubstr("'x'"), HasSubstr("int32"), HasSubstr("float32")));
  EXPECT_THAT(error_of([&] { runner.run({at::zeros({2})}); }), AllOf(HasSubstr("1 axes"), HasSubstr("[8, 2]")));
  EXPECT_THAT(error_of([&] { runner.run(std::vector<at::Tensor>()); }), HasSubstr("takes 1 inputs, 0 are given"));
  EXPECT_THAT(error_of([&] {
                runner.run({at::zeros({4, 2})}, "decode");
              }),
              AllOf(HasSubstr("no method 'decode'"), HasSubstr("'forward'")));
}

// The bound of one axis says nothing of another's exact size: that only the kernel knows.
TEST_F(RunnerTest, WhatTheRuntimeRefusesComesWithItsReason) {
  ExecutorchRunner runner(linear_program(weight, bias, 8).save(file));
  EXPECT_THAT(error_of([&] {
                runner.run({at::zeros({4, 1})});
              }),
              AllOf(HasSubstr("ExecuTorch failed in method 'forward'"), HasSubstr("Error::"), HasSubstr("(")));
  const at::Tensor x = at::randn({4, 2});
  EXPECT_TRUE(close(runner.run({x})[0], at::linear(x, weight, bias)));
}

// A number where the kernel asserts a list: the runtime would end the process.
TEST_F(RunnerTest, AKernelThatGivesUpIsAnError) {
  ProgramBuilder builder;
  const int32_t x = builder.input(at::kFloat, {6, 4});
  const int32_t size = builder.method().add(int64_t{24});
  const int32_t view = builder.activation(at::kFloat, {24});
  builder.method().call("executorch_prim::et_view", "default", {x, size, view});
  builder.output(view);
  ExecutorchRunner damaged(builder.save(file));
  EXPECT_THAT(error_of([&] {
                damaged.run({at::zeros({6, 4})});
              }),
              AllOf(HasSubstr("a kernel cannot go on"), HasSubstr("List")));
  ExecutorchRunner whole(linear_program(weight, bias, 8).save(scratch_folder() / "whole.pte"));
  const at::Tensor given = at::randn({4, 2});
  EXPECT_TRUE(close(whole.run({given})[0], at::linear(given, weight, bias)));
}

TEST_F(RunnerTest, AllMissingKernelsAreNamedBeforeARun) {
  ProgramBuilder builder = linear_program(weight, bias, 8);
  const int32_t out = builder.method().outputs[0];
  builder.method().call("aten::rms_norm", "out", {out, out});
  builder.method().call("aten::triu", "out", {out, out});
  builder.save(file);
  EXPECT_THAT(error_of([&] { ExecutorchRunner runner(file); }),
              AllOf(HasSubstr("aten::rms_norm.out"), HasSubstr("aten::triu.out")));
}

TEST(RuntimeKernels, TheKernelsLibraryIsThere) {
  EXPECT_GT(runtime_kernels().size(), 200u);
  EXPECT_THAT(runtime_kernels(), Contains("aten::linear.out"));
  EXPECT_THAT(runtime_kernels(), Contains("executorch_prim::et_view.default"));
}

}  // namespace
}  // namespace exporters::executorch
