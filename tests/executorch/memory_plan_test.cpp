#include "exporters/executorch/emit/memory_plan.h"

#include "tests/executorch/support.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace exporters::executorch {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Lifetime> random_lifetimes(std::mt19937& random, size_t count) {
  std::vector<Lifetime> lifetimes;
  for (size_t i = 0; i < count; ++i) {
    const int64_t first = static_cast<int64_t>(random() % count);
    // Most live briefly, some until far later, as in a network with residual connections.
    const int64_t length = static_cast<int64_t>(random() % 8 == 0 ? random() % count : random() % 4);
    lifetimes.push_back({random() % 5 == 0 ? random() % 100 : 64 * (random() % 64), first, first + length});
  }
  return lifetimes;
}

void expect_valid(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), lifetimes.size());
  for (size_t a = 0; a < lifetimes.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % kTensorAlignment, 0u);
    EXPECT_LE(plan.offsets[a] + lifetimes[a].nbytes, plan.size);
    for (size_t b = 0; b < a; ++b) {
      const bool apart = plan.offsets[a] + lifetimes[a].nbytes <= plan.offsets[b] ||
                         plan.offsets[b] + lifetimes[b].nbytes <= plan.offsets[a];
      ASSERT_TRUE(apart || !lifetimes[a].overlaps(lifetimes[b]) || lifetimes[a].nbytes == 0 || lifetimes[b].nbytes == 0)
          << a << " and " << b;
    }
  }
}

// What lives at the busiest moment: no plan can be smaller.
uint64_t peak(const std::vector<Lifetime>& lifetimes) {
  uint64_t most = 0;
  for (const Lifetime& moment : lifetimes) {
    uint64_t now = 0;
    for (const Lifetime& other : lifetimes) {
      now += other.first <= moment.first && moment.first <= other.last ? other.nbytes : 0;
    }
    most = std::max(most, now);
  }
  return most;
}

// The cases and what we need for them go to executorch's own planner in check_files.py.
TEST(MemoryPlan, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  nlohmann::json cases = nlohmann::json::array();
  for (int round = 0; round < 300; ++round) {
    const std::vector<Lifetime> lifetimes = random_lifetimes(random, 1 + random() % 120);
    const MemoryPlan objects = plan_by_shared_objects(lifetimes);
    const MemoryPlan gaps = plan_by_gaps(lifetimes);
    const MemoryPlan plan = plan_memory(lifetimes);
    expect_valid(lifetimes, objects);
    expect_valid(lifetimes, gaps);
    expect_valid(lifetimes, plan);
    EXPECT_LE(plan.size, std::min(objects.size, gaps.size));
    EXPECT_GE(plan.size, peak(lifetimes));
    nlohmann::json rows = nlohmann::json::array();
    for (const Lifetime& lifetime : lifetimes) {
      rows.push_back({lifetime.nbytes, lifetime.first, lifetime.last});
    }
    cases.push_back({{"lifetimes", rows}, {"size", plan.size}});
  }
  if (const char* folder = std::getenv("EXPORTERS_EXECUTORCH_FILES")) {
    std::filesystem::create_directories(folder);
    write_bytes(std::filesystem::path(folder) / "memory_plans.json", cases.dump());
  }
}

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int64_t i = 0; i < 50; ++i) {
    chain.push_back({1000, i, i + 1});
  }
  EXPECT_EQ(plan_memory(chain).size, 2 * 1008u);
}

TEST(MemoryPlan, NothingNeedsNothing) { EXPECT_EQ(plan_memory(std::vector<Lifetime>()).size, 0u); }

// a = x + x; b = a + a; c = b + b …: each result can take the place of the one before the last.
ProgramBuilder additions(int count) {
  ProgramBuilder builder;
  int32_t last = builder.input(at::kFloat, {16});
  for (int i = 0; i < count; ++i) {
    const int32_t next = builder.activation(at::kFloat, {16});
    builder.add(last, last, next);
    last = next;
  }
  builder.output(last);
  return builder;
}

TEST(MethodMemoryPlan, ActivationsShareMemory) {
  ProgramBuilder builder = additions(20);
  plan_memory(builder.program, {&builder.memory, 1});
  EXPECT_EQ(builder.method().memory_sizes, (std::vector<int64_t>{0, 128}));
}

TEST(MethodMemoryPlan, InputsAndOutputsCanBeLeftToTheCaller) {
  ProgramBuilder builder = additions(3);
  builder.memory.plan_inputs = false;
  builder.memory.plan_outputs = false;
  plan_memory(builder.program, {&builder.memory, 1});
  EXPECT_FALSE(builder.method().tensor(builder.method().inputs[0])->allocation);
  EXPECT_FALSE(builder.method().tensor(builder.method().outputs[0])->allocation);
  EXPECT_EQ(builder.method().memory_sizes, (std::vector<int64_t>{0, 128}));
}

