#include "exporters/graph/exported_program.h"
#include "exporters/support/error.h"
#include "tests/graph/metadata.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = Value::Kind;

std::string error_of(const Graph& graph) {
  try {
    verify(graph);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(const ExportedProgram& program) {
  try {
    verify(program);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct GraphOfOneInput : testing::Test {
  Graph graph;
  Value* x = nullptr;
  GraphOfOneInput() {
    x = graph.add_placeholder("x");
    x->meta() = meta_of({2, 3});
  }
  Node* call(std::string_view target, std::vector<Argument> args,
             std::vector<std::pair<std::string, Argument>> kwargs = {}, std::vector<Kind> outputs = {Kind::kTensor}) {
    Node* node = graph.call(target, std::move(args), std::move(kwargs));
    for (Kind kind : outputs) {
      graph.add_output(node, kind)->meta() = meta_of({2, 3});
    }
    return node;
  }
};

using VerifyGraph = GraphOfOneInput;

TEST_F(VerifyGraph, CallsAsTorchExportRecordsThemPass) {
  Value* n = call("aten.sym_size.int", {x, 0}, {}, {Kind::kSymInt})->value();
  Value* m = call("_operator.mul", {n, 3}, {}, {Kind::kSymInt})->value();
  Value* b = call("_operator.eq", {m, 6}, {}, {Kind::kSymBool})->value();
  call("torch.sym_float", {m}, {}, {Kind::kSymFloat});
  call("aten.add.Tensor", {x, 1}, {{"alpha", 2}});
  call("aten.add.Tensor", {x, n});
  call("aten.view.default", {x, Argument::List{m}});
  call("aten.full.default", {Argument::List{n, 3}, 0.5},
       {{"dtype", c10::ScalarType::Float}, {"layout", c10::kStrided}, {"device", c10::Device(c10::kCPU)}});
  call("aten.index.Tensor", {x, Argument::List{Argument(), x}});
  call("aten.clamp.default", {x, Argument(), 1.0});
  call("aten.clone.default", {x}, {{"memory_format", c10::MemoryFormat::Contiguous}});
  call("aten.sum.dim_IntList", {x, Argument::List{-1}, true});
  call("aten.avg_pool2d.default", {x, 2});
  call("aten.max.dim", {x, 1}, {}, {Kind::kTensor, Kind::kTensor});
  call("aten._assert_scalar.default", {b, "a message"}, {}, {});
  EXPECT_EQ(error_of(graph), "no error");
}

TEST_F(VerifyGraph, UnknownOpIsNamedWithItsNeighbours) {
  call("aten.rellu.default", {x});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("aten.rellu.default 'rellu'"), HasSubstr("aten.relu.default")));
}

TEST_F(VerifyGraph, MissingArgumentIsNamed) {
  call("aten.select.int", {x, 0});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'select'"), HasSubstr("lacks the argument 'index'")));
}

TEST_F(VerifyGraph, SurplusArgumentIsFound) {
  call("aten.relu.default", {x, 1});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'relu'"), HasSubstr("2 positional")));
}

TEST_F(VerifyGraph, UnknownKeywordIsNamed) {
  call("aten.relu.default", {x}, {{"inplace", true}});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'relu'"), HasSubstr("'inplace'")));
}

TEST_F(VerifyGraph, ArgumentGivenTwiceIsNamed) {
  call("aten.softmax.int", {x, 1}, {{"dim", 1}});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'softmax'"), HasSubstr("two values for the argument 'dim'")));
}

TEST_F(VerifyGraph, KeywordOnlyArgumentByPositionIsNamed) {
  call("aten.add.Tensor", {x, x, 2});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'add'"), HasSubstr("'alpha' by position")));
}

TEST_F(VerifyGraph, ArgumentsOfTheWrongKindAreNamed) {
  struct Case {
    const char* target;
    std::vector<Argument> args;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"aten.select.int", {x, "0", 1}, "takes '0' for 'dim'"},
      {"aten.select.int", {x, 0.5, 1}, "takes 0.5 for 'dim'"},
      {"aten.select.int", {x, x, 1}, "takes 'x' (Tensor) for 'dim'"},
      {"aten.relu.default", {Argument()}, "takes None for 'self'"},
      {"aten.relu.default", {"x"}, "takes 'x' for 'self'"},
      {"aten.view.default", {x, 3}, "takes 3 for 'size'"},
      {"aten.view.default", {x, Argument::List{1, x}}, "for 'size'"},
      {"aten.cat.default", {Argument(Argument::List{x, Argument()})}, "for 'tensors'"},
      {"aten.sum.dim_IntList", {x, Argument::List{0}, 1}, "takes 1 for 'keepdim'"},
      {"aten.to.dtype", {x, 6}, "takes 6 for 'dtype'"},
  };
  for (const Case& c : cases) {
    Node* node = call(c.target, c.args);
    EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'" + node->name() + "'"), HasSubstr(c.message))) << c.target;
    graph.erase(node);
  }
}

TEST_F(VerifyGraph, WrongNumberOfOutputsIsFound) {
  call("aten.max.dim", {x, 1});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'max_1'"), HasSubstr("1 outputs, its op gives 2")));
}

TEST_F(VerifyGraph, WrongKindOfOutputIsFound) {
  call("aten.split.Tensor", {x, 1});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'split'"), HasSubstr("gives a Tensor in 'split'")));
}

TEST_F(VerifyGraph, SymOpWithOtherOperandsIsFound) {
  call("_operator.add", {1, x}, {}, {Kind::kSymInt});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'add'"), HasSubstr("no number")));
}

TEST_F(VerifyGraph, SymOpWithOtherResultIsFound) {
  call("_operator.eq", {1, 2}, {}, {Kind::kSymInt});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'eq'"), HasSubstr("SymInt")));
}

TEST_F(VerifyGraph, UnknownSymOpIsFound) {
  call("_operator.matmul", {1, 2}, {}, {Kind::kSymInt});
  EXPECT_THAT(error_of(graph), HasSubstr("'matmul'"));
}

TEST_F(VerifyGraph, UseBeforeDefinitionIsFound) {
  Node* a = call("aten.relu.default", {x});
  Node* b = call("aten.sigmoid.default", {a->value()});
  graph.move_before(b, a);
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'sigmoid'"), HasSubstr("'relu' before it is defined")));
}

TEST_F(VerifyGraph, UseOfAnErasedValueIsFound) {
  Node* a = call("aten.relu.default", {x});
  graph.erase(a);
  call("aten.sigmoid.default", {a->value()});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'sigmoid'"), HasSubstr("'relu'")));
}

TEST_F(VerifyGraph, CallBeforeAPlaceholderIsFound) {
  graph.move_before(call("aten.relu.default", {x}), x->node());
  EXPECT_THAT(error_of(graph), HasSubstr("placeholder 'x' stands after calls"));
}

TEST_F(VerifyGraph, SizesWithoutStridesAreFound) {
  call("aten.relu.default", {x})->value()->meta().strides.pop_back();
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'relu'"), HasSubstr("2 sizes and 1 strides")));
}

TEST_F(VerifyGraph, NegativeSizeIsFound) {
  call("aten.relu.default", {x})->value()->meta().sizes[0] = -1;
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'relu'"), HasSubstr("a size of -1")));
}

TEST_F(VerifyGraph, SubgraphsAreChecked) {
  auto branch = std::make_shared<Graph>();
  Value* y = branch->add_placeholder("y");
  y->meta() = meta_of({1});
  branch->add_output(branch->call("aten.relu.default", {y, 1}))->meta() = meta_of({1});
  call("higher_order.cond",
       {true, GraphArgument{"true_graph_0", branch}, GraphArgument{"false_graph_0", branch}, Argument::List{x}});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'cond'"), HasSubstr("'relu'")));
}

TEST_F(VerifyGraph, HigherOrderOpWithoutASubgraphIsFound) {
  call("higher_order.cond", {true, Argument::List{x}});
  EXPECT_THAT(error_of(graph), AllOf(HasSubstr("'cond'"), HasSubstr("without a subgraph")));
}

struct VerifyProgram : testing::Test {
  ExportedProgram program;
  Value* weight = nullptr;
  Value* x = nullptr;
  Value* y = nullptr;
  VerifyProgram() {
    weight = program.graph->add_placeholder("p_weight");
    weight->meta() = meta_of({3, 3});
    x = program.graph->add_placeholder("x");
    x->meta() = meta_of({2, 3});
    x->meta().sizes[0] = Symbol("s0");
    y = program.graph->add_output(program.graph->call("aten.linear.default", {x, weight}));
    y->meta() = x->meta();
    program.graph->set_outputs({y});
    program.signature.inputs = {{InputSpec::Kind::kParameter, "p_weight", "weight", true, {}},
                                {InputSpec::Kind::kUserInput, "x", "", true, {}}};
    program.signature.outputs = {{OutputSpec::Kind::kUserOutput, y, ""}};
    program.state["weight"] = {at::zeros({3, 3}), {}};
    program.range_constraints["s0"] = {1, 8};
    program.in_spec = TreeSpec::tuple({TreeSpec::tuple({}), TreeSpec::dict({"x"}, {TreeSpec::leaf()})});
  }
};

TEST_F(VerifyProgram, WholeProgramPasses) { EXPECT_EQ(error_of(program), "no error"); }

TEST_F(VerifyProgram, PlaceholderWithoutASpecIsFound) {
  program.graph->add_placeholder("z")->meta() = meta_of({1});
  EXPECT_THAT(error_of(program), HasSubstr("2 inputs, the graph has 3"));
}

TEST_F(VerifyProgram, SpecOfAnotherNameIsFound) {
  program.signature.inputs[1].name = "z";
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("'z'"), HasSubstr("'x'")));
}

