// Types of a user in a forward's arguments and results.
#include "exporters/framework/pytree_nodes.h"
#include "exporters/framework/module_source.h"
#include "tests/support/error_of.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using testing::error_of;

namespace nn = torch::nn;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A state of an own kind: two tensors and a number that is no leaf.
struct Window {
  at::Tensor past;
  at::Tensor mask;
  int64_t width = 0;
};
// Nobody registers this one.
struct Stranger {};

PyTree flatten(const Window& window) {
  const nlohmann::json context = {{"width", window.width}};
  return PyTree::node("toy:Window", context.dump(), {window.past, window.mask});
}

Window unflatten(const PyTree& tree) {
  ensure(tree.children().size() == 2, "a window has two tensors");
  return {tree.children()[0].tensor(), tree.children()[1].tensor(),
          nlohmann::json::parse(tree.context()).at("width").get<int64_t>()};
}

class PytreeNodes : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { register_pytree_node<Window>({"toy:Window"}, flatten, unflatten, "a test"); }
  const Window window_{at::ones({2, 3}), at::ones({2}, at::kBool), 7};
};

TEST_F(PytreeNodes, AUserTypeGoesThereAndBack) {
  const PyTree tree = to_pytree(window_);
  const auto back = from_pytree<Window>(PyTree::unflatten(tree.spec(), tree.flatten()));

  EXPECT_EQ(tree.spec().leaf_count(), 2U);
  EXPECT_EQ(back.width, 7);
  EXPECT_TRUE(at::equal(back.past, window_.past));
  EXPECT_TRUE(at::equal(back.mask, window_.mask));
}

struct Shift : nn::Module {
  Window forward(const at::Tensor& x, const Window& window) { return {window.past + x, window.mask, window.width + 1}; }
};

TEST_F(PytreeNodes, AForwardTakesAndReturnsIt) {
  auto module = std::make_shared<Shift>();
  module->eval();
  const ExportSource source = export_source(module, &Shift::forward);

  const PyTree result = source.forward({{"x", at::ones({2, 3})}, {"window", to_pytree(window_)}});

  EXPECT_EQ(from_pytree<Window>(result).width, 8);
  EXPECT_TRUE(at::equal(from_pytree<Window>(result).past, window_.past * 2));
}

TEST_F(PytreeNodes, OtherTypesAreErrorsThatSayHowToRegister) {
  EXPECT_THAT(error_of([] { to_pytree(Stranger()); }), HasSubstr("register_pytree_node"));
  EXPECT_THAT(error_of([&] {
                from_pytree<Window>(PyTree::tuple({window_.past, window_.mask}));
              }),
              AllOf(HasSubstr("builtins.tuple"), HasSubstr("toy:Window")));
  EXPECT_THAT(error_of([&] { from_pytree<Window>(PyTree(window_.past)); }), HasSubstr("leaf"));
}

TEST_F(PytreeNodes, ContainersOfPythonAndModelOutputsNeedNoEntry) {
  const PyTree leaf(window_.past);
  for (const PyTree& tree :
       {PyTree::tuple({leaf}), PyTree::list({leaf}), PyTree::dict({{"a", PyTree::tuple({leaf})}}),
        PyTree::object("transformers.modeling_outputs.BaseModelOutput", {{"last_hidden_state", leaf}}),
        PyTree::object("transformers.models.clip.modeling_clip.CLIPOutput", {{"embeds", to_pytree(window_)}})}) {
    EXPECT_EQ(error_of([&] { check_pytree_types(tree.spec(), "it"); }), "no error") << tree.type();
  }
}

TEST_F(PytreeNodes, UnregisteredContainersAreFoundAtAnyDepth) {
  const PyTree strange = PyTree::tuple({PyTree::list({PyTree::node("toy:Windows", "null", {window_.past})})});

  EXPECT_THAT(error_of([&] { check_pytree_types(strange.spec(), "input 'state'"); }),
              AllOf(HasSubstr("'toy:Windows'"), HasSubstr("input 'state'"), HasSubstr("'toy:Window'")));
}

}  // namespace
}  // namespace exporters
