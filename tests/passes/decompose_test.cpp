#include "exporters/passes/decompose.h"

#include "exporters/interpreter/interpreter.h"
#include "exporters/passes/op_facts.h"
#include "exporters/support/error.h"
#include "exporters/support/place.h"
#include "exporters/trace/trace.h"
#include "tests/graph/metadata.h"
#include "tests/interpreter/graph_builder.h"
#include "tests/passes/decompose_case.h"
#include "tests/support/error_of.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace exporters::decomposition {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using List = Argument::List;

std::vector<std::string> targets_of(const Graph& graph) {
  std::vector<std::string> targets;
  for (const Node& node : graph) {
    if (node.kind() == Node::Kind::kCall) {
      targets.push_back(node.target());
    }
  }
  return targets;
}

// ── Mutation and aliases ──

TEST(RunDecompositions, WritesInPlaceThroughViewsOfAnInput) {
  check({"views", {"b s 4", "s"}, [](const Tensors& x) {
           x[0].select(2, 1).add_(1);
           x[0].transpose(0, 1).slice(2, 0, 2).mul_(2);
           return Tensors{at::silu(x[0]), x[0].flatten(1)};
         }});
}

TEST(RunDecompositions, IndexPutInPlace) {
  check({"index_put_", {"b s", "b s", "m: b s", "l: 2"}, [](const Tensors& x) {
           at::Tensor y = x[0] * 2;
           y.index_put_({x[2]}, at::full({}, 3.0));
           at::Tensor z = x[1].clone();
           z.masked_fill_(x[2], -1).index_fill_(0, x[3].clamp(c10::nullopt, 0), 5);
           return Tensors{y, z};
         }});
}

TEST(RunDecompositions, InPlaceActivationsAndArithmetic) {
  check({"in_place", {"b s 4", "5 4", "5"}, [](const Tensors& x) {
           at::Tensor y = at::linear(x[0], x[1]);
           y.add_(x[2]);
           at::silu_(y);
           y.sub_(1).div_(2).clamp_(-1, 1);
           return Tensors{y};
         }});
}

/// A module with a buffer "count" that its forward writes to.
ExportedProgram counting(const at::Tensor& count) {
  TraceRequest request;
  request.module_class = "Counter";
  request.state.push_back({"count", count, true, true, {}});
  request.inputs.emplace_back("x", at::randn({2, 3}));
  request.forward = [&](const NamedInputs& inputs) -> PyTree {
    count.add_(1);
    const at::Tensor x = inputs[0].second.tensor();
    return at::softplus(x) * count;
  };
  return trace(request);
}

TEST(RunDecompositions, AMutatedBufferIsAnOutputOfTheSignature) {
  const at::Tensor count = at::zeros({});
  const ExportedProgram program = counting(count);

  const auto core = std::make_shared<ExportedProgram>(run_decompositions(program));

  ASSERT_EQ(core->signature.outputs.size(), 2u);
  EXPECT_EQ(core->signature.outputs[0].kind, OutputSpec::Kind::kBufferMutation);
  EXPECT_EQ(core->signature.outputs[0].target, "count");
  EXPECT_TRUE(is_functional(*core->graph));
  const Interpreter interpreter(core);
  for (const int64_t batch : {1, 5}) {
    const at::Tensor x = at::randn({batch, 3});
    const at::Tensor expected = at::softplus(x) * (count + 1);
    EXPECT_TRUE(at::allclose(std::get<at::Tensor>(interpreter.run(std::vector{x})[0]), expected));
  }
  EXPECT_EQ(count.item<float>(), 2.0F);
}

TEST(RunDecompositions, TheGivenProgramStaysAsItIs) {
  const at::Tensor count = at::zeros({});
  const ExportedProgram program = counting(count);
  const std::string before = program.str();
  run_decompositions(program);
  EXPECT_EQ(program.str(), before);
}

