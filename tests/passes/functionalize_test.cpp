#include "exporters/passes/functionalize.h"

#include "exporters/passes/emit.h"

#include "exporters/interpreter/interpreter.h"
#include "exporters/passes/op_facts.h"
#include "exporters/support/error.h"
#include "tests/graph/metadata.h"
#include "tests/interpreter/graph_builder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace exporters {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using List = Argument::List;

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && at::equal(a, b);
}

int64_t count(const Graph& graph, std::string_view target) {
  int64_t found = 0;
  for (const Node& node : graph) {
    found += node.is_call(target) ? 1 : 0;
  }
  return found;
}

// The builder runs each op on real tensors as it is called, in-place ops too: what a program has to give, and leave in
// its inputs and buffers, is known before the pass.
struct FunctionalizeTest : testing::Test {
  GraphBuilder builder;
  std::shared_ptr<ExportedProgram> program;

  Value* input(std::string_view name, at::IntArrayRef sizes) { return builder.input(name, at::randn(sizes)); }

  void check(std::vector<Value*> outputs, const std::vector<Value*>& written = {}) {
    std::map<std::string, at::Tensor> state_before;
    for (const auto& [name, state] : builder.program().state) {
      state_before[name] = state.tensor.clone();
    }
    program = builder.finish(std::move(outputs));
    verify(*program);
    expect_results("before the pass", written);
    for (const auto& [name, tensor] : state_before) {
      program->state[name].tensor.copy_(tensor);
    }
    functionalize(*program);
    SCOPED_TRACE(program->str());
    ASSERT_NO_THROW(verify(*program));
    EXPECT_TRUE(is_functional(*program->graph));
    expect_results("after the pass", written);
  }

