#include "exporters/graph/pytree.h"

#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using testing::HasSubstr;

PyTree model_output() {
  return PyTree::object("transformers.modeling_outputs.BaseModelOutput",
                        {{"last_hidden_state", at::arange(6)},
                         {"pooler_output", PyTree()},
                         {"hidden_states", PyTree::tuple({at::arange(2), at::arange(3)})}});
}

PyTree cache() {
  return PyTree::node(
      "transformers.cache_utils:DynamicCache",
      R"({"_t": "obj", "p": "x:DynamicCache", "s": {"layers": [{"_t": "obj", "p": "x:L", "s": {"keys": {"_t": "tensor", "i": 0}, "values": {"_t": "tensor", "i": 1}}}]}})",
      {at::arange(4), at::arange(5)});
}

TEST(PyTree, ObjectLeavesOutFieldsThatAreNone) {
  EXPECT_EQ(model_output().context(), R"(["last_hidden_state", "hidden_states"])");
  EXPECT_EQ(model_output().children().size(), 2u);
}

TEST(PyTree, FlattenAndUnflattenGiveTheSameValue) {
  const PyTree tree = PyTree::dict({{"out", model_output()}, {"n", int64_t{3}}, {"flag", true}, {"none", PyTree()}});
  const PyTree again = PyTree::unflatten(tree.spec(), tree.flatten());
  EXPECT_EQ(again.spec(), tree.spec());
  EXPECT_TRUE(again.at("out.hidden_states.1").tensor().equal(at::arange(3)));
  EXPECT_EQ(std::get<int64_t>(again.at("n").leaf()), 3);
  EXPECT_EQ(std::get<bool>(again.at("flag").leaf()), true);
  EXPECT_TRUE(again.at("none").is_none());
}

TEST(PyTree, CacheTensorsAreFoundByAttributePath) {
  const PyTree tree = PyTree::dict({{"cache", cache()}});
  EXPECT_EQ(tree.at("cache.layers.0.values").tensor().numel(), 5);
  ASSERT_NE(tree.at("cache").find("layers.0.keys"), nullptr);
  EXPECT_EQ(tree.at("cache").find("layers.1.keys"), nullptr);
}

TEST(PyTree, TensorsComeWithPathsInLeafOrder) {
  const auto tensors = PyTree::dict({{"n", 2.0}, {"cache", cache()}, {"out", model_output()}}).tensors();
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_EQ(tensors[0].first, "cache.layers.0.keys");
  EXPECT_EQ(tensors[4].first, "out.hidden_states.1");
  EXPECT_EQ(tensors[4].second.numel(), 3);
}

TEST(PyTree, MissingPathNamesWhatThereIs) {
  try {
    model_output().at("hidden_states.2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'hidden_states.2'"));
    EXPECT_THAT(error.what(), HasSubstr("hidden_states.1"));
  }
}

TEST(PyTree, WrongNumberOfLeavesIsRefused) {
  EXPECT_THROW(PyTree::unflatten(model_output().spec(), {at::arange(1)}), Error);
}

TEST(PyTree, LeafThatIsNoTensorIsRefused) {
  EXPECT_THROW(PyTree(int64_t{1}).tensor(), Error);
  EXPECT_THROW(model_output().tensor(), Error);
}

}  // namespace
}  // namespace exporters
