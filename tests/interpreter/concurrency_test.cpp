// What holds when many threads run one program.
#include "exporters/interpreter/interpreter.h"
#include "exporters/interpreter/state_writes.h"
#include "tests/interpreter/graph_builder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace exporters {
namespace {

constexpr int kThreads = 4;
constexpr int kRuns = 100;

at::Tensor tensor_of(const PyTree::Leaf& leaf) { return std::get<at::Tensor>(leaf); }

void in_threads(const std::function<void()>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// A counter that each run reads, works on, and writes: no count is lost, and no two runs see the same one.
void expect_every_count_once(const std::shared_ptr<ExportedProgram>& program, const at::Tensor& counter) {
  const Interpreter interpreter(program);
  std::mutex mutex;
  std::multiset<int64_t> seen;
  in_threads([&] {
    for (int i = 0; i < kRuns; ++i) {
      const at::Tensor count = tensor_of(interpreter.run(std::vector{at::ones({1})})[0]).clone();
      const std::lock_guard lock(mutex);
      seen.insert(count.item<int64_t>());
    }
  });
  EXPECT_EQ(counter.item<int64_t>(), kThreads * kRuns);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), static_cast<size_t>(kThreads * kRuns));
}

TEST(Concurrency, MutationsOfTheSignatureGoOneAfterTheOther) {
  GraphBuilder builder;
  const at::Tensor counter = at::zeros({}, at::kLong);
  builder.input("x", at::ones({1}));
  Value* buffer = builder.buffer("counter", counter);
  Value* next = buffer;
  for (int i = 0; i < 20; ++i) {
    next = builder.call("aten.add.Tensor", {next, i == 0 ? 1 : 0});
  }
  Value* result = builder.call("aten.mul.Tensor", {next, 1});
  auto program = builder.finish({result});
  program->graph->set_outputs({next, result});
  program->signature.outputs = {{OutputSpec::Kind::kBufferMutation, next, "counter"},
                                {OutputSpec::Kind::kUserOutput, result, ""}};
  expect_every_count_once(program, counter);
}

TEST(Concurrency, WritesInPlaceThroughAViewGoOneAfterTheOther) {
  GraphBuilder builder;
  const at::Tensor counter = at::zeros({1}, at::kLong);
  builder.input("x", at::ones({1}));
  Value* buffer = builder.buffer("counter", counter);
  Value* view = builder.call("aten.select.int", {buffer, 0, 0});
  builder.call("aten.add_.Tensor", {view, 1});
  auto program = builder.finish({builder.call("aten.clone.default", {buffer})});
  counter.zero_();
  expect_every_count_once(program, counter);
}

TEST(Concurrency, ProgramsThatLeaveTheirStateAloneAreNotSerialized) {
  GraphBuilder builder;
  Value* x = builder.input("x", at::ones({2, 3}));
  Value* weight = builder.parameter("weight", at::ones({3, 3}));
  Value* turned = builder.call("aten.t.default", {weight});
  Value* product = builder.call("aten.matmul.default", {x, turned});
  builder.call("aten.add_.Tensor", {product, 1});
  EXPECT_FALSE(writes_to_state(*builder.finish({product}))) << "as nn::Linear is traced";
}

TEST(Concurrency, TrainingNormsAndWritesToParametersAreSeen) {
  GraphBuilder builder;
  Value* x = builder.input("x", at::ones({2, 3}));
  Value* mean = builder.buffer("mean", at::zeros({3}));
  Value* var = builder.buffer("var", at::ones({3}));
  Value* norm = builder.call("aten.batch_norm.default", {x, Argument(), Argument(), mean, var, true, 0.1, 1e-5, false});
  EXPECT_TRUE(writes_to_state(*builder.finish({norm})));
}

TEST(Module, IsCallableAndSharesTheTensorsOfItsProgram) {
  GraphBuilder builder;
  const at::Tensor state = at::ones({2});
  Value* x = builder.input("x", at::ones({2}));
  Value* buffer = builder.buffer("state", state);
  const auto program = builder.finish({builder.call("aten.add.Tensor", {x, buffer}), x});
  const Interpreter call = module(*program);
  const at::Tensor input = at::ones({2});
  state.fill_(4);
  const auto result = call.run(std::vector{input});
  EXPECT_TRUE(at::equal(tensor_of(result[0]), at::full({2}, 5.0)));
  EXPECT_TRUE(tensor_of(result[1]).is_same(input)) << "outputs are not copied";
}

}  // namespace
}  // namespace exporters
