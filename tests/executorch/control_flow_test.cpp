// cond and while_loop: programs made by hand, run on ExecuTorch and compared with libtorch. Those that Python recorded
// are in pt2_test.cpp.
#include "exporters/executorch/emit/writer.h"
#include "exporters/executorch/report.h"
#include "exporters/framework/traced_program.h"
#include "exporters/interpreter/interpreter.h"
#include "exporters/passes/clone.h"
#include "exporters/passes/emit.h"
#include "tests/executorch/exported.h"
#include "tests/executorch/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace exporters::executorch {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

using List = Argument::List;
using Sizes = std::vector<Expr>;

// ── Programs ──

TensorMeta meta_of(Sizes sizes, c10::ScalarType dtype) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.sizes = std::move(sizes);
  return contiguous_meta(std::move(meta));
}

Expr rows() { return Symbol("s0"); }

// A graph on float tensors unless told otherwise.
struct GraphMaker {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();

  Value* input(Sizes sizes, c10::ScalarType dtype = at::kFloat) {
    Value* value = graph->add_placeholder("in");
    value->meta() = meta_of(std::move(sizes), dtype);
    return value;
  }
  Value* number(const Expr& expr) {
    Value* value = graph->add_placeholder("number", Value::Kind::kSymInt);
    value->sym() = expr;
    return value;
  }
  Value* call(std::string_view target, std::vector<Argument> args, Sizes sizes, c10::ScalarType dtype = at::kFloat,
              std::vector<std::pair<std::string, Argument>> kwargs = {}) {
    Value* value = graph->add_output(graph->call(target, std::move(args), std::move(kwargs)));
    value->meta() = meta_of(std::move(sizes), dtype);
    return value;
  }
  Value* sym_call(std::string_view target, std::vector<Argument> args, const Expr& expr) {
    Value* value = graph->add_output(graph->call(target, std::move(args)), Value::Kind::kSymInt);
    value->sym() = expr;
    return value;
  }
  Value* truth(std::string_view target, std::vector<Argument> args) {
    return graph->add_output(graph->call(target, std::move(args)), Value::Kind::kSymBool);
  }
  /// A call of subgraphs whose results have these sizes.
  std::vector<Value*> control_flow(std::string_view target, std::vector<Argument> args,
                                   const std::vector<TensorMeta>& results) {
    Node* node = graph->call(target, std::move(args));
    for (const TensorMeta& result : results) {
      graph->add_output(node)->meta() = result;
    }
    return node->outputs();
  }
  GraphArgument finish(const char* name, std::vector<Argument> outputs) {
    graph->set_outputs(std::move(outputs));
    return {name, graph};
  }
};

// A program whose axis of size s0 has up to 16 rows.
struct ProgramMaker : GraphMaker {
  std::shared_ptr<ExportedProgram> program = std::make_shared<ExportedProgram>();
  std::vector<std::string> names;

  ProgramMaker() {
    program->graph = graph;
    program->range_constraints["s0"] = {1, 16};
    program->hints["s0"] = 4;
  }

  Value* user_input(Sizes sizes, c10::ScalarType dtype = at::kFloat) {
    Value* value = input(std::move(sizes), dtype);
    program->signature.inputs.push_back({InputSpec::Kind::kUserInput, value->name(), {}, true, {}});
    names.push_back(value->name());
    return value;
  }
  Value* parameter(const std::string& target, const at::Tensor& tensor) {
    Value* value = input({tensor.sizes().begin(), tensor.sizes().end()}, tensor.scalar_type());
    program->signature.inputs.push_back({InputSpec::Kind::kParameter, value->name(), target, true, {}});
    program->state[target] = {tensor, {}};
    return value;
  }
  std::shared_ptr<ExportedProgram> give(const std::vector<Value*>& outputs) {
    for (Value* output : outputs) {
      program->signature.outputs.push_back({OutputSpec::Kind::kUserOutput, output, {}});
    }
    graph->set_outputs({outputs.begin(), outputs.end()});
    program->in_spec = TreeSpec::tuple(
        {TreeSpec::tuple({}), TreeSpec::dict(names, std::vector<TreeSpec>(names.size(), TreeSpec::leaf()))});
    program->out_spec = TreeSpec::tuple(std::vector<TreeSpec>(outputs.size(), TreeSpec::leaf()));
    return program;
  }
};