TEST_F(VerifyProgram, MissingStateIsFound) {
  program.state.clear();
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("'p_weight'"), HasSubstr("'weight'")));
}

TEST_F(VerifyProgram, StateOfAnotherShapeOrDtypeIsFound) {
  program.state["weight"].tensor = at::zeros({3, 4});
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("another shape"), HasSubstr("3, 4")));
  program.state["weight"].tensor = at::zeros({3, 3}, c10::ScalarType::Half);
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("another dtype"), HasSubstr("Half")));
}

TEST_F(VerifyProgram, OutputThatIsNotTheGraphsIsFound) {
  program.signature.outputs[0].argument = x;
  EXPECT_THAT(error_of(program), HasSubstr("Output 0"));
}

TEST_F(VerifyProgram, MutationOfSomethingElseIsFound) {
  program.signature.outputs[0] = {OutputSpec::Kind::kBufferMutation, y, "x"};
  EXPECT_THAT(error_of(program), HasSubstr("'x'"));
  program.signature.outputs[0] = {OutputSpec::Kind::kUserInputMutation, y, "p_weight"};
  EXPECT_THAT(error_of(program), HasSubstr("'p_weight'"));
}

TEST_F(VerifyProgram, SymbolWithoutARangeIsFound) {
  program.range_constraints.clear();
  EXPECT_THAT(error_of(program), AllOf(HasSubstr("'x'"), HasSubstr("s0")));
}

