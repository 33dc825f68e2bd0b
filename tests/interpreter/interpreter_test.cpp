#include "exporters/interpreter/interpreter.h"

#include "exporters/graph/exported_program.h"
#include "exporters/support/error.h"
#include "tests/graph/metadata.h"
#include "tests/interpreter/graph_builder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace exporters {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = Value::Kind;

at::Tensor tensor_of(const PyTree::Leaf& leaf) { return std::get<at::Tensor>(leaf); }

// Not GraphBuilder's own evaluation: these tests hold the interpreter against ATen called directly.
struct InterpreterTest : testing::Test {
  GraphBuilder builder;
  at::Tensor a = at::randn({2, 3});
  at::Tensor b = at::randn({2, 3});
  Value* x = builder.input("x", a);
  Value* y = builder.input("y", b);

  std::vector<PyTree::Leaf> run(std::vector<Value*> outputs) {
    return Interpreter(builder.finish(std::move(outputs))).run(builder.fresh_inputs());
  }
};

TEST_F(InterpreterTest, PositionalKeywordAndDefaultArguments) {
  Value* sum = builder.call("aten.add.Tensor", {x, y}, {{"alpha", 2}});
  Value* soft = builder.call("aten.softmax.int", {sum, -1});
  const auto result = run({sum, soft});
  EXPECT_TRUE(at::equal(tensor_of(result[0]), at::add(a, b, 2)));
  EXPECT_TRUE(at::equal(tensor_of(result[1]), at::softmax(at::add(a, b, 2), -1)));
}

TEST_F(InterpreterTest, NumbersForTensorsPromoteAsNumbers) {
  at::Tensor half = a.to(at::kHalf);
  at::Tensor ints = at::arange(3);
  Value* h = builder.input("h", half);
  Value* i = builder.input("i", ints);
  const auto result = run({builder.call("aten.mul.Tensor", {h, 0.3}), builder.call("aten.add.Tensor", {i, 1}),
                           builder.call("aten.add.Tensor", {i, 1.5})});
  EXPECT_TRUE(at::equal(tensor_of(result[0]), half * 0.3));
  EXPECT_EQ(tensor_of(result[1]).scalar_type(), at::kLong);
  EXPECT_TRUE(at::equal(tensor_of(result[2]), ints + 1.5));
}

TEST_F(InterpreterTest, ListsOfTensorsOptionalTensorsAndNumbers) {
  Value* index = builder.input("index", at::tensor(std::vector<int64_t>{1, 0}));
  const auto result = run({builder.call("aten.cat.default", {Argument::List{x, y, x}, 1}),
                           builder.call("aten.index.Tensor", {x, Argument::List{Argument(), index}}),
                           builder.call("aten.permute.default", {x, Argument::List{1, 0}}),
                           builder.call("aten.sum.dim_IntList", {x, 1})});
  EXPECT_TRUE(at::equal(tensor_of(result[0]), at::cat({a, b, a}, 1)));
  EXPECT_TRUE(at::equal(tensor_of(result[1]), at::stack({a.select(1, 1), a.select(1, 0)}, 1)));
  EXPECT_TRUE(at::equal(tensor_of(result[2]), a.t()));
  EXPECT_TRUE(at::equal(tensor_of(result[3]), a.sum(1)));
}

TEST_F(InterpreterTest, OneNumberStandsForAFixedLengthList) {
  at::Tensor image = at::randn({1, 1, 4, 6});
  const auto result = run({builder.call("aten.avg_pool2d.default", {builder.input("image", image), 2})});
  EXPECT_TRUE(at::equal(tensor_of(result[0]), at::avg_pool2d(image, {2, 2})));
}

TEST_F(InterpreterTest, ListOutputsAreTakenWholeAndByElement) {
  Value* split = builder.call("aten.split.Tensor", {x, 2, 1});
  const auto result = run({builder.call("aten.cat.default", {split, 1}), split->elements()[1]});
  EXPECT_TRUE(at::equal(tensor_of(result[0]), a));
  EXPECT_TRUE(at::equal(tensor_of(result[1]), a.slice(1, 2)));
}

TEST_F(InterpreterTest, SeveralOutputsAndDtypesAndDevices) {
  Node* max = builder.node("aten.max.dim", {x, 1});
  Value* full = builder.call("aten.full.default", {Argument::List{2}, 3},
                             {{"dtype", at::kHalf}, {"device", c10::Device(c10::kCPU)}, {"layout", c10::kStrided}});
  Value* copy = builder.call("aten.clone.default", {x}, {{"memory_format", c10::MemoryFormat::Contiguous}});
  const auto result = run({max->output(1), max->output(0), full, copy});
  EXPECT_TRUE(at::equal(tensor_of(result[0]), std::get<1>(a.max(1))));
  EXPECT_TRUE(at::equal(tensor_of(result[1]), std::get<0>(a.max(1))));
  EXPECT_TRUE(at::equal(tensor_of(result[2]), at::full({2}, 3, at::kHalf)));
  EXPECT_TRUE(at::equal(tensor_of(result[3]), a));
}

