#include "exporters/interpreter/interpreter.h"
#include "exporters/support/error.h"
#include "tests/graph/metadata.h"
#include "tests/interpreter/graph_builder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using List = Argument::List;

at::Tensor tensor_of(const PyTree::Leaf& leaf) { return std::get<at::Tensor>(leaf); }

/// A subgraph on float tensors of [2, 3] (and of no axes, where the sizes say so).
struct Subgraph {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();

  Value* input(std::vector<int64_t> sizes = {2, 3}, c10::ScalarType dtype = at::kFloat) {
    Value* value = graph->add_placeholder("in");
    value->meta() = meta_of(std::move(sizes), dtype);
    return value;
  }
  Value* call(std::string_view target, std::vector<Argument> args, std::vector<int64_t> sizes = {2, 3},
              c10::ScalarType dtype = at::kFloat) {
    Value* value = graph->add_output(graph->call(target, std::move(args)));
    value->meta() = meta_of(std::move(sizes), dtype);
    return value;
  }
  GraphArgument finish(const char* name, std::vector<Argument> outputs) {
    graph->set_outputs(std::move(outputs));
    return {name, graph};
  }
};

struct HigherOrderTest : testing::Test {
  GraphBuilder builder;
  at::Tensor a = at::randn({2, 3});
  Value* x = builder.input("x", a);

  /// A program that gives the results of one call, of [2, 3] each unless told otherwise.
  std::shared_ptr<ExportedProgram> program(std::string_view target, std::vector<Argument> args,
                                           std::vector<std::vector<int64_t>> results = {{2, 3}}) {
    auto program = builder.finish({});
    Graph& graph = *program->graph;
    Node* node = graph.call(target, std::move(args));
    std::vector<Argument> outputs;
    for (std::vector<int64_t>& sizes : results) {
      Value* value = graph.add_output(node);
      value->meta() = meta_of(std::move(sizes));
      outputs.emplace_back(value);
      program->signature.outputs.push_back({OutputSpec::Kind::kUserOutput, value, ""});
    }
    program->out_spec = TreeSpec::tuple(std::vector<TreeSpec>(outputs.size()));
    graph.set_outputs(std::move(outputs));
    return program;
  }

  std::string refusal(std::string_view target, std::vector<Argument> args) {
    try {
      Interpreter(program(target, std::move(args)));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

// while sum(x) < limit: x = x + step
struct Loop {
  GraphArgument condition, body;
  Loop() {
    Subgraph c;
    Value* x = c.input();
    Value* limit = c.input({});
    c.input();
    Value* sum = c.call("aten.sum.default", {x}, {});
    condition = c.finish("condition", {c.call("aten.lt.Tensor", {sum, limit}, {}, at::kBool)});
    Subgraph b;
    Value* y = b.input();
    b.input({});
    Value* step = b.input();
    body = b.finish("body", {b.call("aten.add.Tensor", {y, step})});
  }
};

TEST_F(HigherOrderTest, WhileLoopRunsUntilItsConditionFails) {
  Value* limit = builder.input("limit", at::scalar_tensor(0.0));
  Value* step = builder.input("step", at::ones({2, 3}));
  const Loop loop;
  const auto result = program("higher_order.while_loop", {loop.condition, loop.body, List{x}, List{limit, step}});
  const Interpreter interpreter(result);
  for (const double stop : {-100.0, 5.0, 70.0}) {
    at::Tensor expected = a;
    while (expected.sum().item<double>() < stop) {
      expected = expected + 1;
    }
    const auto outputs = interpreter.run(std::vector{a, at::scalar_tensor(stop), at::ones({2, 3})});
    EXPECT_TRUE(at::equal(tensor_of(outputs[0]), expected)) << stop;
  }
}

TEST_F(HigherOrderTest, LoopStateOfAnotherLengthIsRefused) {
  Value* limit = builder.input("limit", at::scalar_tensor(0.0));
  const Loop loop;
  EXPECT_THAT(refusal("higher_order.while_loop", {loop.condition, loop.body, List{x}, List{limit}}),
              AllOf(HasSubstr("'condition' takes 3 inputs"), HasSubstr("has 2 and 1")));
}

TEST_F(HigherOrderTest, SubgraphsWithoutEffectOfTheirOwnAreRunInPlace) {
  Subgraph twice;
  Value* in = twice.input();
  const GraphArgument graph = twice.finish("body", {twice.call("aten.mul.Tensor", {in, 2})});
  const std::vector<std::pair<const char*, std::vector<Argument>>> calls = {
      {"higher_order.wrap_with_set_grad_enabled", {false, graph, x}},
      {"higher_order.wrap_with_set_grad_enabled", {true, graph, x}},
      {"higher_order.wrap_with_autocast", {"cpu", Argument(), false, Argument(), graph, x}},
      {"higher_order.invoke_subgraph", {graph, "name", x}},
  };
  for (const auto& [target, args] : calls) {
    HigherOrderTest::builder = GraphBuilder();
    x = builder.input("x", a);
    std::vector<Argument> own = args;
    own.back() = x;
    EXPECT_TRUE(at::equal(tensor_of(Interpreter(program(target, own)).run(std::vector{a})[0]), a * 2)) << target;
  }
}

TEST_F(HigherOrderTest, WhatCannotBeRunIsNamed) {
  Subgraph body;
  Value* in = body.input();
  const GraphArgument graph = body.finish("body", {in});
  EXPECT_THAT(refusal("higher_order.scan", {graph, List{x}, List{}, List{}}),
              AllOf(HasSubstr("higher_order.scan"), HasSubstr("higher_order.while_loop")));
}

TEST_F(HigherOrderTest, AutocastIsRefused) {
  Subgraph body;
  Value* in = body.input();
  const GraphArgument graph = body.finish("body", {in});
  EXPECT_THAT(refusal("higher_order.wrap_with_autocast", {"cpu", at::kBFloat16, true, true, graph, x}),
              HasSubstr("Autocast"));
}

TEST_F(HigherOrderTest, ACallOfAnotherFormIsRefused) {
  Subgraph body;
  Value* in = body.input();
  const GraphArgument graph = body.finish("body", {in});
  EXPECT_THAT(refusal("higher_order.wrap_with_set_grad_enabled", {graph, x}), HasSubstr("has not the form"));
}

}  // namespace
}  // namespace exporters
