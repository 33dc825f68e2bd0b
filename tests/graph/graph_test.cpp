#include "exporters/graph/graph.h"

#include "exporters/graph/exported_program.h"
#include "exporters/support/error.h"
#include "tests/graph/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using testing::ElementsAre;

Value* relu(Graph& graph, Value* x) {
  Value* y = graph.add_output(graph.call("aten.relu.default", {x}));
  y->meta() = x->meta();
  return y;
}

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> result;
  for (const Node& node : graph) {
    result.push_back(node.name());
  }
  return result;
}

struct ReluChain {
  Graph graph;
  Value* x = nullptr;
  Value* a = nullptr;
  Value* b = nullptr;
  ReluChain() {
    x = graph.add_placeholder("x");
    x->meta() = meta_of({2, 3});
    a = relu(graph, x);
    b = relu(graph, a);
    graph.set_outputs({b});
  }
};

TEST(Graph, PlaceholdersStandBeforeCallsInOrderOfCreation) {
  ReluChain chain;
  chain.graph.add_placeholder("y")->meta() = meta_of({1});
  EXPECT_THAT(names(chain.graph), ElementsAre("x", "y", "relu", "relu_1", "output"));
  EXPECT_EQ(chain.graph.placeholders().size(), 2u);
  verify(chain.graph);
}

TEST(Graph, NamesAreUniqueAsInFx) {
  Graph graph;
  EXPECT_EQ(graph.reserve_name("add"), "add");
  EXPECT_EQ(graph.reserve_name("add"), "add_1");
  EXPECT_EQ(graph.reserve_name("add_1"), "add_2");
  EXPECT_EQ(graph.reserve_name("add_7"), "add_7");
  EXPECT_EQ(graph.reserve_name("add"), "add_8");
  EXPECT_EQ(graph.reserve_name("2x.y"), "_2x_y");
  EXPECT_EQ(graph.reserve_name(""), "_unnamed");
  EXPECT_EQ(graph.reserve_name("n_99999999999999999999"), "n_99999999999999999999");
}

// As torch.export names them: x.abs().sum().sum() gives abs_1, sum_1, sum_2, and a size sym_size_int.
TEST(Graph, CallsAreNamedAfterTheirOpButNotAfterPythonBuiltins) {
  Graph graph;
  Value* x = graph.add_placeholder("input");
  EXPECT_EQ(x->name(), "input");
  EXPECT_EQ(graph.call("aten.abs.default", {x})->name(), "abs_1");
  EXPECT_EQ(graph.call("aten.sum.default", {x})->name(), "sum_1");
  EXPECT_EQ(graph.call("aten.sum.dim_IntList", {x, Argument::List{0}})->name(), "sum_2");
  EXPECT_EQ(graph.call("aten.sym_size.int", {x, 0})->name(), "sym_size_int");
  EXPECT_EQ(graph.call("_operator.add", {1, 2})->name(), "add");
  EXPECT_EQ(graph.call("aten.add_.Tensor", {x, x})->name(), "add_");
}

TEST(Graph, UsersAreInOrderOfCreationAndEachOnce) {
  ReluChain chain;
  Node* twice = chain.graph.call("aten.add.Tensor", {chain.x, chain.x});
  EXPECT_THAT(chain.x->users(), ElementsAre(chain.a->node(), twice));
  twice->set_arg(1, chain.a);
  EXPECT_THAT(chain.x->users(), ElementsAre(chain.a->node(), twice));
  twice->set_arg(0, chain.a);
  EXPECT_THAT(chain.x->users(), ElementsAre(chain.a->node()));
}

TEST(Graph, ReplacingAllUsesReachesListsKeywordsAndOutputs) {
  ReluChain chain;
  Node* cat = chain.graph.call("aten.cat.default", {Argument(Argument::List{chain.a, chain.x, chain.a})});
  Node* sub = chain.graph.call("aten.sub.Tensor", {chain.x}, {{"other", chain.a}});
  chain.graph.set_outputs({chain.b, Argument::List{chain.a}});
  chain.a->replace_all_uses_with(chain.x);
  EXPECT_FALSE(chain.a->has_users());
  EXPECT_EQ(cat->arg(0), Argument(Argument::List{chain.x, chain.x, chain.x}));
  EXPECT_EQ(*sub->kwarg("other"), Argument(chain.x));
  EXPECT_EQ(chain.graph.outputs()[1], Argument(Argument::List{chain.x}));
}

TEST(Graph, ErasingAUsedNodeIsRefused) {
  ReluChain chain;
  EXPECT_THROW(chain.graph.erase(chain.a->node()), Error);
  EXPECT_THROW(chain.graph.erase(chain.graph.output_node()), Error);
  verify(chain.graph);
}

TEST(Graph, ErasedNodeGivesUpItsUsesAndItsValueButNotItsName) {
  ReluChain chain;
  chain.b->replace_all_uses_with(chain.a);
  chain.graph.erase(chain.b->node());
  EXPECT_EQ(chain.graph.find("relu_1"), nullptr);
  EXPECT_THAT(chain.a->users(), ElementsAre(chain.graph.output_node()));
  EXPECT_EQ(relu(chain.graph, chain.a)->name(), "relu_2");
  verify(chain.graph);
}

TEST(Graph, WalkSurvivesErasureAndInsertionAtTheNodeItStandsOn) {
  ReluChain chain;
  std::vector<std::string> seen;
  for (Node& node : chain.graph) {
    seen.push_back(node.name());
    if (!node.is_call("aten.relu.default")) {
      continue;
    }
    Graph::InsertGuard guard(chain.graph, &node);
    Value* y = chain.graph.add_output(chain.graph.call("aten.sigmoid.default", {node.arg(0)}));
    y->meta() = node.value()->meta();
    node.value()->replace_all_uses_with(y);
    chain.graph.erase(&node);
  }
  EXPECT_THAT(seen, ElementsAre("x", "relu", "relu_1", "output"));
  EXPECT_THAT(names(chain.graph), ElementsAre("x", "sigmoid", "sigmoid_1", "output"));
  verify(chain.graph);
}