  void expect_results(const char* when, const std::vector<Value*>& written) {
    SCOPED_TRACE(when);
    std::vector<at::Tensor> inputs = builder.fresh_inputs();
    const auto results = Interpreter(program).run(inputs);
    ASSERT_EQ(results.size(), builder.expected().size());
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(same(std::get<at::Tensor>(results[i]), builder.expected()[i])) << "output " << i;
    }
    for (Value* value : written) {
      const InputSpec& spec = *program->signature.find_input(value->name());
      if (spec.kind == InputSpec::Kind::kUserInput) {
        const std::vector<std::string> names = program->signature.user_inputs();
        const size_t i = std::find(names.begin(), names.end(), spec.name) - names.begin();
        EXPECT_TRUE(same(inputs[i], builder.tensor(value))) << spec.name;
      } else {
        EXPECT_TRUE(same(program->state.at(spec.target).tensor, builder.tensor(value))) << spec.name;
      }
    }
  }

  std::string refusal(std::vector<Value*> outputs) {
    try {
      functionalize(*builder.finish(std::move(outputs)));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(FunctionalizeTest, FunctionalProgramIsLeftAlone) {
  Value* x = input("x", {2, 3});
  program = builder.finish({builder.call("aten.add.Tensor", {x, 1})});
  const std::string before = program->str();
  functionalize(*program);
  EXPECT_EQ(program->str(), before);
}

TEST_F(FunctionalizeTest, InPlaceOpOnAFreshTensor) {
  Value* x = input("x", {2, 3});
  Value* y = builder.call("aten.sin.default", {x});
  Value* z = builder.call("aten.add_.Tensor", {y, x}, {{"alpha", 2}});
  builder.call("aten.clamp_.default", {z, -1.0, 1.0});
  check({y, z, builder.call("aten.mul.Tensor", {y, z})});
  EXPECT_EQ(program->signature.outputs.size(), 3u);
}

TEST_F(FunctionalizeTest, InPlaceOpOnAnInputBecomesAnOutputOfTheSignature) {
  Value* x = input("x", {2, 3});
  Value* y = input("y", {2, 3});
  builder.call("aten.mul_.Tensor", {y, x});
  check({builder.call("aten.add.Tensor", {y, 1})}, {y});
  ASSERT_EQ(program->signature.outputs.size(), 2u);
  EXPECT_EQ(program->signature.outputs[0].kind, OutputSpec::Kind::kUserInputMutation);
  EXPECT_EQ(program->signature.outputs[0].target, "y");
  EXPECT_EQ(program->signature.outputs[1].kind, OutputSpec::Kind::kUserOutput);
}

TEST_F(FunctionalizeTest, BufferMutationsComeBeforeInputMutations) {
  Value* steps = builder.buffer("steps", at::zeros({}, at::kLong));
  Value* cache = builder.buffer("cache", at::zeros({4, 2}));
  Value* x = input("x", {2});
  builder.call("aten.add_.Tensor", {steps, 1});
  Value* row = builder.call("aten.select.int", {cache, 0, 2});
  builder.call("aten.copy_.default", {row, x});
  builder.call("aten.neg_.default", {x});
  check({builder.call("aten.sum.default", {cache})}, {steps, cache, x});
  std::vector<std::string> targets;
  for (const OutputSpec& spec : program->signature.outputs) {
    targets.push_back(spec.target);
  }
  EXPECT_THAT(targets, ElementsAre("steps", "cache", "x", ""));
  EXPECT_EQ(program->signature.outputs[0].kind, OutputSpec::Kind::kBufferMutation);
}

TEST_F(FunctionalizeTest, WriteThroughAViewOfAView) {
  Value* x = input("x", {4, 3, 5});
  Value* y = builder.call("aten.clone.default", {x});
  Value* rows = builder.call("aten.slice.Tensor", {y, 0, 1, 3});
  Value* turned = builder.call("aten.transpose.int", {rows, 1, 2});
  Value* one = builder.call("aten.select.int", {turned, 1, -2});
  builder.call("aten.add_.Tensor", {one, 10});
  check({y, rows, turned, one});
}

TEST_F(FunctionalizeTest, OverlappingSiblingsSeeEachOthersWrites) {
  Value* x = input("x", {6});
  Value* left = builder.call("aten.slice.Tensor", {x, 0, 0, 4});
  Value* right = builder.call("aten.slice.Tensor", {x, 0, 2, 6});
  builder.call("aten.mul_.Tensor", {left, 2});
  builder.call("aten.add_.Tensor", {right, builder.call("aten.exp.default", {left})});
  builder.call("aten.sub_.Tensor", {left, builder.call("aten.cos.default", {right})});
  check({left, right, x}, {x});
}

TEST_F(FunctionalizeTest, ViewTakenBeforeTheWriteIsReadAfterIt) {
  Value* x = input("x", {2, 3});
  Value* y = builder.call("aten.mul.Tensor", {x, 2});
  Value* flat = builder.call("aten.view.default", {y, List{6}});
  Value* before = builder.call("aten.exp.default", {flat});
  builder.call("aten.zero_.default", {y});
  check({before, flat, builder.call("aten.cos.default", {flat})});
}

TEST_F(FunctionalizeTest, ValueReadBeforeTheWriteKeepsItsValue) {
  Value* x = input("x", {3});
  Value* before = builder.call("aten.clone.default", {x});
  builder.call("aten.fill_.Scalar", {x, 7});
  check({before, x}, {x});
}

TEST_F(FunctionalizeTest, EveryViewWithAnInverseIsWrittenThrough) {
  struct Case {
    const char* target;
    std::vector<Argument> rest;
    std::vector<std::pair<std::string, Argument>> kwargs = {};
  };
  const std::vector<Case> cases = {
      {"aten.alias.default", {}},
      {"aten.detach.default", {}},
      {"aten.view.default", {Argument(List{6, 20})}},
      {"aten.view.default", {Argument(List{2, 3, -1})}},
      {"aten.reshape.default", {Argument(List{24, 5})}},
      {"aten._unsafe_view.default", {Argument(List{24, 5})}},
      {"aten.flatten.using_ints", {1, 2}},
      {"aten.unflatten.int", {2, List{2, 2}}},
      {"aten.ravel.default", {}},
      {"aten.squeeze.default", {}},
      {"aten.unsqueeze.default", {0}},
      {"aten.unsqueeze.default", {-1}},
      {"aten.unsqueeze.default", {-3}},
      {"aten.squeeze.dim", {1}},
      {"aten.squeeze.dims", {Argument(List{0, 1})}},
      {"aten.expand.default", {Argument(List{-1, 3, 4, -1})}},
      {"aten.select.int", {0, 1}},
      {"aten.select.int", {-1, -2}},
      {"aten.slice.Tensor", {2, 1, 9223372036854775807, 2}},
      {"aten.slice.Tensor", {-1, -3, -1}},
      {"aten.slice.Tensor", {0}},
      {"aten.slice.Tensor", {}, {{"dim", 1}, {"start", 1}}},
      {"aten.narrow.default", {1, 1, 2}},
      {"aten.narrow.default", {-1, -4, 2}},
      {"aten.transpose.int", {0, -1}},
      {"aten.swapaxes.default", {1, 2}},
      {"aten.permute.default", {Argument(List{2, 0, -1, 1})}},
      {"aten.movedim.int", {0, 2}},
      {"aten.movedim.intlist", {List{0, 1}, List{-1, 0}}},
      {"aten.numpy_T.default", {}},
      {"aten.mT.default", {}},
      {"aten.diagonal.default", {1, -2, -1}},
      {"aten.as_strided.default", {List{2, 3}, List{1, 7}, 4}},
      {"aten.view.dtype", {at::kInt}},
      {"aten.view_as_complex.default", {}},
      {"aten.contiguous.default", {}},
      {"aten.to.dtype", {at::kFloat}},
      {"aten.dropout.default", {0.5, false}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.target);
    builder = GraphBuilder();
    const bool is_complex = std::string_view(c.target).find("complex") != std::string_view::npos;
    Value* x = input("x", is_complex ? std::vector<int64_t>{2, 3, 2} : std::vector<int64_t>{2, 3, 4, 5});
    std::vector<Argument> args = {x};
    args.insert(args.end(), c.rest.begin(), c.rest.end());
    Value* view = builder.call(c.target, args, c.kwargs);
    ASSERT_TRUE(builder.tensor(view).is_alias_of(builder.tensor(x)));
    builder.call("aten.add_.Tensor", {view, 3});
    check({x, view}, {x});
  }
}

TEST_F(FunctionalizeTest, SqueezedAxisOfOneComesBack) {
  Value* x = input("x", {2, 1, 3});
  Value* view = builder.call("aten.squeeze.dim", {x, -2});
  builder.call("aten.mul_.Tensor", {view, 2});
  Value* all = builder.call("aten.squeeze.default", {x});
  builder.call("aten.mul_.Tensor", {all, 2});
  check({view, all}, {x});
}

TEST_F(FunctionalizeTest, EveryPieceOfASplitIsWrittenThrough) {
  struct Case {
    const char* target;
    std::vector<Argument> rest;
  };
  const std::vector<Case> cases = {
      {"aten.split.Tensor", {3, 1}},
      {"aten.split_with_sizes.default", {List{1, 4, 2}, -1}},
      {"aten.chunk.default", {3, 1}},
      {"aten.tensor_split.sections", {3, 1}},
      {"aten.tensor_split.indices", {List{2, 5}, 1}},
      {"aten.unbind.int", {0}},
      {"aten.hsplit.array", {Argument(List{2, 3})}},
      {"aten.vsplit.int", {2}},
      {"aten.unsafe_chunk.default", {2, 0}},
  };
  for (const Case& c : cases) {
    for (size_t piece = 0; piece < 2; ++piece) {
      SCOPED_TRACE(c.target);
      builder = GraphBuilder();
      Value* x = input("x", {4, 7});
      std::vector<Argument> args = {x};
      args.insert(args.end(), c.rest.begin(), c.rest.end());
      Value* pieces = builder.call(c.target, args);
      builder.call("aten.mul_.Tensor", {pieces->elements()[piece], -1});
      std::vector<Value*> outputs(pieces->elements());
      outputs.push_back(x);
      check(outputs, {x});
    }
  }
}

TEST_F(FunctionalizeTest, LastPieceAndThenAnotherOneAreWritten) {
  Value* x = input("x", {7, 2});
  Value* pieces = builder.call("aten.chunk.default", {x, 3});
  builder.call("aten.add_.Tensor", {pieces->elements()[2], 1});
  builder.call("aten.mul_.Tensor", {pieces->elements()[0], pieces->elements()[0]});
  Value* nested = builder.call("aten.unbind.int", {pieces->elements()[1], 1});
  builder.call("aten.exp_.default", {nested->elements()[1]});
  check({builder.call("aten.cat.default", {pieces}), nested->elements()[1], x}, {x});
}

TEST_F(FunctionalizeTest, ListTakenWholeAfterAWriteHasTheNewPieces) {
  Value* x = input("x", {4, 2});
  Value* y = builder.call("aten.clone.default", {x});
  Value* pieces = builder.call("aten.split.Tensor", {y, 1});
  builder.call("aten.zero_.default", {pieces->elements()[3]});
  check({builder.call("aten.stack.default", {pieces, 1})});
}

TEST_F(FunctionalizeTest, CopyCastsAndBroadcasts) {
  Value* half = builder.input("half", at::randn({3, 4}).to(at::kHalf));
  Value* row = input("row", {4});
  Value* whole = builder.input("whole", at::randn({3, 4}).to(at::kDouble));
  Value* column = builder.call("aten.select.int", {half, 1, 0});
  builder.call("aten.copy_.default", {half, row});
  builder.call("aten.copy_.default", {column, builder.call("aten.select.int", {whole, 1, 3})});
  builder.call("aten.copy_.default", {whole, half});
  check({half, column, whole}, {half, whole});
}

TEST_F(FunctionalizeTest, CopiedTensorDoesNotFollowItsSource) {
  Value* x = input("x", {3});
  Value* y = input("y", {3});
  builder.call("aten.copy_.default", {x, y});
  builder.call("aten.add_.Tensor", {y, 1});
  check({builder.call("aten.sub.Tensor", {x, y})}, {x, y});
}

TEST_F(FunctionalizeTest, TransposedSourceGivesATensorThatCanBeViewed) {
  Value* x = input("x", {3, 4});
  Value* y = input("y", {4, 3});
  builder.call("aten.copy_.default", {x, builder.call("aten.t.default", {y})});
  check({builder.call("aten.view.default", {x, List{12}})}, {x});
}

TEST_F(FunctionalizeTest, ResultKeepsTheDtypeOfTheWrittenTensor) {
  Value* half = builder.input("half", at::randn({2, 3}).to(at::kHalf));
  Value* x = input("x", {2, 3});
  Value* mask = builder.input("mask", at::arange(6).reshape({2, 3}));
  builder.call("aten.add_.Tensor", {half, x});
  builder.call("aten.gt_.Scalar", {x, 0});
  builder.call("aten.eq_.Tensor", {mask, x});
  check({half, x, mask}, {half, x, mask});
}

TEST_F(FunctionalizeTest, OpsThatTheirNamesDoNotLeadTo) {
  Value* x = builder.input("x", at::rand({2, 3}) + 1);
  Value* y = builder.input("y", at::rand({2, 3}) + 1);
  Value* flags = builder.input("flags", at::rand({2, 3}) > 0.5);
  Value* others = builder.input("others", at::rand({2, 3}) > 0.5);
  builder.call("aten.pow_.Scalar", {x, 2});
  builder.call("aten.pow_.Tensor", {x, y});
  builder.call("aten.floor_divide_.Tensor", {y, x});
  builder.call("aten.__iand__.Tensor", {flags, others});
  builder.call("aten.__ior__.Scalar", {others, true});
  builder.call("aten.fill_.Tensor",
               {builder.call("aten.select.int", {x, 0, 0}), builder.call("aten.sum.default", {y})});
  check({x, y, flags, others}, {x, y, flags, others});
}

TEST_F(FunctionalizeTest, IndexedWrites) {
  Value* x = input("x", {4, 3});
  Value* index = builder.input("index", at::tensor(std::vector<int64_t>{2, 0}));
  Value* rows = input("rows", {2, 3});
  Value* mask = builder.input("mask", at::randn({4, 3}) > 0);
  builder.call("aten.index_put_.default", {x, List{index}, rows});
  builder.call("aten.index_put_.default", {x, List{mask}, builder.call("aten.full.default", {List{}, 5.0}), true});
  builder.call("aten.masked_fill_.Scalar", {x, mask, -1.5});
  builder.call("aten.index_copy_.default", {x, 0, index, rows});
  builder.call("aten.index_add_.default",
               {builder.call("aten.t.default", {x}), 1, index, builder.call("aten.t.default", {rows})});
  check({x}, {x});
}

TEST_F(FunctionalizeTest, ShapeChangedInPlaceIsAViewFromThereOn) {
  Value* x = input("x", {2, 3});
  Value* y = builder.call("aten.clone.default", {x});
  Value* row = builder.call("aten.select.int", {y, 0, 1});
  Value* wide = builder.call("aten.unsqueeze_.default", {row, 0});
  builder.call("aten.mul_.Tensor", {row, 3});
  check({y, wide, row});
}

TEST_F(FunctionalizeTest, ReshapeThatCopiesIsNoView) {
  Value* x = input("x", {3, 4});
  Value* copy = builder.call("aten.reshape.default", {builder.call("aten.t.default", {x}), List{12}});
  builder.call("aten.add_.Tensor", {copy, 1});
  Value* view = builder.call("aten.reshape.default", {builder.call("aten.slice.Tensor", {x, 1, 1, 3}), List{3, 2, 1}});
  builder.call("aten.add_.Tensor", {view, 2});
  check({x, copy, view}, {x});
}

TEST_F(FunctionalizeTest, ConversionThatCopiesIsNoView) {
  Value* x = input("x", {3});
  builder.call("aten.add_.Tensor", {builder.call("aten.to.dtype", {x, at::kDouble}), 1});
  builder.call("aten.add_.Tensor", {builder.call("aten.to.dtype", {x, at::kFloat, false, true}), 1});
  builder.call("aten.add_.Tensor", {builder.call("aten.to.dtype", {x, at::kFloat}), 1});
  check({x}, {x});
}

TEST_F(FunctionalizeTest, ParameterMutationIsListed) {
  Value* weight = builder.parameter("weight", at::randn({3}).clone());
  const at::Tensor original = builder.tensor(weight).clone();
  program = builder.finish({weight});
  Value* grown = program->graph->add_output(program->graph->call("aten.add_.Tensor", {weight, 1}));
  grown->meta() = weight->meta();
  functionalize(*program);
  verify(*program);
  Interpreter(program).run({});
  EXPECT_EQ(program->signature.outputs[0].kind, OutputSpec::Kind::kParameterMutation);
  EXPECT_TRUE(at::equal(program->state.at("weight").tensor, original + 1));
}

TEST_F(FunctionalizeTest, PlacesOfTheInPlaceOpsAreKept) {
  Value* x = input("x", {2, 3});
  Value* row = builder.call("aten.select.int", {x, 0, 0});
  builder.call("aten.add_.Tensor", {row, 1})->node()->place() = {"decoder.3", "Layer", "", "models/x.cpp:7"};
  check({x}, {x});
  for (const Node& node : *program->graph) {
    if (node.is_call("aten.add.Tensor") || node.is_call("aten.select_scatter.default")) {
      EXPECT_EQ(node.place().module_path, "decoder.3") << node.describe();
    }
  }
  EXPECT_EQ(count(*program->graph, "aten.select_scatter.default"), 1);
}

TEST_F(FunctionalizeTest, NothingIsTakenAgainWithoutAReader) {
  Value* x = input("x", {4, 3});
  Value* y = builder.call("aten.clone.default", {x});
  for (int i = 0; i < 4; ++i) {
    builder.call("aten.add_.Tensor", {builder.call("aten.select.int", {y, 0, i}), i});
  }
  check({y});
  EXPECT_EQ(count(*program->graph, "aten.select.int"), 4);
  EXPECT_EQ(count(*program->graph, "aten.select_scatter.default"), 4);
}

TEST_F(FunctionalizeTest, LongChainsOfViewsAreFollowed) {
  Value* x = input("x", {2});
  Value* view = x;
  std::vector<Value*> views;
  for (int i = 0; i < 2000; ++i) {
    views.push_back(view = builder.call("aten.alias.default", {view}));
  }
  builder.call("aten.add_.Tensor", {x, 1});
  builder.call("aten.mul_.Tensor", {views[1000], 2});
  check({views.back()}, {x});
}

TEST_F(FunctionalizeTest, SymbolicSizesBecomeNodes) {
  auto symbolic = std::make_shared<ExportedProgram>();
  Graph& graph = *symbolic->graph;
  const Expr s0 = Symbol("s0");
  const Expr s1 = Symbol("s1");
  symbolic->range_constraints = {{"s0", {0, 100}}, {"s1", {0, 100}}};
  auto tensor = [&](Node* node, std::vector<Expr> sizes) {
    Value* value = graph.add_output(node);
    value->meta().sizes = sizes;
    value->meta().strides = sizes;
    value->meta() = contiguous_meta(value->meta());
    return value;
  };
  Value* x = graph.add_placeholder("x");
  x->meta().sizes = {s0, s1, 2};
  x->meta() = contiguous_meta(x->meta());
  Node* split = graph.call("aten.split.Tensor", {x, 1, 2});
  Value* list = graph.add_output(split, Value::Kind::kTensorList);
  for (int i = 0; i < 2; ++i) {
    Value* element = graph.add_element(list);
    element->meta() = x->meta();
    element->meta().sizes[2] = 1;
  }
  Value* n = graph.add_output(graph.call("aten.sym_size.int", {x, 0}), Value::Kind::kSymInt);
  n->sym() = s0;
  Value* flat = tensor(graph.call("aten.view.default", {x, List{n, -1}}), {s0, 2 * s1});
  Value* last = tensor(graph.call("aten.narrow.default", {flat, 0, -1, 1}), {1, 2 * s1});
  graph.add_output(graph.call("aten.add_.Tensor", {last, 1}))->meta() = last->meta();
  graph.add_output(graph.call("aten.mul_.Tensor", {list->elements()[1], 3}))->meta() = list->elements()[1]->meta();
  graph.set_outputs({flat});
  symbolic->signature.inputs = {{InputSpec::Kind::kUserInput, "x", "", true, {}}};
  symbolic->signature.outputs = {{OutputSpec::Kind::kUserOutput, flat, ""}};
  functionalize(*symbolic);
  SCOPED_TRACE(symbolic->str());
  verify(*symbolic);
  EXPECT_TRUE(is_functional(graph));
  const Interpreter interpreter(symbolic);
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{3, 4, 2}, {1, 1, 2}, {5, 2, 2}}) {
    at::Tensor given = at::randn(sizes);
    at::Tensor expected = given.clone();
    expected.view({sizes[0], -1}).narrow(0, -1, 1).add_(1);
    expected.split(1, 2)[1].mul_(3);
    const auto result = interpreter.run(std::vector{given});
    EXPECT_TRUE(at::equal(std::get<at::Tensor>(result[0]), expected.view({sizes[0], -1})));
    EXPECT_TRUE(at::equal(given, expected));
  }
}