TEST(RunDecompositions, BatchNormInTrainingWritesItsStatistics) {
  const at::Tensor mean = at::zeros({4});
  const at::Tensor var = at::ones({4});
  GraphBuilder builder;
  Value* x = builder.input("x", at::randn({6, 4}));
  Value* running_mean = builder.buffer("mean", mean.clone());
  Value* running_var = builder.buffer("var", var.clone());
  Value* norm = builder.call("aten.batch_norm.default",
                             {x, Argument(), Argument(), running_mean, running_var, true, 0.1, 1e-5, false});
  const ExportedProgram program = *builder.finish({norm});

  const auto core = std::make_shared<ExportedProgram>(run_decompositions(program));

  ASSERT_EQ(core->signature.outputs.size(), 3u);
  EXPECT_EQ(core->signature.outputs[0].target, "mean");
  EXPECT_EQ(core->signature.outputs[1].target, "var");
  // No random numbers: a result near 0 is equal to no float within allclose's bounds.
  const at::Tensor input = at::arange(24, at::kFloat).view({6, 4});
  const at::Tensor expected = at::batch_norm(input, {}, {}, mean, var, true, 0.1, 1e-5, false);
  const auto outputs = Interpreter(core).run(std::vector{input});
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(outputs[0]), expected));
  EXPECT_TRUE(at::allclose(core->state.at("mean").tensor, mean));
  EXPECT_TRUE(at::allclose(core->state.at("var").tensor, var));
}

// ── The table ──

const Case kMlp = {
    "mlp", {"b s 8", "5 8", "5"}, [](const Tensors& x) { return Tensors{at::silu(at::linear(x[0], x[1], x[2]))}; }};

TEST(DecompositionTable, AKeptOpStaysWhole) {
  DecompositionTable table = core_aten_decompositions();
  table.keep("aten.linear.default");
  const ExportedProgram program = run_decompositions(traced(kMlp), table);
  EXPECT_THAT(targets_of(*program.graph), AllOf(Contains("aten.linear.default"), Not(Contains("aten.silu.default"))));
}

TEST(DecompositionTable, AnOpOfOnesOwnChoiceIsTakenApart) {
  DecompositionTable table = core_aten_decompositions();
  table.keep("aten.linear.default");
  table.add("aten.relu.default",
            [](const DecompositionCall& in) -> Results { return {in.tensor("self").clamp(0, c10::nullopt)}; });
  const ExportedProgram program =
      run_decompositions(traced({"relu", {"b s"}, [](const Tensors& x) { return Tensors{at::relu(x[0])}; }}), table);
  EXPECT_THAT(targets_of(*program.graph), ElementsAre("aten.clamp.default"));
}

TEST(DecompositionTable, AWrongDecompositionIsFoundOut) {
  DecompositionTable table = core_aten_decompositions();
  table.add("aten.relu.default",
            [](const DecompositionCall& in) -> Results { return {in.tensor("self").unsqueeze(0)}; });
  const ExportedProgram program = traced({"relu", {"b s"}, [](const Tensors& x) { return Tensors{at::relu(x[0])}; }});
  try {
    run_decompositions(program, table);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("aten.relu.default"), HasSubstr("3 axes"), HasSubstr("it has 2")));
  }
}

TEST(DecompositionTable, ADecompositionThatCallsItselfEnds) {
  DecompositionTable table = core_aten_decompositions();
  table.add("aten.relu.default", [](const DecompositionCall& in) -> Results { return {in.tensor("self").relu()}; });
  const ExportedProgram program = traced({"relu", {"b s"}, [](const Tensors& x) { return Tensors{at::relu(x[0])}; }});
  try {
    run_decompositions(program, table);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("aten.relu.default"), HasSubstr("calls the op itself")));
  }
}

TEST(DecompositionTable, AnUnknownOpIsRefused) {
  DecompositionTable table;
  EXPECT_THROW(table.keep("aten.no_such_op.default"), Error);
  EXPECT_THROW(table.add("aten.relu.no_such_overload", {}), Error);
}

// ── What stays ──