std::filesystem::path lower(const std::shared_ptr<ExportedProgram>& program, const std::string& backend,
                            bool plan_outputs = true) {
  use_executorch();
  ExecutorchConfig config;
  config.backend = backend;
  config.alloc_graph_output = plan_outputs;
  const auto folder = scratch_folder();
  ExecutorchExporter().export_model(traced_model(program), config).save_pretrained(folder);
  return folder / "model.pte";
}

// The program as ExecuTorch runs it, beside libtorch.
class Lowered {
 public:
  Lowered(const std::shared_ptr<ExportedProgram>& program, const std::string& backend, bool plan_outputs = true)
      : eager_(std::make_shared<const ExportedProgram>(clone(*program))),
        file_(lower(program, backend, plan_outputs)),
        runner_(std::make_unique<ExecutorchRunner>(file_)) {}

  void expect_as_eager(const std::vector<Tensors>& calls) {
    for (const Tensors& inputs : calls) {
      Tensors expected;
      for (const PyTree::Leaf& leaf : eager_.run(inputs)) {
        expected.push_back(std::get<at::Tensor>(leaf));
      }
      exporters::testing::expect_tensors(runner_->run(inputs), expected, inputs, 1e-5, 1e-5);
    }
  }
  /// The last call is kept for the check with executorch's Python, too.
  void expect_as_eager_and_in_python(const std::vector<Tensors>& calls) {
    expect_as_eager(calls);
    keep_for_python(file_, calls.back(), runner_->run(calls.back()));
  }

  int64_t count(const std::string& op) const {
    const auto ops = describe(runner_->program()).ops;
    const auto found = ops.find(op);
    return found == ops.end() ? 0 : found->second;
  }
  const Method& method() const { return runner_->program().methods.at(0); }
  ProgramFacts facts() const { return *facts_of(runner_->program()); }

 private:
  Interpreter eager_;
  std::filesystem::path file_;
  std::unique_ptr<ExecutorchRunner> runner_;
};

at::Tensor flag(bool value) { return at::scalar_tensor(value, at::kBool); }
at::Tensor count_of(int64_t value) { return at::scalar_tensor(value, at::kLong); }

struct ControlFlow : ::testing::TestWithParam<const char*> {
  ControlFlow() { at::manual_seed(0); }
  ProgramMaker maker;
  Value* x = maker.user_input({rows(), 3});

  TensorMeta like_x() const { return x->meta(); }
  Lowered lowered(const std::vector<Value*>& outputs) { return Lowered(maker.give(outputs), GetParam()); }
  static Tensors call(int64_t rows, const at::Tensor& choice) { return {at::randn({rows, 3}), choice}; }
};

INSTANTIATE_TEST_SUITE_P(Backends, ControlFlow, ::testing::Values("xnnpack", "portable"),
                         [](const auto& info) { return std::string(info.param); });

// A subgraph of one call on a tensor like x.
GraphArgument one_call(const char* name, std::string_view target, std::vector<Argument> more = {}) {
  GraphMaker branch;
  Value* in = branch.input({rows(), 3});
  std::vector<Argument> args = {in};
  args.insert(args.end(), more.begin(), more.end());
  return branch.finish(name, {branch.call(target, std::move(args), {rows(), 3})});
}

// ── cond ──

TEST_P(ControlFlow, RunsTheBranchThatIsChosen) {
  Value* choice = maker.user_input({}, at::kBool);
  const auto result = maker.control_flow(
      "higher_order.cond",
      {choice, one_call("first", "aten.silu.default"), one_call("second", "aten.mul.Tensor", {2.0}), List{x}},
      {like_x()});
  lowered({result[0]}).expect_as_eager_and_in_python({call(1, flag(true)), call(16, flag(false)), call(5, flag(true))});
}