TEST_F(FunctionalizeTest, OutVariantsBecomeTheirResults) {
  Value* x = input("x", {3, 4});
  Value* whole = builder.call("aten.clone.default", {x});
  builder.call("aten.mul.out", {x, 2}, {{"out", whole}});
  Value* rows = builder.call("aten.zeros.default", {Argument(List{2, 3, 4})});
  Value* row = builder.call("aten.select.int", {rows, 0, 1});
  builder.call("aten.add.out", {row, x}, {{"alpha", 3}, {"out", row}});
  check({whole, rows, row, builder.call("aten.exp.default", {row})});
  EXPECT_EQ(count(*program->graph, "aten.mul.Tensor"), 1);
  EXPECT_EQ(count(*program->graph, "aten.add.Tensor"), 1);
}

TEST_F(FunctionalizeTest, OutVariantsWriteToInputsAndBuffers) {
  Value* sums = builder.buffer("sums", at::zeros({3}));
  Value* x = input("x", {3, 4});
  Value* y = input("y", {3, 4});
  builder.call("aten.sum.IntList_out", {x, List{1}}, {{"out", sums}});
  builder.call("aten.cat.out", {List{x, y}, 0}, {{"out", builder.call("aten.zeros.default", {Argument(List{6, 4})})}});
  builder.call("aten.sub.out", {x, y}, {{"out", y}});
  check({sums, y}, {sums, y});
}

