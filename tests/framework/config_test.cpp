// Export configs: the reference's fields, and errors that name the field and what is allowed.
#include "exporters/framework/dynamic_shapes.h"
#include "exporters/framework/export_config.h"
#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

// ── Fields ──

TEST(DynamoConfig, HasTheReferencesFieldsAndDefaults) {
  EXPECT_EQ(DynamoConfig().to_dict(), json::parse(R"({
    "dynamic": false, "dynamic_shapes": null, "export_format": "dynamo",
    "prefer_deferred_runtime_asserts_over_guards": false, "strict": false})"));
}

TEST(ExecutorchConfig, HasTheReferencesFieldsAndDefaults) {
  EXPECT_EQ(ExecutorchConfig().to_dict(), json::parse(R"({
    "dynamic": false, "dynamic_shapes": null, "export_format": "executorch",
    "prefer_deferred_runtime_asserts_over_guards": false, "strict": false, "backend": "xnnpack",
    "alloc_graph_input": true, "alloc_graph_output": true, "alloc_mutable_buffers": true})"));
}

TEST(ExecutorchConfig, TakesTheBackendsThatThereAre) {
  ExecutorchConfig config;

  config.from_dict({{"backend", "mlx"}, {"alloc_graph_input", false}});

  EXPECT_EQ(config.backend, "mlx");
  EXPECT_FALSE(config.alloc_graph_input);
  EXPECT_THAT(error_of([&] {
                config.from_dict({{"backend", "coreml"}});
              }),
              AllOf(HasSubstr("'backend'"), HasSubstr("coreml"), HasSubstr("\"xnnpack\", \"cuda\", \"mlx\"")));
  EXPECT_THAT(error_of([&] { config.from_dict({{"backend", nullptr}}); }), HasSubstr("'backend'"));
}

TEST(ExportConfig, GoesThroughTextAndBack) {
  DynamoConfig config;
  config.dynamic = true;
  config.strict = true;
  config.dynamic_shapes = {{"input_ids", {{0, Dim::named("batch", 1, 16)}, {1, Dim::Auto()}}},
                           {"cache", {{2, Dim::derived("length", 2, 1, {3, 40})}, {-1, Dim::Static()}}},
                           {"mask", {}}};

  DynamoConfig copy;
  copy.from_json(config.to_json());

  EXPECT_EQ(copy.to_dict(), config.to_dict());
  EXPECT_EQ(copy.dynamic_shapes.at("cache").at(2).range(), (Range{3, 40}));
  EXPECT_EQ(copy.dynamic_shapes.at("cache").at(2).factor(), 2);
  EXPECT_TRUE(copy.dynamic_shapes.at("mask").empty());
}

TEST(ExportConfig, RecordsDimsAsTheReferenceDoes) {
  DynamoConfig config;
  config.dynamic_shapes = {{"input_ids", {{0, Dim::named("batch", 2, 16)}, {1, Dim::Auto()}}}};

  EXPECT_EQ(config.to_dict().at("dynamic_shapes"),
            json::parse(R"j({"input_ids": {"0": "Dim('batch', max=16)", "1": "DimHint(AUTO)"}})j"));
}

TEST(ExportConfig, ErrorsNameTheFieldAndWhatIsAllowed) {
  DynamoConfig config;
  EXPECT_THAT(error_of([&] {
                config.from_dict({{"dynamics", true}});
              }),
              AllOf(HasSubstr("'dynamics'"), HasSubstr("'dynamic'")));
  EXPECT_THAT(error_of([&] {
                config.from_dict({{"dynamic", 1}});
              }),
              AllOf(HasSubstr("'dynamic'"), HasSubstr("true or false")));
  EXPECT_THAT(error_of([&] {
                config.from_dict({{"dynamic_shapes", "auto"}});
              }),
              AllOf(HasSubstr("'dynamic_shapes'"), HasSubstr("input_ids")));
  EXPECT_THAT(error_of([&] { config.from_dict({{"export_format", "onnx"}}); }), HasSubstr("'dynamo'"));
  EXPECT_THAT(error_of([&] { config.from_json("{\"dynamic\": tru}"); }), HasSubstr("dynamo config"));
}

TEST(ExportConfig, AWrongFieldLeavesTheOthersAsTheyWere) {
  DynamoConfig config;

  EXPECT_NE(error_of([&] { config.from_dict({{"dynamic", true}, {"strict", "yes"}}); }), "no error");

  EXPECT_FALSE(config.dynamic);
}

TEST(ExportConfig, ContradictionsAreErrors) {
  DynamoConfig config;
  const json disjoint = json::parse(R"({"dynamic_shapes": {"a": {"0": "batch 1:4"}, "b": {"1": "batch 8:16"}}})");
  EXPECT_THAT(error_of([&] { config.from_dict(disjoint); }),
              AllOf(HasSubstr("'batch'"), HasSubstr("[1, 4]"), HasSubstr("[8, 16]")));
  const json negative = json::parse(R"({"dynamic_shapes": {"a": {"0": "length - 4"}}})");
  EXPECT_THAT(error_of([&] { config.from_dict(negative); }), AllOf(HasSubstr("negative"), HasSubstr("minimum")));
  const json positive = json::parse(R"({"dynamic_shapes": {"a": {"0": "length - 4 4:"}}})");
  EXPECT_EQ(error_of([&] { config.from_dict(positive); }), "no error");
}

// ── dynamic_shapes ──

struct DimText {
  const char* text;
  Dim dim;
};

void expect_equal(const Dim& actual, const Dim& expected) {
  EXPECT_EQ(actual.kind(), expected.kind());
  EXPECT_EQ(actual.str(), expected.str());
  EXPECT_EQ(actual.range(), expected.range());
}