// The result is written after the operand was read, and both are read afterwards.
TEST_P(ControlFlow, ABranchMayGiveItsOperand) {
  Value* choice = maker.user_input({}, at::kBool);
  GraphMaker first;
  Value* in = first.input({rows(), 3});
  const auto result = maker.control_flow(
      "higher_order.cond",
      {choice, first.finish("first", {in}), one_call("second", "aten.cumsum.default", {0}), List{x}}, {like_x()});
  Value* sums = maker.call("aten.cumsum.default", {result[0], 1}, {rows(), 3});
  Value* all = maker.call("aten.sub.Tensor", {sums, x}, {rows(), 3});
  lowered({result[0], all})
      .expect_as_eager_and_in_python({call(16, flag(false)), call(16, flag(true)), call(1, flag(false))});
}

TEST_P(ControlFlow, ABranchMayGiveOneTensorTwice) {
  Value* choice = maker.user_input({}, at::kBool);
  GraphMaker first;
  Value* in = first.input({rows(), 3});
  Value* sine = first.call("aten.sin.default", {in}, {rows(), 3});
  GraphMaker second;
  Value* other = second.input({rows(), 3});
  Value* double_of_it = second.call("aten.add.Tensor", {other, other}, {rows(), 3});
  const auto result = maker.control_flow(
      "higher_order.cond",
      {choice, first.finish("first", {sine, sine}), second.finish("second", {double_of_it, other}), List{x}},
      {like_x(), like_x()});
  Value* sums = maker.call("aten.cumsum.default", {result[0], 0}, {rows(), 3});
  lowered({sums, result[0], result[1]})
      .expect_as_eager_and_in_python({call(7, flag(true)), call(16, flag(false)), call(2, flag(true))});
}

// A view inside, one that is given, and the same constant for both branches.
TEST_P(ControlFlow, ViewsInBranches) {
  Value* choice = maker.user_input({}, at::kBool);
  GraphMaker first;
  Value* in = first.input({4, 3});
  Value* turned = first.call("aten.permute.default", {in, List{1, 0}}, {3, 4});
  Value* flat =
      first.call("aten.cumsum.default", {first.call("aten.reshape.default", {turned, List{12}}, {12}), 0}, {12});
  GraphMaker second;
  Value* other = second.input({4, 3});
  const auto result = maker.control_flow(
      "higher_order.cond",
      {choice, first.finish("first", {flat}),
       second.finish("second", {second.call("aten.view.default", {other, List{12}}, {12})}),
       List{maker.call("aten.slice.Tensor",
                       {maker.call("aten.cat.default", {List{x, x, x, x}, 0}, {rows() * 4, 3}), 0, 0, 4}, {4, 3})}},
      {meta_of({12}, at::kFloat)});
  lowered({result[0]}).expect_as_eager_and_in_python({call(7, flag(true)), call(16, flag(false))});
}

TEST_P(ControlFlow, CondInsideOfCond) {
  Value* choice = maker.user_input({}, at::kBool);
  Value* inner_choice = maker.user_input({}, at::kBool);
  GraphMaker first;
  Value* in = first.input({rows(), 3});
  Value* chooses = first.input({}, at::kBool);
  Value* before = first.call("aten.exp.default", {in}, {rows(), 3});
  const auto inner = first.control_flow("higher_order.cond",
                                        {chooses, one_call("inner_first", "aten.cos.default"),
                                         one_call("inner_second", "aten.cumsum.default", {1}), List{before}},
                                        {like_x()});
  Value* after = first.call("aten.add.Tensor", {inner[0], before}, {rows(), 3});
  GraphMaker second;
  Value* other = second.input({rows(), 3});
  second.input({}, at::kBool);
  const auto result = maker.control_flow(
      "higher_order.cond",
      {choice, first.finish("first", {after}), second.finish("second", {other}), List{x, inner_choice}}, {like_x()});
  Lowered program = lowered({result[0]});
  for (const bool outer : {true, false}) {
    for (const bool inner_flag : {true, false}) {
      program.expect_as_eager_and_in_python({{at::randn({9, 3}), flag(outer), flag(inner_flag)}});
    }
  }
}