TEST_F(FunctionalizeTest, OutVariantWithSeveralResults) {
  Value* x = input("x", {3, 4});
  Value* values = builder.call("aten.zeros.default", {Argument(List{3})});
  Value* indices = builder.call("aten.zeros.default", {Argument(List{3})}, {{"dtype", at::kLong}});
  Node* node = builder.node("aten.max.dim_max", {x, 1}, {{"max", values}, {"max_values", indices}});
  check({values, indices, node->output(0), builder.call("aten.neg.default", {node->output(1)})});
  EXPECT_EQ(count(*program->graph, "aten.max.dim"), 1);
}

// The result is as eager gives it: in the output's dtype, in rows although the inputs lie in columns, and larger than
// an output that was empty.
TEST_F(FunctionalizeTest, OutVariantsKeepDtypeAndLayoutOfTheOutput) {
  Value* x = input("x", {3, 4});
  Value* turned = builder.call("aten.t.default", {x});
  Value* wide = builder.call("aten.zeros.default", {Argument(List{4, 3})}, {{"dtype", at::kDouble}});
  builder.call("aten.add.out", {turned, turned}, {{"out", wide}});
  Value* flat = builder.call("aten.view.default", {wide, List{12}});
  Value* steps = builder.call("aten.zeros.default", {Argument(List{4})}, {{"dtype", at::kDouble}});
  builder.call("aten.arange.start_out", {0.1, 0.5, 0.1}, {{"out", steps}});
  Value* empty = builder.call("aten.zeros.default", {Argument(List{0})});
  Value* grown = builder.call("aten.mul.out", {x, x}, {{"out", empty}});
  builder.call("aten.add_.Tensor", {empty, 1});
  check({wide, flat, steps, grown});
}