TEST(Graph, WalkGoesOnWhenFollowingNodesAreErasedToo) {
  ReluChain chain;
  std::vector<std::string> seen;
  for (Node& node : chain.graph) {
    seen.push_back(node.name());
    if (&node == chain.a->node()) {
      chain.graph.set_outputs({chain.x});
      chain.graph.erase(chain.b->node());
      chain.graph.erase(chain.a->node());
    }
  }
  EXPECT_THAT(seen, ElementsAre("x", "relu", "output"));
}

TEST(Graph, InsertionPointOutlivesTheErasedNodeItNames) {
  ReluChain chain;
  chain.graph.set_outputs({chain.a});
  Graph::InsertGuard guard(chain.graph, chain.b->node());
  chain.graph.erase(chain.b->node());
  chain.graph.set_outputs({relu(chain.graph, chain.a)});
  EXPECT_THAT(names(chain.graph), ElementsAre("x", "relu", "relu_2", "output"));
}

TEST(Graph, MovingKeepsLinksAndPlaceholderOrder) {
  ReluChain chain;
  Value* y = chain.graph.add_placeholder("y");
  y->meta() = meta_of({1});
  chain.graph.move_before(y->node(), chain.x->node());
  EXPECT_THAT(names(chain.graph), ElementsAre("y", "x", "relu", "relu_1", "output"));
  chain.graph.add_placeholder("z")->meta() = meta_of({1});
  chain.graph.move_before(y->node(), chain.a->node());
  chain.graph.add_placeholder("w")->meta() = meta_of({1});
  EXPECT_THAT(names(chain.graph), ElementsAre("x", "z", "y", "w", "relu", "relu_1", "output"));
  verify(chain.graph);
  EXPECT_THROW(chain.graph.move_before(chain.graph.output_node(), y->node()), Error);
}

TEST(Graph, ListOutputsHaveElementsThatNodesTake) {
  Graph graph;
  Value* x = graph.add_placeholder("x");
  x->meta() = meta_of({4});
  Node* split = graph.call("aten.split.Tensor", {x, 2});
  Value* list = graph.add_output(split, Value::Kind::kTensorList);
  Value* first = graph.add_element(list);
  Value* second = graph.add_element(list);
  first->meta() = second->meta() = meta_of({2});
  Value* sum = graph.add_output(graph.call("aten.add.Tensor", {first, second}));
  sum->meta() = meta_of({2});
  graph.set_outputs({sum});
  verify(graph);
  EXPECT_EQ(second->name(), "getitem_1");
  EXPECT_EQ(second->list(), list);
  EXPECT_EQ(second->output_index(), 1u);
  EXPECT_THROW(graph.erase(split), Error);
  EXPECT_THROW(graph.add_element(sum), Error);
}

TEST(Graph, ValuesOfAnotherGraphAreRefusedAndChangeNothing) {
  ReluChain chain;
  ReluChain other;
  EXPECT_THROW(chain.b->node()->set_args({other.x}), Error);
  EXPECT_THROW(chain.b->node()->set_args({Argument(static_cast<Value*>(nullptr))}), Error);
  verify(chain.graph);
  EXPECT_EQ(chain.b->node()->arg(0), Argument(chain.a));
}

TEST(Graph, DescribesANodeWithItsPlace) {
  ReluChain chain;
  chain.a->node()->place() = {"encoder.layer.0", "BertLayer", "aten::relu", "models/bert.cpp:80"};
  EXPECT_EQ(chain.a->node()->describe(), "aten.relu.default 'relu' (encoder.layer.0, models/bert.cpp:80)");
  EXPECT_EQ(chain.b->node()->describe(), "aten.relu.default 'relu_1'");
}

TEST(Graph, PrintsAsText) {
  ReluChain chain;
  chain.x->meta().sizes[0] = Symbol("s0");
  chain.a->node()->place() = {"encoder.layer.0", "BertLayer", "", ""};
  Node* full = chain.graph.call("aten.full.default", {Argument::List{2, chain.x, Argument()}, 1.0},
                                {{"dtype", c10::ScalarType::Half}, {"device", c10::Device(c10::kCPU)}});
  chain.graph.add_output(full)->meta() = meta_of({2}, c10::ScalarType::Half);
  EXPECT_EQ(chain.graph.str(),
            "def forward(x: f32[s0, 3]):\n"
            "    # encoder.layer.0 (BertLayer)\n"
            "    relu: f32[2, 3] = aten.relu.default(x)\n"
            "    # (root)\n"
            "    relu_1: f32[2, 3] = aten.relu.default(relu)\n"
            "    full: f16[2] = aten.full.default([2, x, None], 1.0, dtype = torch.float16, device = device('cpu'))\n"
            "    return (relu_1,)\n");
}

TEST(Argument, ConstantsAreComparedByBits) {
  EXPECT_EQ(Argument(1.0), Argument(1.0));
  EXPECT_EQ(Argument(std::nan("")), Argument(std::nan("")));
  EXPECT_FALSE(Argument(0.0) == Argument(-0.0));
  EXPECT_FALSE(Argument(1) == Argument(1.0));
  EXPECT_FALSE(Argument(1) == Argument(true));
  EXPECT_FALSE(Argument() == Argument("None"));
}

}  // namespace
}  // namespace exporters