TEST_P(ControlFlow, SizesChooseToo) {
  Value* size = maker.sym_call("aten.sym_size.int", {x, 0}, rows());
  Value* is_long = maker.truth("_operator.gt", {size, 3});
  const auto result = maker.control_flow(
      "higher_order.cond",
      {is_long, one_call("first", "aten.neg.default"), one_call("second", "aten.exp.default"), List{x}}, {like_x()});
  lowered({result[0]}).expect_as_eager_and_in_python({{at::randn({3, 3})}, {at::randn({4, 3})}, {at::randn({16, 3})}});
}

// The result is as long as either branch can make it, and what follows has room for that.
TEST_P(ControlFlow, BranchesOfDifferentSizes) {
  Value* choice = maker.user_input({}, at::kBool);
  maker.program->range_constraints["u0"] = {0, Range::kMax};
  const Expr merged = Symbol("u0");
  GraphMaker first;
  Value* in = first.input({rows(), 3});
  GraphMaker second;
  Value* other = second.input({rows(), 3});
  Value* joined = second.call("aten.cat.default", {List{other, other}, 0}, {rows() * 2, 3});
  const auto result = maker.control_flow(
      "higher_order.cond", {choice, first.finish("first", {in}), second.finish("second", {joined}), List{x}},
      {meta_of({merged, 3}, at::kFloat)});
  Value* sums = maker.call("aten.cumsum.default", {result[0], 0}, {merged, 3});
  Lowered program = lowered({result[0], sums});
  EXPECT_EQ(program.method().tensor(program.method().outputs[1])->sizes, (std::vector<int32_t>{32, 3}));
  program.expect_as_eager_and_in_python({call(16, flag(false)), call(16, flag(true)), call(1, flag(false))});
}

// ── Weights, constants and delegates of branches ──

TEST_P(ControlFlow, BranchesHaveDelegatesOfTheirOwn) {
  const at::Tensor weight = at::randn({5, 3});
  const at::Tensor bias = at::randn({5});
  Value* choice = maker.user_input({}, at::kBool);
  Value* w = maker.parameter("weight", weight);
  Value* b = maker.parameter("bias", bias);
  const auto branch = [](const char* name, const char* activation) {
    GraphMaker made;
    Value* in = made.input({rows(), 3});
    Value* filter = made.input({5, 3});
    Value* offset = made.input({5});
    Value* linear = made.call("aten.linear.default", {in, filter, offset}, {rows(), 5});
    return made.finish(name, {made.call(activation, {linear}, {rows(), 5})});
  };
  const auto result = maker.control_flow(
      "higher_order.cond",
      {choice, branch("first", "aten.relu.default"), branch("second", "aten.sigmoid.default"), List{x, w, b}},
      {meta_of({rows(), 5}, at::kFloat)});
  Lowered program = lowered({result[0]});
  const bool has_delegates = std::string(GetParam()) == "xnnpack";
  EXPECT_EQ(program.count("XnnpackBackend"), has_delegates ? 2 : 0);
  EXPECT_EQ(program.count("aten::linear.out"), has_delegates ? 0 : 2);
  EXPECT_EQ(program.facts().delegated_calls, has_delegates ? 4 : 0);
  if (has_delegates) {
    EXPECT_THAT(program.facts().outside, Contains(AllOf(Field(&OutsideDelegates::op, "higher_order.cond"),
                                                        Field(&OutsideDelegates::reason, HasSubstr("jumps")))));
  }
  program.expect_as_eager_and_in_python({call(1, flag(true)), call(16, flag(false)), call(4, flag(true))});
}