TEST_F(FunctionalizeTest, ListsThatAreWrittenInPlace) {
  Value* x = input("x", {3, 4});
  Value* y = input("y", {2});
  builder.node("aten._foreach_mul_.Scalar", {List{x, y}, 3});
  Value* pieces = builder.call("aten.split.Tensor", {x, 2});
  builder.node("aten._foreach_add_.List", {pieces, pieces}, {{"alpha", 2}});
  check({builder.call("aten.cat.default", {pieces}), x, y}, {x, y});
}

TEST_F(FunctionalizeTest, FilledDiagonals) {
  struct Case {
    std::vector<int64_t> sizes;
    bool wrap;
  };
  for (const Case& c : std::vector<Case>{
           {{3, 3}, false}, {{2, 5}, false}, {{7, 3}, false}, {{7, 3}, true}, {{4, 3}, true}, {{3, 3, 3}, false}}) {
    SCOPED_TRACE(testing::PrintToString(c.sizes));
    builder = GraphBuilder();
    Value* x = input("x", c.sizes);
    builder.call("aten.fill_diagonal_.default", {x, 5.0, c.wrap});
    Value* turned = builder.call("aten.transpose.int", {x, 0, 1});
    check({turned}, {x});
  }
}

TEST_F(FunctionalizeTest, ResizedTensors) {
  Value* x = input("x", {3, 4});
  Value* same = builder.call("aten.clone.default", {x});
  builder.call("aten.resize_.default", {same, List{12}});
  Value* less = builder.call("aten.clone.default", {x});
  Value* row = builder.call("aten.select.int", {less, 0, 0});
  builder.call("aten.resize_as_.default", {less, builder.call("aten.slice.Tensor", {x, 1, 0, 2})});
  builder.call("aten.mul_.Tensor", {less, 2});
  Value* more = builder.call("aten.clone.default", {x});
  builder.call("aten.resize_.default", {more, List{5, 4}});
  builder.call("aten.fill_.Scalar", {more, 2.0});
  check({same, less, row, more});
}