TEST(RunDecompositions, KeepsPlaceholdersNamesPlacesAndFacts) {
  TraceRequest request;
  request.module_class = "Net";
  request.state.push_back({"layer.weight", at::randn({5, 8}), false, true, {}});
  request.inputs.emplace_back("input_ids", at::randn({2, 8}));
  const at::Tensor weight = request.state[0].tensor;
  request.forward = [&](const NamedInputs& inputs) -> PyTree {
    const ModuleScope scope("layer", "Linear");
    return PyTree::dict({{"logits", at::gelu(at::linear(inputs[0].second.tensor(), weight))}});
  };
  const ExportedProgram program = trace(request);

  const ExportedProgram core = run_decompositions(program);

  EXPECT_EQ(core.signature.inputs, program.signature.inputs);
  EXPECT_EQ(core.out_spec, program.out_spec);
  EXPECT_EQ(core.in_spec, program.in_spec);
  EXPECT_EQ(core.range_constraints, program.range_constraints);
  EXPECT_EQ(core.hints, program.hints);
  EXPECT_EQ(core.output_leaves()[0].path, "logits");
  EXPECT_TRUE(core.state.at("layer.weight").tensor.is_same(weight));
  EXPECT_NE(core.graph->find("gelu"), nullptr) << core.str();
  EXPECT_THAT(targets_of(*core.graph), ElementsAre("aten.permute.default", "aten.mm.default", "aten.gelu.default"));
  for (const Node& node : *core.graph) {
    if (node.kind() == Node::Kind::kCall) {
      EXPECT_EQ(node.place().module_path, "layer") << node.describe();
      EXPECT_EQ(node.module_stack().size(), 1u) << node.describe();
    }
  }
}

TEST(RunDecompositions, GuardsStayAndAreChecked) {
  const Case example = {"guarded", {"b s"}, [](const Tensors& x) {
                          const at::Tensor y = x[0].sym_size(0) < 10 ? at::silu(x[0]) : x[0];
                          return Tensors{y};
                        }};
  const ExportedProgram program = traced(example);
  const auto core = std::make_shared<ExportedProgram>(run_decompositions(program));
  EXPECT_EQ(core->range_constraints, program.range_constraints);
  EXPECT_THROW(Interpreter(core).run(std::vector{at::randn({12, 3})}), Error);
}

TEST(RunDecompositions, SizesThatDependOnDataKeepTheirFacts) {
  check({"nonzero", {"k: b s"}, [](const Tensors& x) {
           const at::Tensor found = at::nonzero(x[0]);
           return Tensors{at::silu(found.to(at::kFloat)), found.transpose(0, 1) + 1};
         }});
}

TEST(RunDecompositions, AProgramWithoutHintsGetsSamplesThatMeetItsGuards) {
  ExportedProgram program =
      traced({"matmul", {"b s 8", "8 4"}, [](const Tensors& x) { return Tensors{at::matmul(x[0], x[1])}; }});
  program.hints.clear();
  program.guards.push_back({eq(mod(Expr(Symbol("s1")), 5), 0), {}});
  const ExportedProgram core = run_decompositions(program);
  EXPECT_TRUE(core.hints.empty());
  EXPECT_THAT(outside_core(*core.graph), IsEmpty());
}

// cond(condition, silu, mish, [x]) of a tensor [2, 3], whose subgraphs and result are said to be as given.
std::shared_ptr<ExportedProgram> program_with_branches(const at::Tensor& a, const TensorMeta& operand,
                                                       const TensorMeta& result) {
  const auto branch = [&](const char* target) {
    auto graph = std::make_shared<Graph>();
    Value* in = graph->add_placeholder("in");
    in->meta() = operand;
    Value* out = graph->add_output(graph->call(target, {in}));
    out->meta() = operand;
    graph->set_outputs({out});
    return graph;
  };
  GraphBuilder builder;
  Value* x = builder.input("x", a);
  Value* condition = builder.input("condition", at::scalar_tensor(true, at::kBool));
  auto program = builder.finish({x});
  Value* chosen = program->graph->add_output(
      program->graph->call("higher_order.cond", {condition, GraphArgument{"yes", branch("aten.silu.default")},
                                                 GraphArgument{"no", branch("aten.mish.default")}, List{x}}));
  chosen->meta() = result;
  program->graph->set_outputs({chosen});
  program->signature.outputs[0].argument = chosen;
  return program;
}