// exp of a constant of the program, and of one that the branch makes.
TEST_P(ControlFlow, WhatABranchKnowsIsComputedAtTheExport) {
  Value* choice = maker.user_input({}, at::kBool);
  Value* table = maker.parameter("table", at::randn({3}));
  GraphMaker first;
  Value* in = first.input({rows(), 3});
  Value* row = first.input({3});
  Value* made = first.call("aten.full.default", {List{3}, 0.5}, {3});
  Value* known =
      first.call("aten.add.Tensor",
                 {first.call("aten.exp.default", {row}, {3}), first.call("aten.exp.default", {made}, {3})}, {3});
  Value* sum = first.call("aten.add.Tensor", {in, known}, {rows(), 3});
  GraphMaker second;
  Value* other = second.input({rows(), 3});
  second.input({3});
  const auto result = maker.control_flow(
      "higher_order.cond", {choice, first.finish("first", {sum}), second.finish("second", {other}), List{x, table}},
      {like_x()});
  Lowered program = lowered({result[0]});
  EXPECT_EQ(program.count("aten::exp.out"), 0);
  program.expect_as_eager_and_in_python({call(3, flag(true)), call(3, flag(false))});
}

// ── while_loop ──

// i < times
GraphArgument counts_to(size_t carried) {
  GraphMaker condition;
  Value* i = condition.input({}, at::kLong);
  for (size_t n = 1; n < carried; ++n) {
    condition.input({rows(), 3});
  }
  Value* times = condition.input({}, at::kLong);
  return condition.finish("condition", {condition.call("aten.lt.Tensor", {i, times}, {}, at::kBool)});
}

struct Body : GraphMaker {
  explicit Body(size_t carried) {
    i = input({}, at::kLong);
    for (size_t n = 1; n < carried; ++n) {
      values.push_back(input({rows(), 3}));
    }
    input({}, at::kLong);
  }
  Value* next() { return call("aten.add.Tensor", {i, 1}, {}, at::kLong); }

  Value* i;
  std::vector<Value*> values;
};

struct Loops : ControlFlow {
  Value* times = maker.user_input({}, at::kLong);
  Value* start = maker.call("aten.full.default", {List{}, 0}, {}, at::kLong, {{"dtype", at::kLong}});