TEST_F(FunctionalizeTest, ATensorThatTakesTheMemoryOfAnother) {
  Value* x = input("x", {3, 4});
  Value* y = builder.call("aten.clone.default", {x});
  Value* old = builder.call("aten.select.int", {y, 0, 0});
  Value* rows = builder.call("aten.slice.Tensor", {x, 0, 1, 3});
  builder.call("aten.set_.source_Tensor", {y, rows});
  builder.call("aten.add_.Tensor", {x, 1});
  builder.call("aten.mul_.Tensor", {y, 2});
  check({y, old, rows}, {x});
}

TEST_F(FunctionalizeTest, PartsOfComplexTensors) {
  Value* x = builder.input("x", at::randn({2, 3}, at::kComplexFloat));
  builder.call("aten.mul_.Tensor", {builder.call("aten.imag.default", {x}), 2});
  builder.call("aten.add_.Tensor", {builder.call("aten.real.default", {x}), 1});
  check({builder.call("aten.view_as_real.default", {x})}, {x});
}

TEST_F(FunctionalizeTest, WindowsThatDoNotOverlap) {
  Value* x = input("x", {3, 11});
  Value* windows = builder.call("aten.unfold.default", {x, -1, 2, 3});
  builder.call("aten.mul_.Tensor", {windows, input("scale", {3, 4, 2})});
  check({windows}, {x});
}