TEST_F(VerifyProgram, SpecsOfOtherLeafCountsAreFound) {
  program.out_spec = TreeSpec::tuple({TreeSpec::leaf(), TreeSpec::leaf()});
  EXPECT_THAT(error_of(program), HasSubstr("out_spec has 2 leaves"));
  program.out_spec = TreeSpec::leaf();
  program.in_spec = TreeSpec::tuple({TreeSpec::tuple({}), TreeSpec::tuple({})});
  EXPECT_THAT(error_of(program), HasSubstr("in_spec has 0 leaves"));
}

TEST_F(VerifyProgram, LeavesAreCalledByTheirPath) {
  program.out_spec = TreeSpec::dict({"logits"}, {TreeSpec::leaf()});
  ASSERT_EQ(program.input_leaves().size(), 1u);
  EXPECT_EQ(program.input_leaves()[0].path, "x");
  EXPECT_EQ(program.input_leaves()[0].placeholder, "x");
  ASSERT_EQ(program.output_leaves().size(), 1u);
  EXPECT_EQ(program.output_leaves()[0].path, "logits");
  EXPECT_EQ(program.output_leaves()[0].placeholder, "linear");
}

TEST_F(VerifyProgram, PrintsSignatureAndRanges) {
  program.guards.push_back({ne(Expr(Symbol("s0")), 3), {"encoder", "", "", ""}});
  EXPECT_THAT(program.str(), AllOf(HasSubstr("p_weight: PARAMETER target='weight'"), HasSubstr("linear: USER_OUTPUT"),
                                   HasSubstr("s0: [1, 8]"), HasSubstr("Ne(s0, 3)  # encoder")));
}

}  // namespace
}  // namespace exporters