TEST(MethodMemoryPlan, AViewKeepsItsBaseAlive) {
  ProgramBuilder builder;
  const int32_t x = builder.input(at::kFloat, {4, 4});
  const int32_t base = builder.activation(at::kFloat, {4, 4});
  builder.add(x, x, base);
  const int32_t view = builder.activation(at::kFloat, {16});
  const int32_t sizes = builder.method().add_ints({16});
  builder.method().call("executorch_prim::et_view", "default", {base, sizes, view});
  const int32_t other = builder.activation(at::kFloat, {4, 4});
  builder.add(x, x, other);
  const int32_t shown = builder.activation(at::kFloat, {16});
  builder.add(view, view, shown);
  builder.output(shown);
  builder.output(other);
  plan_memory(builder.program, {&builder.memory, 1});
  EXPECT_FALSE(builder.method().tensor(view)->allocation);
  EXPECT_NE(builder.method().tensor(other)->allocation, builder.method().tensor(base)->allocation);
}

TEST(MethodMemoryPlan, AnAliasLiesWhereItsBaseLies) {
  ProgramBuilder builder = additions(2);
  const int32_t base = builder.method().outputs[0];
  const int32_t alias = builder.activation(at::kFloat, {4, 4});
  const int32_t out = builder.activation(at::kFloat, {4, 4});
  builder.memory.aliases = {{alias, base}};
  builder.add(alias, alias, out);
  builder.method().outputs = {out};
  plan_memory(builder.program, {&builder.memory, 1});
  EXPECT_EQ(builder.method().tensor(alias)->allocation, builder.method().tensor(base)->allocation);
}

// ── Jumps ──

// sum = x + x, then a round of: a = sum + x, b = a + a; goes round again unless the flag holds.
struct LoopProgram : ProgramBuilder {
  int32_t x = input(at::kFloat, {16});
  int32_t flag = input(at::kBool, {});
  int32_t sum = activation(at::kFloat, {16});
  int32_t a = activation(at::kFloat, {16});
  int32_t b = activation(at::kFloat, {16});

  LoopProgram() {
    add(x, x, sum);
    add(sum, x, a);
    add(a, a, b);
    method().instructions.emplace_back(JumpFalseCall{flag, 1});
    output(b);
  }
};

// The sum is last read before b is written, and the next round reads it again.
TEST(MethodMemoryPlan, WhatALoopReadsLivesUntilItEnds) {
  LoopProgram loop;
  plan_memory(loop.program, {&loop.memory, 1});
  EXPECT_NE(loop.method().tensor(loop.sum)->allocation, loop.method().tensor(loop.b)->allocation);
  EXPECT_NE(loop.method().tensor(loop.x)->allocation, loop.method().tensor(loop.b)->allocation);
}

// Whichever runs: if the flag holds, a = x + x and result = a + a, else b = x + x and result = b + b.
struct BranchProgram : ProgramBuilder {
  int32_t x = input(at::kFloat, {16});
  int32_t flag = input(at::kBool, {});
  int32_t a = activation(at::kFloat, {16});
  int32_t b = activation(at::kFloat, {16});
  int32_t result = activation(at::kFloat, {16});

  BranchProgram() {
    const int32_t never = method().add(false);
    method().instructions.emplace_back(JumpFalseCall{flag, 4});
    add(x, x, a);
    add(a, a, result);
    method().instructions.emplace_back(JumpFalseCall{never, 6});
    add(x, x, b);
    add(b, b, result);
    output(result);
  }
};

TEST(MethodMemoryPlan, BranchesShareMemory) {
  BranchProgram branches;
  plan_memory(branches.program, {&branches.memory, 1});
  EXPECT_EQ(branches.method().tensor(branches.a)->allocation, branches.method().tensor(branches.b)->allocation);
}

// ── The check finds what a wrong plan breaks ──

std::string refusal(const ProgramBuilder& builder) {
  return error_of([&] { check_memory(builder.program.methods[0], builder.memory); });
}

struct BrokenPlan : ::testing::Test {
  ProgramBuilder builder;
  int32_t x = builder.input(at::kFloat, {16});
  int32_t a = builder.activation(at::kFloat, {16});
  int32_t b = builder.activation(at::kFloat, {16});
  int32_t c = builder.activation(at::kFloat, {16});

  // a = x + x; b = a + a; c = a + b
  void SetUp() override {
    builder.add(x, x, a);
    builder.add(a, a, b);
    builder.add(a, b, c);
    builder.output(c);
    plan_memory(builder.program, {&builder.memory, 1});
  }
  Allocation& place(int32_t value) { return *std::get<TensorValue>(builder.method().values[value]).allocation; }
};