TEST_F(FunctionalizeTest, ElementsOfAnotherSize) {
  Value* x = input("x", {2, 3});
  builder.call("aten.fill_.Scalar", {builder.call("aten.view.dtype", {x, at::kShort}), 7});
  check({x}, {x});
}

TEST_F(FunctionalizeTest, AnInputOfAnotherSizeIsRefused) {
  Value* x = input("x", {3});
  builder.call("aten.resize_.default", {x, List{2}});
  EXPECT_THAT(refusal({x}), AllOf(HasSubstr("aten.resize_.default"), HasSubstr("memory of the program's input 'x'")));
}

TEST_F(FunctionalizeTest, OpsThatWriteElsewhereAreRefused) {
  Value* x = input("x", {3});
  Value* noise = input("noise", {3});
  builder.call("aten.rrelu_with_noise.default", {x, noise});
  EXPECT_THAT(refusal({x}), AllOf(HasSubstr("aten.rrelu_with_noise.default"), HasSubstr("argument 'noise'")));
}

TEST_F(FunctionalizeTest, WriteThroughWindowsThatOverlapIsRefused) {
  Value* x = input("x", {6});
  Value* windows = builder.call("aten.unfold.default", {x, 0, 2, 1});
  Node* add = builder.node("aten.add.Tensor", {windows, 1});
  add->set_target("aten.add_.Tensor");
  EXPECT_THAT(refusal({x}), AllOf(HasSubstr("aten.unfold.default"), HasSubstr("share elements")));
}

TEST_F(FunctionalizeTest, WriteThroughAViewWithoutAnInverseIsRefused) {
  Value* x = input("x", {6});
  Value* start = builder.input("start", at::scalar_tensor(2, at::kLong));
  builder.call("aten.add_.Tensor", {builder.call("aten.narrow.Tensor", {x, 0, start, 2}), 1});
  EXPECT_THAT(refusal({x}), AllOf(HasSubstr("aten.narrow.Tensor"), HasSubstr("clone")));
}

TEST_F(FunctionalizeTest, WriteToARepeatedElementIsRefused) {
  Value* x = input("x", {1, 3});
  Value* wide = builder.call("aten.expand.default", {x, List{2, 3}});
  Node* add = builder.node("aten.add.Tensor", {wide, 1});
  add->set_target("aten.add_.Tensor");
  EXPECT_THAT(refusal({wide}), AllOf(HasSubstr("aten.expand.default"), HasSubstr("share a place")));
}

