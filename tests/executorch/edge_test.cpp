// The kernel table, the passes of the edge lowering, and partitions.
#include "exporters/executorch/edge/bounds.h"
#include "exporters/executorch/edge/decompositions.h"
#include "exporters/executorch/edge/kernels.h"
#include "exporters/executorch/edge/lower.h"
#include "exporters/executorch/edge/passes.h"
#include "exporters/executorch/runner.h"
#include "exporters/passes/decompose.h"
#include "exporters/trace/trace.h"
#include "tests/executorch/exported.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace exporters::executorch {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

ExportedProgram traced(const TensorForward& forward, const Tensors& samples,
                       const std::map<std::string, at::Tensor>& parameters = {}) {
  const ExportSource source = source_of(forward, parameters);
  TraceRequest request;
  request.module_class = "Test";
  request.state = source.state;
  request.inputs = named(samples);
  request.forward = source.forward;
  return trace(request);
}

std::vector<std::string> targets(const ExportedProgram& program) {
  std::vector<std::string> result;
  for (const Node& node : *program.graph) {
    if (node.kind() == Node::Kind::kCall) {
      result.push_back(node.target());
    }
  }
  return result;
}

// A program in core ATen with dense tensors and views that copy.
ExportedProgram prepared(const TensorForward& forward, const Tensors& samples,
                         const std::map<std::string, at::Tensor>& parameters = {}) {
  ExportedProgram program = run_decompositions(traced(forward, samples, parameters), edge_decompositions());
  make_contiguous(program);
  copy_views(program);
  return program;
}

// ── Kernels ──

TEST(Kernels, TheTableIsTheRuntimes) {
  const std::vector<std::string> ours(kernel_names().begin(), kernel_names().end());
  EXPECT_EQ(ours, runtime_kernels());
}

TEST(Kernels, ANumberInTheOtherTensorsPlaceHasAKernelOfItsOwn) {
  const ExportedProgram program = prepared(
      [](const Tensors& x) {
        return Tensors{x[0] + x[1], x[0] + 2};
      },
      {at::randn({2}), at::randn({2})});
  std::vector<std::string> overloads;
  for (const Node& node : *program.graph) {
    if (node.is_call("aten.add.Tensor")) {
      overloads.push_back(find_kernel(node)->overload);
    }
  }
  EXPECT_THAT(overloads, ElementsAre("out", "Scalar_out"));
}

// ── Bounds ──

TEST(Bounds, FollowRangesAndGuards) {
  ExportedProgram program;
  program.range_constraints = {{"s0", {0, 8}}, {"s1", {1, 100}}, {"s2", {0, Range::kMax}}};
  program.guards.push_back({le(Expr(Symbol("s0")) + Expr(Symbol("s1")), 50), {}});
  const Bounds bounds(program);
  const Expr batch = Symbol("s0");
  const Expr length = Symbol("s1");
  EXPECT_EQ(bounds.upper(batch * length), 800);
  EXPECT_EQ(bounds.upper(length * 2 + 1), 201);
  EXPECT_EQ(bounds.upper(batch + length), 50);
  EXPECT_ANY_THROW(bounds.upper(Symbol("s2")));
}

// Frames of a convolution, with their two channels in one axis: the product of the largest sizes.
TEST(Bounds, OfAProductThatWasMultipliedOut) {
  ExportedProgram program;
  program.range_constraints = {{"s0", {0, 8}}, {"s1", {17, 100}}};
  const Bounds bounds(program);
  const Expr frames = floordiv(Expr(Symbol("s1")) + 7, 12) - 1;
  EXPECT_EQ(bounds.upper(frames), 7);
  EXPECT_EQ(bounds.upper(Expr(Symbol("s0")) * frames * 2), 8 * 7 * 2);
}

// ── Passes ──

TEST(Passes, CopyViewsLeavesNoViews) {
  const ExportedProgram program = prepared(
      [](const Tensors& x) {
        return Tensors{x[0].unsqueeze(0).squeeze(0).view({-1}), x[0].t(), x[0].slice(1, 1), x[0].select(0, 1)};
      },
      {at::randn({3, 4})});
  EXPECT_THAT(targets(program), Not(Contains(::testing::AnyOf("aten.view.default", "aten.permute.default",
                                                              "aten.slice.Tensor", "aten.select.int"))));
}

TEST(Passes, APermutationOfAxesOfLengthOneIsAView) {
  const ExportedProgram program =
      prepared([](const Tensors& x) { return Tensors{x[0].unsqueeze(1).transpose(0, 1)}; }, {at::randn({3, 4})});
  EXPECT_THAT(targets(program), Not(Contains("aten.permute_copy.default")));
}

TEST(Passes, DropNoOps) {
  ExportedProgram program = prepared(
      [](const Tensors& x) {
        return Tensors{x[0].clone().to(at::kFloat).contiguous().slice(0, 0).permute({0, 1}) + 1};
      },
      {at::randn({3, 4})});
  drop_no_ops(program);
  EXPECT_THAT(targets(program), ElementsAre("aten.add.Tensor"));
}

