#include "exporters/interpreter/interpreter.h"

#include "exporters/support/error.h"
#include "tests/graph/metadata.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Kind = Value::Kind;

struct SizesTest : testing::Test {
  std::shared_ptr<ExportedProgram> program = std::make_shared<ExportedProgram>();
  Graph& graph = *program->graph;
  const Expr s0 = Symbol("s0");
  const Expr s1 = Symbol("s1");

  SizesTest() {
    program->range_constraints["s0"] = {1, 8};
    program->range_constraints["s1"] = {0, 100};
  }
  Value* input(std::string_view name, std::vector<Expr> sizes) {
    Value* value = graph.add_placeholder(name);
    value->meta() = meta_of(std::vector<int64_t>(sizes.size(), 1));
    value->meta().sizes = std::move(sizes);
    program->signature.inputs.push_back({InputSpec::Kind::kUserInput, value->name(), "", true, {}});
    return value;
  }
  Value* sym(std::string_view target, std::vector<Argument> args, Kind kind = Kind::kSymInt) {
    return graph.add_output(graph.call(target, std::move(args)), kind);
  }
  Value* tensor(std::string_view target, std::vector<Argument> args, std::vector<Expr> sizes) {
    Value* value = graph.add_output(graph.call(target, std::move(args)));
    value->meta() = meta_of(std::vector<int64_t>(sizes.size(), 1));
    value->meta().sizes = std::move(sizes);
    return value;
  }
  void finish(std::vector<Value*> outputs) {
    std::vector<Argument> arguments(outputs.begin(), outputs.end());
    for (Value* output : outputs) {
      program->signature.outputs.push_back({OutputSpec::Kind::kUserOutput, output, ""});
    }
    graph.set_outputs(std::move(arguments));
    program->out_spec = TreeSpec::tuple(std::vector<TreeSpec>(outputs.size()));
  }
  std::string error(std::vector<at::Tensor> inputs) {
    try {
      Interpreter(program).run(inputs);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
};

TEST_F(SizesTest, RangeIsCheckedAtBothEnds) {
  finish({input("x", {s0, 3})});
  EXPECT_EQ(error({at::zeros({1, 3})}), "no error");
  EXPECT_EQ(error({at::zeros({8, 3})}), "no error");
  EXPECT_THAT(error({at::zeros({9, 3})}), AllOf(HasSubstr("'x' axis 0"), HasSubstr("s0 = 9"), HasSubstr("[1, 8]")));
  EXPECT_THAT(error({at::zeros({0, 3})}), AllOf(HasSubstr("'x' axis 0"), HasSubstr("s0 = 0")));
}

TEST_F(SizesTest, FixedSizesRanksAndDtypesAreChecked) {
  finish({input("x", {s0, 3})});
  EXPECT_THAT(error({at::zeros({2, 4})}), AllOf(HasSubstr("'x' axis 1 is 4"), HasSubstr("3 only")));
  EXPECT_THAT(error({at::zeros({2})}), AllOf(HasSubstr("'x' has 1 axes"), HasSubstr("takes 2")));
  EXPECT_THAT(error({at::zeros({2, 3}, at::kLong)}), AllOf(HasSubstr("'x' is Long"), HasSubstr("float32")));
  EXPECT_THAT(error({at::Tensor()}), HasSubstr("'x'"));
  EXPECT_THAT(error({}), AllOf(HasSubstr("takes 1 inputs (x)"), HasSubstr("given 0")));
}

TEST_F(SizesTest, SharedSymbolHasToBeOneSize) {
  Value* x = input("x", {s0});
  Value* y = input("y", {s1, s0});
  finish({x, y});
  EXPECT_EQ(error({at::zeros({2}), at::zeros({5, 2})}), "no error");
  EXPECT_THAT(error({at::zeros({2}), at::zeros({5, 3})}),
              AllOf(HasSubstr("'y' axis 1 is 3"), HasSubstr("'x' axis 0 it is 2")));
}

TEST_F(SizesTest, LinearExpressionsAreSolvedAndCheckedAgainstTheRange) {
  finish({input("x", {2 * s0 + 1})});
  EXPECT_EQ(error({at::zeros({7})}), "no error");
  EXPECT_THAT(error({at::zeros({8})}), AllOf(HasSubstr("'x' axis 0 is 8"), HasSubstr("2*s0 + 1")));
  EXPECT_THAT(error({at::zeros({19})}), AllOf(HasSubstr("s0 = 9"), HasSubstr("[1, 8]")));
}

TEST_F(SizesTest, ExpressionsOfKnownSymbolsAreCheckedWhateverTheOrder) {
  Value* x = input("x", {s0 * s1, s0 + s1});
  Value* y = input("y", {s0});
  finish({x, y});
  EXPECT_EQ(error({at::zeros({6, 5}), at::zeros({2})}), "no error");
  EXPECT_THAT(error({at::zeros({6, 4}), at::zeros({2})}), AllOf(HasSubstr("'x' axis 1 is 4"), HasSubstr("5")));
}

TEST_F(SizesTest, UndeterminedSymbolsAreRefused) {
  finish({input("x", {floordiv(s0, 2)})});
  EXPECT_THAT(error({at::zeros({3})}), AllOf(HasSubstr("'x' axis 0"), HasSubstr("s0//2")));
}

TEST_F(SizesTest, GuardsAreCheckedWithTheirPlace) {
  finish({input("x", {s0}), input("y", {s1})});
  program->guards.push_back({le(s0, s1), {"encoder", "", "", "models/x.cpp:12"}});
  EXPECT_EQ(error({at::zeros({2}), at::zeros({2})}), "no error");
  EXPECT_THAT(error({at::zeros({3}), at::zeros({2})}),
              AllOf(HasSubstr("s0 = 3 (input 'x' axis 0)"), HasSubstr("s1 = 2 (input 'y' axis 0)"),
                    HasSubstr("encoder"), HasSubstr("models/x.cpp:12")));
}

TEST_F(SizesTest, SizesAreComputedAsInPython) {
  Value* x = input("x", {s0, s1});
  Value* n = sym("aten.sym_size.int", {x, 0});
  Value* m = sym("aten.sym_size.int", {x, -1});
  Value* half = sym("_operator.floordiv", {sym("_operator.sub", {n, m}), 2});
  Value* rest = sym("_operator.mod", {sym("_operator.sub", {n, m}), 3});
  Value* ratio = sym("_operator.truediv", {n, m}, Kind::kSymFloat);
  Value* trunc = sym("math.trunc", {sym("_operator.mul", {ratio, 10}, Kind::kSymFloat)});
  Value* bigger = sym("torch.sym_max", {n, m});
  Value* less = sym("_operator.lt", {n, m}, Kind::kSymBool);
  Value* flat = tensor("aten.view.default", {x, Argument::List{sym("_operator.mul", {n, m})}}, {s0 * s1});
  finish({half, rest, ratio, trunc, bigger, less, flat});
  const auto result = Interpreter(program).run(std::vector{at::zeros({2, 7})});
  EXPECT_EQ(std::get<int64_t>(result[0]), -3);  // (2 - 7) // 2
  EXPECT_EQ(std::get<int64_t>(result[1]), 1);   // (2 - 7) % 3
  EXPECT_EQ(std::get<double>(result[2]), 2.0 / 7.0);
  EXPECT_EQ(std::get<int64_t>(result[3]), 2);  // trunc(2.857)
  EXPECT_EQ(std::get<int64_t>(result[4]), 7);
  EXPECT_EQ(std::get<bool>(result[5]), true);
  EXPECT_EQ(std::get<at::Tensor>(result[6]).size(0), 14);
}

TEST_F(SizesTest, OverflowAndDivisionByZeroAreErrors) {
  Value* x = input("x", {s0, s1});
  Value* m = sym("aten.sym_size.int", {x, 1});
  finish({sym("_operator.floordiv", {8, m})});
  EXPECT_EQ(error({at::zeros({1, 2})}), "no error");
  EXPECT_THAT(error({at::zeros({1, 0})}), AllOf(HasSubstr("'floordiv'"), HasSubstr("divided by zero")));
}

TEST_F(SizesTest, ProductThatDoesNotFitIsAnError) {
  Value* n = sym("aten.sym_size.int", {input("x", {s0}), 0});
  finish({sym("_operator.mul", {n, int64_t{1} << 62})});
  EXPECT_EQ(error({at::zeros({1})}), "no error");
  EXPECT_THAT(error({at::zeros({2})}), AllOf(HasSubstr("'mul'"), HasSubstr("64 bits")));
}

TEST_F(SizesTest, ShiftsRoundDownAndDoNotOverflow) {
  Value* n = sym("aten.sym_size.int", {input("x", {s0}), 0});
  finish({sym("_operator.lshift", {n, 3}), sym("_operator.rshift", {sym("_operator.sub", {2, n}), 1}),
          sym("_operator.rshift", {n, 80})});
  const auto result = Interpreter(program).run(std::vector{at::zeros({5})});
  EXPECT_EQ(std::get<int64_t>(result[0]), 40);
  EXPECT_EQ(std::get<int64_t>(result[1]), -2);
  EXPECT_EQ(std::get<int64_t>(result[2]), 0);
  EXPECT_THAT(error({at::zeros({9})}), HasSubstr("s0 = 9"));
}

TEST_F(SizesTest, AShiftThatDoesNotFitIsAnError) {
  Value* n = sym("aten.sym_size.int", {input("x", {s0}), 0});
  finish({sym("_operator.lshift", {n, 62})});
  EXPECT_THAT(error({at::zeros({2})}), HasSubstr("64 bits"));
}

TEST_F(SizesTest, SizesThatDependOnDataAreCheckedWhereTheyArise) {
  const Expr u0 = Symbol("u0");
  program->range_constraints["u0"] = {1, 3};
  Value* x = input("x", {s0});
  Value* found = tensor("aten.nonzero.default", {x}, {u0, 1});
  finish({found});
  program->guards.push_back({ne(u0, 2), {}});
  EXPECT_EQ(error({at::ones({3})}), "no error");
  EXPECT_THAT(error({at::zeros({3})}), AllOf(HasSubstr("'nonzero'"), HasSubstr("u0 = 0"), HasSubstr("[1, 3]")));
  EXPECT_THAT(error({at::ones({2})}), AllOf(HasSubstr("'nonzero'"), HasSubstr("Ne(u0, 2)")));
}

TEST_F(SizesTest, OtherNumberOfChunksThanTracedIsAnError) {
  Value* x = input("x", {s0});
  Node* split = graph.call("aten.split.Tensor", {x, 2});
  Value* list = graph.add_output(split, Kind::kTensorList);
  for (int i = 0; i < 2; ++i) {
    graph.add_element(list)->meta() = meta_of({2});
  }
  finish({list->elements()[1]});
  EXPECT_EQ(error({at::zeros({4})}), "no error");
  EXPECT_THAT(error({at::zeros({6})}), AllOf(HasSubstr("'split'"), HasSubstr("3 tensors"), HasSubstr("with 2")));
}

TEST_F(SizesTest, IntegerInputsBindTheirSymbol) {
  Value* n = graph.add_placeholder("n", Kind::kSymInt);
  n->sym() = s0;
  program->signature.inputs.push_back({InputSpec::Kind::kUserInput, "n", "", true, {}});
  finish({sym("_operator.mul", {n, 2})});
  const auto result = Interpreter(program).run(std::vector{at::scalar_tensor(3, at::kLong)});
  EXPECT_EQ(std::get<int64_t>(result[0]), 6);
  EXPECT_THAT(error({at::scalar_tensor(9, at::kLong)}), AllOf(HasSubstr("input 'n'"), HasSubstr("s0 = 9")));
  EXPECT_THAT(error({at::zeros({2})}), HasSubstr("'n' is an integer"));
}

}  // namespace
}  // namespace exporters
