#include "exporters/graph/tree_spec.h"

#include "exporters/support/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace exporters {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Written {
  std::string file;
  std::string text;
};

// Every tree spec in export.json files that the Python reference wrote.
std::vector<Written> reference_specs() {
  std::vector<Written> specs;
  for (const auto& entry : std::filesystem::directory_iterator(EXPORTERS_TEST_DATA "/tree_spec")) {
    const nlohmann::json folder = nlohmann::json::parse(std::ifstream(entry.path()));
    for (const auto& [name, component] : folder.at("components").items()) {
      for (const char* key : {"in_spec", "out_spec"}) {
        specs.push_back({entry.path().filename().string() + " " + name + " " + key,
                         component.at("metadata").at(key).get<std::string>()});
      }
    }
  }
  return specs;
}

std::string error_of(std::string_view text) {
  try {
    TreeSpec::loads(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string nested_text(int depth) {
  std::string text = "[1, ";
  for (int i = 1; i < depth; ++i) {
    text += R"({"type": "builtins.list", "context": "null", "children_spec": [)";
  }
  text += R"({"type": null, "context": null, "children_spec": []})";
  for (int i = 1; i < depth; ++i) {
    text += "]}";
  }
  return text + "]";
}

TEST(TreeSpec, WritesReferenceSpecsByteForByte) {
  const std::vector<Written> specs = reference_specs();
  ASSERT_GE(specs.size(), 14u);
  for (const Written& written : specs) {
    EXPECT_EQ(TreeSpec::loads(written.text).dumps(), written.text) << written.file;
  }
}

// What torch.utils._pytree.treespec_dumps of torch 2.13 gives for a defaultdict, for an OrderedDict that holds a tuple
// with a list with a dict whose key is 'ü', DEL, newline, '"q\', and for a deque.
TEST(TreeSpec, WritesContainersOfPythonByteForByte) {
  for (
      const std::string text : {
          R"([1, {"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": ["a", "b"]}, "children_spec": [{"type": null, "context": null, "children_spec": []}, {"type": null, "context": null, "children_spec": []}]}])",
          R"([1, {"type": "builtins.dict", "context": "[\"\\u00fc\\u007f\\n\\\"q\\\\\"]", "children_spec": [{"type": null, "context": null, "children_spec": []}]}])",
          R"([1, {"type": "collections.deque", "context": "3", "children_spec": [{"type": null, "context": null, "children_spec": []}]}])",
      }) {
    EXPECT_EQ(TreeSpec::loads(text).dumps(), text);
  }
}

TEST(TreeSpec, DictWithOddKeysIsWrittenAsPythonWritesIt) {
  const TreeSpec spec = TreeSpec::dict({"\xc3\xbc\x7f\n\"q\\"}, {TreeSpec::leaf()});
  EXPECT_EQ(spec.context, R"(["\u00fc\u007f\n\"q\\"])");
  EXPECT_THAT(spec.keys(), ElementsAre("\xc3\xbc\x7f\n\"q\\"));
}

TEST(TreeSpec, TupleOfListAndDictHasPaths) {
  const TreeSpec spec = TreeSpec::tuple(
      {TreeSpec::list({TreeSpec::leaf(), TreeSpec::leaf()}), TreeSpec::dict({"a", "b"}, {TreeSpec::leaf(), {}})});
  EXPECT_EQ(spec.leaf_count(), 4u);
  EXPECT_THAT(spec.leaf_paths(), ElementsAre("0.0", "0.1", "1.a", "1.b"));
}

TEST(TreeSpec, BareLeafHasTheEmptyPath) { EXPECT_THAT(TreeSpec::leaf().leaf_paths(), ElementsAre("")); }

TEST(TreeSpec, CacheLeavesAreNamedByTheirAttributes) {
  std::vector<std::string> paths;
  for (const Written& written : reference_specs()) {
    if (written.file == "gemma3-onnx-gen.json decode in_spec") {
      paths = TreeSpec::loads(written.text).leaf_paths();
    }
  }
  EXPECT_THAT(paths, testing::Contains("1.cache.layers.0.keys"));
  EXPECT_THAT(paths, testing::Contains("1.cache.layers.0._sliding_window_tensor"));
}

TEST(TreeSpec, EncoderDecoderCacheLeavesAreNamedByTheirAttributes) {
  std::vector<std::string> paths;
  for (const Written& written : reference_specs()) {
    if (written.file == "t5-dynamo-gen-staticcache.json decode in_spec") {
      paths = TreeSpec::loads(written.text).leaf_paths();
    }
  }
  EXPECT_THAT(paths, testing::Contains("1.cache.self_attention_cache.layers.1.cumulative_length"));
  EXPECT_THAT(paths, testing::Contains("1.cache.cross_attention_cache.layers.0.values"));
}

TEST(TreeSpec, OtherProtocolIsRefused) {
  EXPECT_THAT(error_of(R"([2, {"type": null, "context": null, "children_spec": []}])"), HasSubstr("protocol 2"));
}

TEST(TreeSpec, MalformedTextIsRefused) {
  EXPECT_THAT(error_of(""), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("[1, {"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("{}"), HasSubstr("[protocol, spec]"));
  EXPECT_THAT(error_of("[1, 3]"), HasSubstr("without 'type'"));
  EXPECT_THAT(error_of(R"([1, {"type": 5, "context": null, "children_spec": []}])"), HasSubstr("not a name"));
  EXPECT_THAT(error_of(R"([1, {"type": null, "context": null, "children_spec": {}}])"), HasSubstr("not a list"));
  EXPECT_THAT(error_of(R"([1, {"type": null, "context": "x", "children_spec": []}])"), HasSubstr("leaf"));
}

TEST(TreeSpec, NestingIsBounded) {
  EXPECT_EQ(TreeSpec::loads(nested_text(64)).dumps(), nested_text(64));
  EXPECT_THAT(error_of(nested_text(65)), HasSubstr("deeper than 64"));
  EXPECT_THAT(error_of(nested_text(200'000)), HasSubstr("deeper than 64"));
  EXPECT_THAT(error_of(std::string(1'000'000, '[')), HasSubstr("not JSON"));
}

TEST(TreeSpec, ContextThatNamesOtherChildrenIsRefused) {
  TreeSpec spec = TreeSpec::dict({"a"}, {TreeSpec::leaf()});
  spec.children.push_back(TreeSpec::leaf());
  EXPECT_THROW(spec.leaf_paths(), Error);
  spec.context = R"({"_t": "tensor", "i": 7})";
  EXPECT_THROW(spec.leaf_paths(), Error);
  spec.context = "null";
  EXPECT_THROW(spec.keys(), Error);
}

}  // namespace
}  // namespace exporters