TEST_F(FunctionalizeTest, WriteToMemoryThatMayBeSharedIsRefused) {
  Value* x = input("x", {2, 3});
  Value* turned = builder.call("aten.einsum.default", {"ij->ji", List{x}});
  builder.call("aten.add_.Tensor", {x, 1});
  EXPECT_THAT(refusal({turned}), AllOf(HasSubstr("aten.einsum.default"), HasSubstr("aten.add_.Tensor")));
}

TEST_F(FunctionalizeTest, WriteToAConstantIsRefused) {
  Value* x = builder.buffer("table", at::zeros({3}));
  builder.call("aten.add_.Tensor", {x, 1});
  program = builder.finish({x});
  program->signature.inputs[0].kind = InputSpec::Kind::kTensorConstant;
  EXPECT_THAT(
      [&] {
        try {
          functionalize(*program);
          return std::string("no error");
        } catch (const Error& error) {
          return std::string(error.what());
        }
      }(),
      AllOf(HasSubstr("'table'"), HasSubstr("buffer")));
}

TEST_F(FunctionalizeTest, InputWhoseShapeChangesInPlaceIsRefused) {
  Value* x = input("x", {3});
  builder.call("aten.unsqueeze_.default", {x, 0});
  EXPECT_THAT(refusal({x}), AllOf(HasSubstr("'x'"), HasSubstr("aten.unsqueeze_.default")));
}

TEST_F(FunctionalizeTest, RunningStatisticsOfTrainingAreRefused) {
  Value* x = input("x", {2, 3});
  Value* mean = builder.buffer("mean", at::zeros({3}));
  Value* variance = builder.buffer("variance", at::ones({3}));
  auto norm = [&](bool training) {
    return builder.call("aten.batch_norm.default",
                        {x, Argument(), Argument(), mean, variance, training, 0.1, 1e-5, false});
  };
  check({norm(false)});
  builder = GraphBuilder();
  x = input("x", {2, 3});
  mean = builder.buffer("mean", at::zeros({3}));
  variance = builder.buffer("variance", at::ones({3}));
  EXPECT_THAT(refusal({norm(true)}), AllOf(HasSubstr("aten.batch_norm.default"), HasSubstr("training mode")));
}

// Random programs of views and writes on one tensor, against the eager run.
TEST_F(FunctionalizeTest, RandomProgramsOfViewsAndWrites) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    builder = GraphBuilder();
    std::mt19937 random(seed);
    auto pick = [&](size_t n) { return static_cast<int64_t>(random() % n); };
    Value* x = input("x", {4, 6});
    std::vector<Value*> values = {x, builder.call("aten.sin.default", {x})};
    for (int step = 0; step < 14; ++step) {
      Value* value = values[pick(values.size())];
      const at::Tensor tensor = builder.tensor(value);
      const int64_t rank = tensor.dim();
      const int64_t axis = rank > 0 ? pick(rank) : 0;
      const int64_t size = rank > 0 ? tensor.size(axis) : 0;
      switch (pick(10)) {
        case 0:
          if (rank > 0 && size > 0) {
            values.push_back(builder.call("aten.select.int", {value, axis, pick(size)}));
          }
          break;
        case 1:
          if (size > 1) {
            values.push_back(builder.call("aten.slice.Tensor", {value, axis, pick(size), size, 1 + pick(2)}));
          }
          break;
        case 2:
          values.push_back(builder.call("aten.unsqueeze.default", {value, pick(rank + 1)}));
          break;
        case 3:
          if (rank > 1) {
            values.push_back(builder.call("aten.transpose.int", {value, axis, pick(rank)}));
          }
          break;
        case 4:
          values.push_back(builder.call("aten.reshape.default", {value, List{-1}}));
          break;
        case 5:
          if (size > 1) {
            Value* list = builder.call("aten.chunk.default", {value, 2, axis});
            values.insert(values.end(), list->elements().begin(), list->elements().end());
          }
          break;
        case 6:
          builder.call("aten.mul_.Tensor", {value, 0.5});
          break;
        case 7:
          values.push_back(builder.call("aten.add_.Tensor", {value, builder.call("aten.sum.default", {x})}));
          break;
        case 8:
          values.push_back(builder.call("aten.add.Tensor", {value, 1}));
          break;
        case 9:
          builder.call("aten.copy_.default", {value, builder.call("aten.cos.default", {value})});
          break;
      }
    }
    check(values, {x});
    if (HasFailure()) {
      break;
    }
  }
}

}  // namespace
}  // namespace exporters