TEST_F(InterpreterTest, InPlaceOpsActOnViewsAndOnTheCallersInput) {
  Value* row = builder.call("aten.select.int", {x, 0, 1});
  builder.call("aten.add_.Tensor", {row, 1});
  auto program = builder.finish({builder.call("aten.mul.Tensor", {x, 2})});
  std::vector<at::Tensor> inputs = builder.fresh_inputs();
  const at::Tensor before = inputs[0].clone();
  const auto result = Interpreter(program).run(inputs);
  at::Tensor expected = before.clone();
  expected.select(0, 1).add_(1);
  EXPECT_TRUE(at::equal(tensor_of(result[0]), expected * 2));
  EXPECT_TRUE(at::equal(inputs[0], expected));
}

TEST_F(InterpreterTest, ResultsCanBeWrittenToAndNeedNoGrad) {
  at::Tensor weight = at::randn({3, 3});
  weight.set_requires_grad(true);
  at::Tensor result = tensor_of(run({builder.call("aten.linear.default", {x, builder.parameter("w", weight)})})[0]);
  EXPECT_FALSE(result.requires_grad());
  EXPECT_FALSE(result.is_inference());
  result.add_(1);
  EXPECT_TRUE(at::equal(result, at::linear(a, weight.detach()) + 1));
}

TEST_F(InterpreterTest, FailingOpIsNamedWithItsPlace) {
  Value* bad = builder.call("aten.view.default", {x, Argument::List{-1}});
  bad->node()->place() = {"encoder.layer.0", "BertLayer", "", "models/bert.cpp:80"};
  bad->node()->set_arg(1, Argument::List{5});
  auto program = builder.finish({bad});
  try {
    Interpreter(program).run(builder.fresh_inputs());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("aten.view.default 'view'"), HasSubstr("encoder.layer.0"),
                                    HasSubstr("models/bert.cpp:80"), HasSubstr("shape '[5]' is invalid")));
  }
}

TEST_F(InterpreterTest, UnknownOpIsRefusedAtConstruction) {
  Value* bad = builder.call("aten.relu.default", {x});
  bad->node()->set_target("mylib.relu.default");
  EXPECT_THROW(Interpreter{builder.finish({bad})}, Error);
}

TEST_F(InterpreterTest, MutationOutputsAreWrittenIntoBuffersAndInputs) {
  at::Tensor state = at::zeros({2, 3});
  Value* buffer = builder.buffer("state", state);
  Value* new_state = builder.call("aten.add.Tensor", {buffer, x});
  Value* new_x = builder.call("aten.mul.Tensor", {x, 2});
  auto program = builder.finish({new_x, x});
  program->graph->set_outputs({new_state, new_x, new_x, x});
  program->signature.outputs = {{OutputSpec::Kind::kBufferMutation, new_state, "state"},
                                {OutputSpec::Kind::kUserInputMutation, new_x, "x"},
                                {OutputSpec::Kind::kUserOutput, new_x, ""},
                                {OutputSpec::Kind::kUserOutput, x, ""}};
  std::vector<at::Tensor> inputs = builder.fresh_inputs();
  const auto result = Interpreter(program).run(inputs);
  ASSERT_EQ(result.size(), 2u);
  EXPECT_TRUE(at::equal(state, a));
  EXPECT_TRUE(at::equal(inputs[0], a * 2));
  EXPECT_TRUE(at::equal(tensor_of(result[0]), a * 2));
  EXPECT_TRUE(at::equal(tensor_of(result[1]), a)) << "an output that is the unmutated input keeps its value";
}

TEST_F(InterpreterTest, MutationsThatSwapInputsReadBothBeforeWriting) {
  auto program = builder.finish({});
  program->graph->set_outputs({y, x});
  program->signature.outputs = {{OutputSpec::Kind::kUserInputMutation, y, "x"},
                                {OutputSpec::Kind::kUserInputMutation, x, "y"}};
  std::vector<at::Tensor> inputs = builder.fresh_inputs();
  Interpreter(program).run(inputs);
  EXPECT_TRUE(at::equal(inputs[0], b));
  EXPECT_TRUE(at::equal(inputs[1], a));
}