TEST(BrokenLoop, OverwrittenInTheRoundBefore) {
  LoopProgram loop;
  plan_memory(loop.program, {&loop.memory, 1});
  TensorValue& b = std::get<TensorValue>(loop.method().values[loop.b]);
  b.allocation = loop.method().tensor(loop.sum)->allocation;
  EXPECT_THAT(refusal(loop), AllOf(HasSubstr("instruction 1"), HasSubstr("on one of the ways here")));
}

// The first round reads what only the first round writes.
TEST(BrokenLoop, ReadBeforeTheRoundThatWritesIt) {
  LoopProgram loop;
  plan_memory(loop.program, {&loop.memory, 1});
  std::get<KernelCall>(loop.method().instructions[1]).args[1] = loop.b;
  EXPECT_THAT(refusal(loop), AllOf(HasSubstr("instruction 1"), HasSubstr("before anything is written")));
}

TEST(BrokenBranches, OneDoesNotWriteTheResult) {
  BranchProgram branches;
  plan_memory(branches.program, {&branches.memory, 1});
  branches.method().instructions[5] = branches.method().instructions[4];
  EXPECT_THAT(refusal(branches), AllOf(HasSubstr("at the end"), HasSubstr("before anything is written")));
}

TEST(BrokenBranches, OneOverwritesWhatIsReadBehindThem) {
  BranchProgram branches;
  const int32_t y = branches.input(at::kFloat, {16});
  const int32_t out = branches.activation(at::kFloat, {16});
  branches.add(y, y, out);
  branches.output(out);
  plan_memory(branches.program, {&branches.memory, 1});
  std::get<TensorValue>(branches.method().values[branches.a]).allocation = branches.method().tensor(y)->allocation;
  EXPECT_THAT(refusal(branches), AllOf(HasSubstr("instruction 6"), HasSubstr("on one of the ways here")));
}

TEST(BrokenBranches, AViewThatOneWayDoesNotMake) {
  BranchProgram branches;
  Method& method = branches.method();
  const int32_t view = branches.activation(at::kFloat, {4, 4});
  const int32_t out = branches.activation(at::kFloat, {4, 4});
  std::get<KernelCall>(method.instructions[2]) =
      KernelCall{method.op("executorch_prim::et_view", "default"), {branches.a, method.add_ints({4, 4}), view}};
  method.outputs.clear();
  branches.add(view, view, out);
  branches.output(out);
  EXPECT_THAT(error_of([&] {
                plan_memory(branches.program, {&branches.memory, 1});
              }),
              HasSubstr("before it shows anything"));
}

TEST(BrokenBranches, TensorsThatAreExchanged) {
  BranchProgram branches;
  branches.method().instructions[2] = MoveCall{branches.a, branches.result};
  EXPECT_THAT(error_of([&] {
                plan_memory(branches.program, {&branches.memory, 1});
              }),
              AllOf(HasSubstr("instruction 2"), HasSubstr("another one's tensor")));
}

TEST_F(BrokenPlan, OverwrittenBeforeItIsRead) {
  place(b) = place(a);
  EXPECT_THAT(refusal(builder), HasSubstr("instruction 1"));
}

TEST_F(BrokenPlan, OverlapInAPartOnly) {
  builder.method().memory_sizes[1] = 4096;
  place(a).offset = 1024;
  place(b).offset = 1024 + 48;
  EXPECT_THAT(refusal(builder), HasSubstr("was written over it"));
}

TEST_F(BrokenPlan, AKernelWritesWhereItReads) {
  place(c) = place(a);
  EXPECT_THAT(refusal(builder), HasSubstr("instruction 2"));
}

TEST_F(BrokenPlan, Misaligned) {
  place(a).offset += 4;
  EXPECT_THAT(refusal(builder), HasSubstr("aligned to 16"));
}

TEST_F(BrokenPlan, OutsideOfTheArea) {
  place(c).offset = static_cast<uint64_t>(builder.method().memory_sizes[1]) - 16;
  EXPECT_THAT(refusal(builder), HasSubstr("leaves its memory area"));
}

TEST_F(BrokenPlan, ReadBeforeWritten) {
  std::swap(builder.method().instructions[0], builder.method().instructions[1]);
  EXPECT_THAT(refusal(builder), HasSubstr("before anything is written"));
}

TEST_F(BrokenPlan, StateOverwrittenByAnActivation) {
  const int32_t state = builder.state("counter", at::kFloat, {16});
  std::get<TensorValue>(builder.method().values[state]).allocation = place(b);
  EXPECT_THAT(refusal(builder), HasSubstr("at the end"));
}

}  // namespace
}  // namespace exporters::executorch