TEST(Passes, DropExpandsWhereUsersBroadcast) {
  ExportedProgram program = prepared(
      [](const Tensors& x) {
        const at::Tensor wide = x[0].unsqueeze(1).expand_symint({x[0].sym_size(0), x[1].sym_size(0), x[0].sym_size(1)});
        return Tensors{wide * x[1]};
      },
      {at::randn({3, 4}), at::randn({5, 4})});
  drop_no_ops(program);
  drop_expands(program);
  EXPECT_THAT(targets(program), Not(Contains("aten.expand_copy.default")));
}

TEST(Passes, ExpandsThatMakeTheResultsSizeStay) {
  ExportedProgram program = prepared(
      [](const Tensors& x) {
        return Tensors{x[0].unsqueeze(1).expand({-1, 5, -1}) * 2};
      },
      {at::randn({3, 4})});
  drop_no_ops(program);
  drop_expands(program);
  EXPECT_THAT(targets(program), Contains("aten.expand_copy.default"));
}

TEST(Passes, SizesAreReadFromInputs) {
  ExportedProgram program = prepared(
      [](const Tensors& x) {
        const at::Tensor joined = at::cat({x[0] * 2, x[1]}, 0);
        return Tensors{joined.new_zeros_symint({joined.sym_size(0), joined.sym_size(0) * 2})};
      },
      {at::randn({3, 4}), at::randn({5, 4})});
  read_sizes_from_inputs(program);
  EXPECT_THAT(targets(program), Not(Contains("aten.cat.default")));
}

TEST(Passes, FoldConstants) {
  const at::Tensor weight = at::arange(4).to(at::kFloat);
  ExportedProgram program =
      prepared([=](const Tensors& x) { return Tensors{x[0] * (weight.exp() + at::arange(4)).unsqueeze(0)}; },
               {at::randn({3, 4})}, {{"weight", weight}});
  fold_constants(program);
  EXPECT_EQ(targets(program), std::vector<std::string>{"aten.mul.Tensor"});
}

TEST(Passes, LowerMatmulGivesProductsOfBatches) {
  DecompositionTable table = edge_decompositions();
  table.keep("aten.matmul.default");
  ExportedProgram program = run_decompositions(traced([](const Tensors& x) { return Tensors{x[0].matmul(x[1])}; },
                                                      {at::randn({2, 3, 4, 5}), at::randn({3, 5, 6})}),
                                               table);
  lower_matmul(program, [](const Node&) { return false; });
  EXPECT_THAT(targets(program), Contains("aten.bmm.default"));
  EXPECT_THAT(targets(program), Not(Contains("aten.matmul.default")));
  verify(program);
}

// ── Partitions ──

// Takes every add and nothing else.
struct AddPartitioner : Partitioner {
  std::string backend_id() const override { return "Adder"; }
  void keep_ops(DecompositionTable&) const override {}
  std::string refuse(const Node& node, const EdgeProgram&) const override {
    return node.is_call("aten.add.Tensor") ? "" : "no sum";
  }
  bool is_worthwhile(const Partition&) const override { return true; }
  Delegate lower(const Partition&, const EdgeProgram&, Program&) const override { return {}; }
};

Delegation partitioned(const TensorForward& forward, const Tensors& samples) {
  const EdgeProgram edge(prepared(forward, samples));
  return partition(edge, std::make_unique<AddPartitioner>().get());
}

// The second sum needs the first by way of a call outside: in one partition they would wait for each other.
TEST(Partitions, NeverMakeACycle) {
  const Delegation delegation = partitioned(
      [](const Tensors& x) {
        const at::Tensor sum = x[0] + x[0];
        return Tensors{sum + sum.exp(), sum + 1};
      },
      {at::randn({2})});
  ASSERT_EQ(delegation.partitions.size(), 2u);
  EXPECT_EQ(delegation.partitions[0].nodes.size() + delegation.partitions[1].nodes.size(), 3u);
  EXPECT_EQ(delegation.steps.size(), 3u);
}

TEST(Partitions, TakeWhatStandsApartInTheProgram) {
  const Delegation delegation = partitioned(
      [](const Tensors& x) {
        const at::Tensor a = x[0] + 1;
        const at::Tensor b = x[1].exp();
        return Tensors{a + x[1], b};
      },
      {at::randn({2}), at::randn({2})});
  ASSERT_EQ(delegation.partitions.size(), 1u);
  EXPECT_EQ(delegation.partitions[0].nodes.size(), 2u);
  EXPECT_EQ(delegation.partitions[0].inputs.size(), 2u);
  EXPECT_EQ(delegation.partitions[0].outputs.size(), 1u);
}

}  // namespace
}  // namespace exporters::executorch