TEST_F(InterpreterTest, ManyThreadsRunOneInterpreter) {
  Value* value = x;
  for (int i = 0; i < 50; ++i) {
    value = builder.call("aten.add.Tensor", {builder.call("aten.sin.default", {value}), y});
  }
  const Interpreter interpreter(builder.finish({value}));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const at::Tensor p = at::randn({2, 3});
        const at::Tensor q = at::randn({2, 3});
        at::Tensor expected = p;
        for (int k = 0; k < 50; ++k) {
          expected = expected.sin() + q;
        }
        wrong += at::equal(tensor_of(interpreter.run(std::vector{p, q})[0]), expected) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(InterpreterTest, ValuesAreFreedAtTheirLastUse) {
  at::Tensor big = at::ones({1 << 20});
  Value* value = builder.input("big", big);
  auto first = builder.call("aten.add.Tensor", {value, 1});
  auto second = builder.call("aten.add_.Tensor", {first, 1});
  auto third = builder.call("aten.sum.default", {second});
  auto program = builder.finish({third});
  std::vector<at::Tensor> inputs = builder.fresh_inputs();
  const Interpreter interpreter(program);
  EXPECT_EQ(tensor_of(interpreter.run(inputs)[0]).item<float>(), 3.0f * (1 << 20));
  EXPECT_EQ(inputs[2].use_count(), 1u);
}

TEST_F(InterpreterTest, CallsByKeywordFollowTheTreeSpecs) {
  auto program = builder.finish({builder.call("aten.sub.Tensor", {x, y})});
  Value* flag = program->graph->add_placeholder("flag", Kind::kNone);
  program->signature.inputs.push_back({InputSpec::Kind::kConstantInput, flag->name(), "", true, true});
  program->in_spec = TreeSpec::tuple(
      {TreeSpec::tuple({}), TreeSpec::dict({"x", "y", "flag"}, {TreeSpec::leaf(), TreeSpec::leaf(), {}})});
  program->out_spec = TreeSpec::dict({"difference"}, {TreeSpec::leaf()});
  const Interpreter interpreter(program);
  const PyTree result = interpreter({}, PyTree::dict({{"y", b}, {"flag", true}, {"x", a}}));
  EXPECT_TRUE(at::equal(result.at("difference").tensor(), a - b));

  auto error = [&](PyTree kwargs) -> std::string {
    try {
      interpreter({}, kwargs);
      return "no error";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_THAT(error(PyTree::dict({{"x", a}, {"flag", true}})), HasSubstr("'y' is missing"));
  EXPECT_THAT(error(PyTree::dict({{"x", a}, {"y", b}, {"flag", false}})), HasSubstr("'flag' is False"));
  EXPECT_THAT(error(PyTree::dict({{"x", a}, {"y", b}, {"flag", true}, {"z", b}})), HasSubstr("no argument 'z'"));
  EXPECT_THAT(error(PyTree::dict({{"x", a}, {"y", PyTree::tuple({b, b})}, {"flag", true}})), HasSubstr("'y'"));
  EXPECT_THAT(error(PyTree::dict({{"x", a}, {"y", 1.0}, {"flag", true}})), HasSubstr("'y' has to be a tensor"));
}

TEST_F(InterpreterTest, CondTakesTheBranchOfItsCondition) {
  auto branch = [](const char* target) {
    auto graph = std::make_shared<Graph>();
    Value* in = graph->add_placeholder("in");
    in->meta() = meta_of({2, 3});
    Value* out = graph->add_output(graph->call(target, {in}));
    out->meta() = meta_of({2, 3});
    graph->set_outputs({out});
    return graph;
  };
  Value* condition = builder.input("condition", at::scalar_tensor(true, at::kBool));
  auto program = builder.finish({x});
  Value* result = program->graph->add_output(
      program->graph->call("higher_order.cond", {condition, GraphArgument{"yes", branch("aten.sin.default")},
                                                 GraphArgument{"no", branch("aten.cos.default")}, Argument::List{x}}));
  result->meta() = meta_of({2, 3});
  program->graph->set_outputs({result});
  program->signature.outputs[0].argument = result;
  const Interpreter interpreter(program);
  const at::Tensor yes = at::scalar_tensor(true, at::kBool);
  EXPECT_TRUE(at::equal(tensor_of(interpreter.run(std::vector{a, b, yes})[0]), a.sin()));
  EXPECT_TRUE(at::equal(tensor_of(interpreter.run(std::vector{a, b, yes.logical_not()})[0]), a.cos()));
}

}  // namespace
}  // namespace exporters