TEST(ParseDim, ReadsPlainTextsAndTheReferencesReprs) {
  const std::vector<DimText> texts = {
      {"auto", Dim::Auto()},
      {"auto 1:512", Dim::Auto(1, 512)},
      {"static", Dim::Static()},
      {"batch", Dim::named("batch")},
      {"batch 1:64", Dim::named("batch", 1, 64)},
      {"batch 8:", Dim::named("batch", 8)},
      {"batch :9", Dim::named("batch", 1, 9)},
      {"2*batch + 1", Dim::derived("batch", 2, 1)},
      {"2*batch + 1 2:8", Dim::derived("batch", 2, 1, {2, 8})},
      // What Python 3 prints for torch.export.Dim("batch", min=2, max=16) and the others.
      {"Dim('batch', max=16)", Dim::named("batch", 2, 16)},
      {"Dim('batch', min=0)", Dim::named("batch", 0)},
      {"Dim('b', min=0, max=4)", Dim::named("b", 0, 4)},
      {"Dim('batch')", Dim::named("batch", 2)},
      {"DimHint(AUTO)", Dim::Auto()},
      {"DimHint(AUTO, min=2, max=5)", Dim::Auto(2, 5)},
      {"DimHint(STATIC)", Dim::Static()},
  };
  for (const DimText& each : texts) {
    SCOPED_TRACE(each.text);
    expect_equal(parse_dim(each.text), each.dim);
  }
}

TEST(ParseDim, EveryDimGoesThroughItsText) {
  for (const Dim& dim : {Dim::Auto(), Dim::Auto(3, 9), Dim::Static(), Dim::named("n"), Dim::named("n", 0, 7),
                         Dim::named("n", 2), Dim::derived("n", 3, -2, {5, 6}), Dim::derived("n", 1, 4)}) {
    SCOPED_TRACE(dim_text(dim));
    expect_equal(parse_dim(dim_text(dim)), dim);
  }
}

TEST(ParseDim, RefusesOtherTextsAndSaysWhatIsAllowed) {
  for (const char* text : {"", "2", "batch*length", "-batch", "Dim('batch'", "Dim('batch', step=2)", "DimHint(FIXED)",
                           "static 1:2", "batch size", "Dim('a', max=1, max=2)", "Dim('a', min=x)"}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(error_of([&] { parse_dim(text); }), AllOf(HasSubstr("no axis"), HasSubstr("2*batch + 1")));
  }
  EXPECT_THAT(error_of([] { parse_dim("DimHint(DYNAMIC)"); }), HasSubstr("name"));
  EXPECT_THAT(error_of([] { parse_dim("batch 9:3"); }), HasSubstr("9:3"));
}

std::string shapes_of(const char* text) { return to_json(dynamic_shapes_from_json(json::parse(text))).dump(); }

TEST(DynamicShapesJson, TakesAxesByNumberInOrderAndNested) {
  EXPECT_EQ(shapes_of(R"({"x": {"0": "batch 2:", "-1": null, "1": 8}})"),
            R"j({"x":{"-1":"DimHint(STATIC)","0":"Dim('batch')","1":"DimHint(AUTO, min=8, max=8)"}})j");
  EXPECT_EQ(shapes_of(R"({"x": ["auto", null]})"), R"j({"x":{"0":"DimHint(AUTO)","1":"DimHint(STATIC)"}})j");
  EXPECT_EQ(shapes_of(R"({"x": null, "y": {}})"), R"({"x":{},"y":{}})");
  EXPECT_EQ(shapes_of(R"({"pair": [{"0": "auto"}, ["static"]]})"),
            R"j({"pair.0":{"0":"DimHint(AUTO)"},"pair.1":{"0":"DimHint(STATIC)"}})j");
  EXPECT_EQ(shapes_of(R"({"out": {"hidden": {"0": "auto"}, "deep": {"a": ["auto"]}}})"),
            R"j({"out.deep.a":{"0":"DimHint(AUTO)"},"out.hidden":{"0":"DimHint(AUTO)"}})j");
  EXPECT_EQ(shapes_of("null"), "null");
}

TEST(DynamicShapesJson, ErrorsNameInputAndAxis) {
  const auto error = [](const char* text) { return error_of([text] { dynamic_shapes_from_json(json::parse(text)); }); };
  EXPECT_THAT(error(R"({"x": {"1": "a b"}})"), AllOf(HasSubstr("'x'"), HasSubstr("axis 1")));
  EXPECT_THAT(error(R"({"x": true})"), AllOf(HasSubstr("'x'"), HasSubstr("true")));
  EXPECT_THAT(error(R"({"x": {"0": 1.5}})"), HasSubstr("1.5"));
  EXPECT_THAT(error(R"({"x": {"0": -3}})"), HasSubstr("-3"));
  std::string deep = R"("auto")";
  for (int i = 0; i < 60; ++i) {
    deep = R"({"a": [)" + deep + "]}";
  }
  EXPECT_THAT(error(deep.c_str()), HasSubstr("nested"));
}

TEST(ParseRange, TakesEitherSideOpen) {
  EXPECT_EQ(parse_range("1:64"), (Range{1, 64}));
  EXPECT_EQ(parse_range("8:"), (Range{8, Range::kMax}));
  EXPECT_EQ(parse_range(":512"), (Range{1, 512}));
  EXPECT_EQ(parse_range("8"), (Range{8, 8}));
  for (const char* text : {"", ":x", "-1:2", "4:2", "1:2:3", "99999999999999999999"}) {
    SCOPED_TRACE(text);
    EXPECT_NE(error_of([&] { parse_range(text); }), "no error");
  }
}

}  // namespace
}  // namespace exporters