TEST(RunDecompositions, SubgraphsAreCalledWithWhatTheyAreSaidToTake) {
  const auto error = [](const TensorMeta& operand, const TensorMeta& result) {
    return error_of([&] { run_decompositions(*program_with_branches(at::randn({2, 3}), operand, result)); });
  };
  TensorMeta doubles = meta_of({2, 3});
  doubles.dtype = at::kDouble;
  EXPECT_EQ(error(meta_of({2, 3}), meta_of({2, 3})), "no error");
  EXPECT_THAT(error(meta_of({2, 4}), meta_of({2, 4})), HasSubstr("The subgraph 'yes' has 'x' as"));
  EXPECT_THAT(error(meta_of({2, 3}), meta_of({2, 4})), HasSubstr("where 'cond' is"));
  EXPECT_THAT(error(meta_of({2, 3}), meta_of({3})), HasSubstr("where 'cond' is"));
  EXPECT_THAT(error(meta_of({2, 3}), doubles), HasSubstr("where 'cond' is"));
}

TEST(RunDecompositions, BranchesOfACondAreTakenApart) {
  const at::Tensor a = at::randn({2, 3});
  const auto program = program_with_branches(a, meta_of({2, 3}), meta_of({2, 3}));

  const auto core = std::make_shared<ExportedProgram>(run_decompositions(*program));

  for (const Node& node : *core->graph) {
    for (const Argument& argument : node.args()) {
      if (const auto* subgraph = argument.get_if<GraphArgument>()) {
        EXPECT_THAT(outside_core(*subgraph->graph), IsEmpty());
      }
    }
  }
  const Interpreter interpreter(core);
  const at::Tensor yes = at::scalar_tensor(true, at::kBool);
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(interpreter.run(std::vector{a, yes})[0]), at::silu(a)));
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(interpreter.run(std::vector{a, yes.logical_not()})[0]), at::mish(a)));
}

// It counts with an integer that nothing takes afterwards, whose symbol only the subgraphs and the result have.
TEST(RunDecompositions, LoopsOverAnIntegerAreTakenApart) {
  const auto graph_over = [](const std::function<Argument(Graph&, Value*)>& make_first, bool is_body) {
    auto graph = std::make_shared<Graph>();
    Value* n = graph->add_placeholder("n", Value::Kind::kSymInt);
    n->sym() = Symbol("u1");
    Value* in = graph->add_placeholder("in");
    in->meta() = meta_of({2, 3});
    std::vector<Argument> outputs = {make_first(*graph, n)};
    if (is_body) {
      Value* out = graph->add_output(graph->call("aten.silu.default", {in}));
      out->meta() = meta_of({2, 3});
      outputs.emplace_back(out);
    }
    graph->set_outputs(std::move(outputs));
    return graph;
  };
  const auto goes_on = graph_over(
      [](Graph& graph, Value* n) {
        return Argument(graph.add_output(graph.call("_operator.lt", {n, 3}), Value::Kind::kSymBool));
      },
      false);
  const auto body = graph_over(
      [](Graph& graph, Value* n) {
        Value* next = graph.add_output(graph.call("_operator.add", {n, 1}), Value::Kind::kSymInt);
        next->sym() = Expr(Symbol("u1")) + 1;
        return Argument(next);
      },
      true);
  GraphBuilder builder;
  const at::Tensor a = at::randn({2, 3});
  Value* x = builder.input("x", a);
  auto program = builder.finish({x});
  program->range_constraints = {{"u1", {0, 100}}, {"u2", {0, 100}}};
  Node* loop = program->graph->call(
      "higher_order.while_loop", {GraphArgument{"goes_on", goes_on}, GraphArgument{"body", body}, List{0, x}, List{}});
  program->graph->add_output(loop, Value::Kind::kSymInt)->sym() = Symbol("u2");
  Value* result = program->graph->add_output(loop);
  result->meta() = meta_of({2, 3});
  program->graph->set_outputs({result});
  program->signature.outputs[0].argument = result;

  const auto core = std::make_shared<ExportedProgram>(run_decompositions(*program));

  EXPECT_EQ(core->range_constraints.at("u1").max, 100);
  const at::Tensor expected = at::silu(at::silu(at::silu(a)));
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(Interpreter(core).run(std::vector{a})[0]), expected));
}

}  // namespace
}  // namespace exporters::decomposition