  std::vector<Value*> loop(const GraphArgument& body, const std::vector<Value*>& carried) {
    List begins = {start};
    begins.insert(begins.end(), carried.begin(), carried.end());
    std::vector<TensorMeta> results = {meta_of({}, at::kLong)};
    results.resize(begins.size(), like_x());
    return maker.control_flow("higher_order.while_loop",
                              {counts_to(begins.size()), body, Argument(std::move(begins)), List{times}}, results);
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Loops, ::testing::Values("xnnpack", "portable"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Loops, RunAsOftenAsTheirConditionHolds) {
  Body body(2);
  Value* grown = body.call("aten.mul.Tensor", {body.values[0], 1.5}, {rows(), 3});
  Value* sum = body.call("aten.add.Tensor", {grown, body.i}, {rows(), 3});
  const auto result = loop(body.finish("body", {body.next(), sum}), {x});
  Value* after = maker.call("aten.sub.Tensor", {result[1], x}, {rows(), 3});
  lowered({result[0], result[1], after})
      .expect_as_eager_and_in_python(
          {call(4, count_of(0)), call(16, count_of(1)), call(1, count_of(7)), call(5, count_of(0))});
}

// a, b = b, a + b
TEST_P(Loops, MayExchangeWhatTheyCarry) {
  Body body(3);
  Value* sum = body.call("aten.add.Tensor", {body.values[0], body.values[1]}, {rows(), 3});
  const auto result = loop(body.finish("body", {body.next(), body.values[1], sum}),
                           {x, maker.call("aten.cos.default", {x}, {rows(), 3})});
  lowered({result[1], result[2]})
      .expect_as_eager_and_in_python({call(4, count_of(0)), call(3, count_of(1)), call(16, count_of(6))});
}

TEST_P(Loops, MayOnlyExchangeWhatTheyCarry) {
  Body body(3);
  const auto result = loop(body.finish("body", {body.next(), body.values[1], body.values[0]}),
                           {x, maker.call("aten.cos.default", {x}, {rows(), 3})});
  lowered({result[1], result[2]}).expect_as_eager_and_in_python({call(4, count_of(2)), call(3, count_of(3))});
}

// Both begin as one tensor, which is read afterwards.
TEST_P(Loops, MayCarryOneTensorTwice) {
  Body body(3);
  Value* sum = body.call("aten.cumsum.default", {body.values[0], 0}, {rows(), 3});
  const auto result = loop(body.finish("body", {body.next(), sum, body.values[1]}), {x, x});
  Value* after = maker.call("aten.mul.Tensor", {result[1], x}, {rows(), 3});
  lowered({after, result[2]}).expect_as_eager_and_in_python({call(4, count_of(3)), call(16, count_of(0))});
}

// The body reads it at its beginning, and then needs memory of the same size a few times over.
TEST_P(Loops, WhatTheyReadIsThereInEveryRound) {
  Value* table = maker.call("aten.cumsum.default", {x, 0}, {rows(), 3});
  GraphMaker condition;
  Value* i = condition.input({}, at::kLong);
  condition.input({rows(), 3});
  Value* most = condition.input({}, at::kLong);
  condition.input({rows(), 3});
  const GraphArgument goes_on =
      condition.finish("condition", {condition.call("aten.lt.Tensor", {i, most}, {}, at::kBool)});
  Body body(2);
  Value* read = body.input({rows(), 3});
  Value* sum = body.call("aten.add.Tensor", {body.values[0], read}, {rows(), 3});
  for (const int axis : {0, 1, 0, 1}) {
    sum = body.call("aten.cumsum.default", {sum, axis}, {rows(), 3});
  }
  Value* small = body.call("aten.mul.Tensor", {sum, 0.01}, {rows(), 3});
  const auto result =
      maker.control_flow("higher_order.while_loop",
                         {goes_on, body.finish("body", {body.next(), small}), List{start, x}, List{times, table}},
                         {meta_of({}, at::kLong), like_x()});
  lowered({result[1]}).expect_as_eager_and_in_python({call(4, count_of(4)), call(16, count_of(2))});
}

TEST_P(Loops, ABranchInTheBody) {
  Body body(2);
  Value* is_even =
      body.call("aten.eq.Scalar", {body.call("aten.remainder.Scalar", {body.i, 2}, {}, at::kLong), 0}, {}, at::kBool);
  const auto chosen = body.control_flow("higher_order.cond",
                                        {is_even, one_call("even", "aten.add.Tensor", {1.0}),
                                         one_call("odd", "aten.mul.Tensor", {0.5}), List{body.values[0]}},
                                        {like_x()});
  const auto result = loop(body.finish("body", {body.next(), chosen[0]}), {x});
  lowered({result[1]})
      .expect_as_eager_and_in_python({call(4, count_of(5)), call(16, count_of(0)), call(1, count_of(2))});
}

TEST_P(Loops, InsideOfALoop) {
  GraphMaker inner_condition;
  Value* j = inner_condition.input({}, at::kLong);
  inner_condition.input({rows(), 3});
  Value* most = inner_condition.input({}, at::kLong);
  inner_condition.input({rows(), 3});
  GraphMaker inner_body;
  Value* at_j = inner_body.input({}, at::kLong);
  Value* value = inner_body.input({rows(), 3});
  inner_body.input({}, at::kLong);
  Value* added = inner_body.input({rows(), 3});
  Body body(2);
  Value* zero = body.call("aten.mul.Tensor", {body.i, 0}, {}, at::kLong);
  Value* base = body.call("aten.sin.default", {body.values[0]}, {rows(), 3});
  const auto inner = body.control_flow(
      "higher_order.while_loop",
      {inner_condition.finish("goes_on", {inner_condition.call("aten.lt.Tensor", {j, most}, {}, at::kBool)}),
       inner_body.finish("step", {inner_body.call("aten.add.Tensor", {at_j, 1}, {}, at::kLong),
                                  inner_body.call("aten.add.Tensor", {value, added}, {rows(), 3})}),
       List{zero, body.values[0]}, List{body.i, base}},
      {meta_of({}, at::kLong), like_x()});
  Value* next = body.call("aten.add.Tensor", {inner[1], base}, {rows(), 3});
  const auto result = loop(body.finish("body", {body.next(), next}), {x});
  lowered({result[1]}).expect_as_eager_and_in_python({call(4, count_of(4)), call(16, count_of(1))});
}

// Integers that are carried are values of the method, as sizes are.
TEST_P(ControlFlow, ALoopOverANumber) {
  for (const char* name : {"u1", "u2"}) {
    maker.program->range_constraints[name] = {0, 100};
  }
  const Expr inside = Symbol("u1");
  GraphMaker condition;
  Value* n = condition.number(inside);
  condition.input({rows(), 3});
  GraphMaker body;
  Value* m = body.number(inside);
  Value* in = body.input({rows(), 3});
  Value* next = body.sym_call("_operator.add", {m, 2}, inside + 2);
  Value* grown = body.call("aten.silu.default", {in}, {rows(), 3});
  Node* node = maker.graph->call("higher_order.while_loop",
                                 {condition.finish("condition", {condition.truth("_operator.lt", {n, 5})}),
                                  body.finish("body", {next, grown}), List{0, x}, List{}});
  Value* number = maker.graph->add_output(node, Value::Kind::kSymInt);
  number->sym() = Symbol("u2");
  Value* tensor = maker.graph->add_output(node);
  tensor->meta() = like_x();
  lowered({maker.call("aten.add.Tensor", {tensor, number}, {rows(), 3})})
      .expect_as_eager_and_in_python({{at::randn({3, 3})}, {at::randn({16, 3})}});
}

// ── Memory of the caller ──

TEST(ControlFlowMemory, OutputsMayBeTheCallers) {
  ProgramMaker maker;
  Value* x = maker.user_input({4, 3});
  Value* choice = maker.user_input({}, at::kBool);
  Value* twice = maker.call("aten.mul.Tensor", {x, 2.0}, {4, 3});
  GraphMaker first;
  Value* in = first.input({4, 3});
  Value* flat = first.call("aten.cumsum.default", {first.call("aten.view.default", {in, List{12}}, {12}), 0}, {12});
  GraphMaker second;
  Value* other = second.input({4, 3});
  Value* sums =
      second.call("aten.cumsum.default", {second.call("aten.view.default", {other, List{12}}, {12}), 0}, {12});
  const auto result =
      maker.control_flow("higher_order.cond",
                         {choice, first.finish("first", {flat}),
                          second.finish("second", {second.call("aten.neg.default", {sums}, {12})}), List{twice}},
                         {meta_of({12}, at::kFloat)});
  Value* shown = maker.call("aten.view.default", {result[0], List{3, 4}}, {3, 4});
  Lowered program(maker.give({twice, result[0], maker.call("aten.exp.default", {shown}, {3, 4})}), "portable",
                  /*plan_outputs=*/false);
  program.expect_as_eager({{at::randn({4, 3}), flag(true)}, {at::randn({4, 3}), flag(false)}});
}

// ── What cannot be done ──

struct RefusedControlFlow : ::testing::Test {
  ProgramMaker maker;
  Value* x = maker.user_input({rows(), 3});

  std::string refusal(Value* choice, const GraphArgument& second, const TensorMeta& result) {
    const auto results = maker.control_flow("higher_order.cond",
                                            {choice, one_call("first", "aten.exp.default"), second, List{x}}, {result});
    const auto program = maker.give({results[0]});
    return error_of([&] { lower(program, "portable"); });
  }
};

TEST_F(RefusedControlFlow, AConditionOfSeveralElements) {
  Value* flags = maker.user_input({2}, at::kBool);
  EXPECT_THAT(refusal(flags, one_call("second", "aten.neg.default"), x->meta()),
              AllOf(HasSubstr("higher_order.cond"), HasSubstr("one bool")));
}

TEST_F(RefusedControlFlow, BranchesOfDifferentDtypes) {
  Value* choice = maker.user_input({}, at::kBool);
  GraphMaker second;
  Value* in = second.input({rows(), 3});
  Value* signs = second.call("aten.gt.Scalar", {in, 0}, {rows(), 3}, at::kBool);
  EXPECT_THAT(refusal(choice, second.finish("second", {signs}), x->meta()),
              AllOf(HasSubstr("higher_order.cond"), HasSubstr("another dtype")));
}

TEST_F(RefusedControlFlow, OpsWithoutAKernelInBranches) {
  Value* choice = maker.user_input({}, at::kBool);
  EXPECT_THAT(refusal(choice, one_call("second", "aten.erfinv.default"), x->meta()), HasSubstr("aten.erfinv"));
}

TEST_F(RefusedControlFlow, SizesWithoutABound) {
  Value* choice = maker.user_input({}, at::kBool);
  maker.program->range_constraints["u0"] = {0, Range::kMax};
  maker.program->range_constraints["u1"] = {0, Range::kMax};
  const Expr found = Symbol("u1");
  GraphMaker second;
  Value* in = second.input({rows(), 3});
  Value* mask = second.call("aten.gt.Scalar", {in, 0}, {rows(), 3}, at::kBool);
  Value* indices = second.call("aten.nonzero.default", {mask}, {found, 2}, at::kLong);
  Value* picked = second.call("aten._to_copy.default", {indices}, {found, 2}, at::kFloat, {{"dtype", at::kFloat}});
  Value* wide = second.call("aten.cat.default", {List{picked, picked}, 1}, {found, 4});
  Value* three = second.call("aten.slice.Tensor", {wide, 1, 0, 3}, {found, 3});
  EXPECT_THAT(refusal(choice, second.finish("second", {three}), meta_of({Symbol("u0"), 3}, at::kFloat)),
              HasSubstr("no upper bound"));
}

TEST_F(RefusedControlFlow, OtherOpsOnSubgraphs) {
  GraphMaker body;
  Value* in = body.input({rows(), 3});
  const auto results =
      maker.control_flow("higher_order.map_impl", {body.finish("body", {in}), List{x}, List{}}, {x->meta()});
  const auto program = maker.give({results[0]});
  EXPECT_THAT(error_of([&] { lower(program, "portable"); }),
              AllOf(HasSubstr("higher_order.map_impl"), HasSubstr("higher_order.while_loop")));
}

// Files may hold loops that do not end: the runtime counts instructions.
TEST(EndlessLoop, IsEndedByTheRuntime) {
  ProgramBuilder builder;
  builder.output(builder.input(at::kFloat, {1}));
  Method& method = builder.method();
  method.instructions.emplace_back(JumpFalseCall{method.add(false), 0});
  method.memory_sizes = {0, 16};
  std::get<TensorValue>(method.values[0]).allocation = Allocation{};
  const auto file = scratch_folder() / "endless.pte";
  save_program(builder.program, file);
  EXPECT_THAT(error_of([&] { ExecutorchRunner(file).run(std::vector<at::Tensor>{at::zeros({1})}); }),
              HasSubstr("limit"));
}

// Not of a branch, but of numbers that only a program made by hand has: C++'s own remainder has the other sign.
TEST_P(ControlFlow, RemaindersOfSizesHaveTheSignOfTheDivisor) {
  Value* size = maker.sym_call("aten.sym_size.int", {x, 0}, rows());
  Value* below = maker.sym_call("_operator.sub", {size, 20}, rows() - 20);
  std::vector<Value*> results;
  const auto keep = [&](Value* dividend, int64_t divisor) {
    Value* rest = maker.sym_call("_operator.mod", {dividend, divisor}, mod(dividend->sym(), divisor));
    results.push_back(maker.call("aten.full.default", {List{}, rest}, {}, at::kLong, {{"dtype", at::kLong}}));
  };
  keep(below, 3);
  keep(below, -3);
  keep(size, 7);
  lowered(results).expect_as_eager(
      {{at::randn({1, 3})}, {at::randn({4, 3})}, {at::randn({14, 3})}, {at::randn({16, 3})}});
}

}  // namespace
}  // namespace exporters::executorch
