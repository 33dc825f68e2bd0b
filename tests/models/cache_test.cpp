#include "exporters/models/cache.h"

#include "tests/models/decoder_recorded.h"
#include "tests/models/recorded.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace exporters::models {
namespace {

using testing::error_of;
using testing::reference_decoders;

nlohmann::json specs() { return nlohmann::json::parse(std::ifstream(reference_decoders() / "caches" / "specs.json")); }

PyTree recorded_cache(const std::string& name, const std::string& spec) {
  const auto file = SafetensorsFile::open(reference_decoders() / "caches" / (name + ".safetensors"));
  const TreeSpec tree = TreeSpec::loads(spec);
  std::vector<PyTree::Leaf> leaves;
  for (size_t i = 0; i < tree.leaf_count(); ++i) {
    leaves.emplace_back(file->tensor(std::to_string(i)).clone());
  }
  return PyTree::unflatten(tree, std::move(leaves));
}

at::Tensor states(int64_t length, int64_t start) {
  return at::arange(start, start + 2 * 2 * length * 3).to(at::kFloat).reshape({2, 2, length, 3});
}

void expect_same(const PyTree& actual, const PyTree& expected) {
  EXPECT_EQ(actual.spec().dumps(), expected.spec().dumps());
  const auto a = actual.tensors();
  const auto b = expected.tensors();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].second.equal(b[i].second)) << a[i].first;
  }
}

// Given caches of every class as the reference flattens them, read and written again, then spec and leaves are the
// same.
TEST(Caches, AreReadAndWrittenAsTheReferenceWritesThem) {
  size_t count = 0;
  const nlohmann::json all = specs();
  for (const auto& [name, spec] : all.items()) {
    SCOPED_TRACE(name);
    const PyTree expected = recorded_cache(name, spec);
    expect_same(Cache::from_tree(expected)->to_tree(), expected);
    ++count;
  }
  EXPECT_EQ(count, 4 * 4 + 3u);
}

// Given an empty cache of each class, when keys of 2, 1 and 4 tokens arrive, then it is the reference's after each.
TEST(Caches, AreUpdatedAsTheReferenceDoes) {
  for (const std::string name : {"dynamic", "lazy", "sliding", "static"}) {
    std::string after = name;
    PyTree tree = recorded_cache(name, specs().at(name));
    for (const int64_t length : {2, 1, 4}) {
      after += "_" + std::to_string(length);
      SCOPED_TRACE(after);
      const auto cache = Cache::from_tree(tree);
      for (const int64_t layer : {0, 1}) {
        dynamic_cast<LayeredCache&>(*cache).layer(layer).update(states(length, 10 * layer),
                                                                states(length, 500 + 10 * layer));
      }
      tree = cache->to_tree();
      expect_same(tree, recorded_cache(after, specs().at(after)));
    }
  }
}

TEST(Caches, ASlidingLayerShowsWhatTheWindowNeedsAndWhereItLies) {
  DynamicSlidingWindowLayer layer(4);
  EXPECT_TRUE(layer.span(6).starts_empty());
  EXPECT_EQ(layer.update(states(6, 0), states(6, 0)).first.size(2), 6);
  const CacheSpan span = layer.span(2);
  EXPECT_EQ(span.past, 6);
  EXPECT_EQ(span.key_offset, 3);
  EXPECT_EQ(span.keys, 5);
  EXPECT_EQ(layer.update(states(2, 0), states(2, 0)).first.size(2), 5);
  EXPECT_EQ(layer.keys().size(2), 3);
}

TEST(Caches, ASlidingLayerTakesACacheThatGrewInATracedProgram) {
  const DynamicSlidingWindowLayer layer(4, states(9, 0), states(9, 0), /*seen=*/0);
  EXPECT_EQ(layer.span(1).past, 9);
  EXPECT_EQ(layer.span(1).key_offset, 0);
  EXPECT_EQ(layer.span(1).keys, 10);
}

TEST(Caches, WhatIsNotSupportedOrMakesNoSenseIsAnError) {
  const auto read = [](const std::string& context, std::vector<PyTree> children = {}) {
    return error_of(
        [&] { Cache::from_tree(PyTree::node("transformers.cache_utils:DynamicCache", context, std::move(children))); });
  };
  const auto cache = [](const std::string& layers, const std::string& more = R"("offloading": false)") {
    return R"({"_t": "obj", "p": "transformers.cache_utils:DynamicCache", "s": {"layers": [)" + layers + "], " + more +
           "}}";
  };
  const auto layer = [](const std::string& name, const std::string& fields) {
    return R"({"_t": "obj", "p": "transformers.cache_utils:)" + name + R"(", "s": {)" + fields + "}}";
  };
  EXPECT_NE(read("[").find("cache's context"), std::string::npos);
  EXPECT_NE(read(cache("", R"("offloading": true)")).find("offloads"), std::string::npos);
  EXPECT_NE(read(cache(layer("StaticSlidingWindowLayer", ""))).find("DynamicSlidingWindowLayer"), std::string::npos);
  EXPECT_NE(
      read(cache(layer("DynamicLayer", R"("keys": {"_t": "tensor", "i": 3}, "values": null)"))).find("leaf 3 of 0"),
      std::string::npos);
  EXPECT_NE(read(cache(layer("DynamicLayer", R"("keys": {"_t": "tensor", "i": 0}, "values": null)")),
                 {at::zeros({1, 2, 3, 4})})
                .find("keys or values alone"),
            std::string::npos);
  EXPECT_NE(read(cache(layer("DynamicLayer", R"("keys": {"_t": "tensor", "i": 0}, "values": null)")), {at::zeros({2})})
                .find("1 dimensions"),
            std::string::npos);
  EXPECT_NE(error_of([] { Cache::from_tree(PyTree(at::zeros({1}))); }).find("expected a cache"), std::string::npos);
}

}  // namespace
}  // namespace exporters::models
