#include "exporters/support/json.h"

#include "exporters/support/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

std::string parse_error(std::string_view text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json(text, "c.json", limits); });
}

TEST(JsonTest, ParsesEveryKindOfValue) {
  nlohmann::json value = parse_json(R"({"a": [1, -2, 3.5, true, null, "é\n"], "b": {"c": {}}})", "c.json");
  EXPECT_EQ(value, nlohmann::json::parse(R"({"a": [1, -2, 3.5, true, null, "é\n"], "b": {"c": {}}})"));
}

TEST(JsonTest, NonFiniteNumbersAreReadAndWrittenAsPythonDoes) {
  nlohmann::json value = parse_json(R"({"a": [NaN, Infinity, -Infinity], "s": "NaN \" Infinity"})", "c.json");
  EXPECT_TRUE(std::isnan(value["a"][0].get<double>()));
  EXPECT_EQ(value["a"][1].get<double>(), INFINITY);
  EXPECT_EQ(value["a"][2].get<double>(), -INFINITY);
  EXPECT_EQ(value["s"], "NaN \" Infinity");
  EXPECT_EQ(pretty_json(value),
            "{\n  \"a\": [\n    NaN,\n    Infinity,\n    -Infinity\n  ],\n  \"s\": \"NaN \\\" Infinity\"\n}\n");
}

TEST(JsonTest, NonFiniteNumbersCanBeRefused) {
  EXPECT_THAT(parse_error("[NaN]", {.allow_nonfinite = false}), HasSubstr("c.json is not valid JSON at byte"));
}

TEST(JsonTest, AKeyTwiceIsRefusedAtEveryDepth) {
  EXPECT_THAT(parse_error(R"({"a": 1, "a": 1})"), HasSubstr("c.json: the key 'a' appears twice"));
  EXPECT_THAT(parse_error(R"([{"x": {"b": 1, "b": 2}}])"), HasSubstr("'b' appears twice"));
  EXPECT_EQ(parse_error(R"([{"a": 1}, {"a": 1}])"), "no error");
}

TEST(JsonTest, LimitsAreKept) {
  EXPECT_THAT(parse_error("[1, 2, 3]", {.max_bytes = 8}), HasSubstr("9 bytes"));
  EXPECT_THAT(parse_error("[1, 2, 3]", {.max_values = 3}), HasSubstr("more than 3 JSON values"));
  EXPECT_THAT(parse_error("[[[1]]]", {.max_depth = 2}), HasSubstr("deeper than 2"));
  EXPECT_EQ(parse_error("[[1]]", {.max_depth = 2}), "no error");
  EXPECT_THAT(parse_error(std::string(10'000'000, '[')), HasSubstr("deeper than 100"));
}

TEST(JsonTest, DamagedTextIsAnErrorWithThePlace) {
  for (const char* text : {"", "{", "{\"a\": }", "[1,]", "1 2", "\"\xff\"", "{'a': 1}", "nul", "[1e999]", "// c\n1"}) {
    EXPECT_THAT(parse_error(text), HasSubstr("c.json is not valid JSON at byte")) << text;
  }
}

TEST(JsonTest, AFileIsNamedInErrors) {
  testing::TemporaryFolder folder;
  testing::write_text(folder / "config.json", "{\"a\": 1");
  EXPECT_THAT(error_of([&] { read_json(folder / "config.json"); }), HasSubstr("config.json"));
  EXPECT_THAT(error_of([&] { read_json(folder / "none.json"); }), HasSubstr("none.json': No such file"));
}

TEST(JsonTest, TextHasSortedKeysAndIsStable) {
  nlohmann::json value = parse_json(R"({"b": [], "a": {"z": 1.0, "y": "ü"}, "c": {}})", "c.json");
  EXPECT_EQ(pretty_json(value),
            "{\n  \"a\": {\n    \"y\": \"ü\",\n    \"z\": 1.0\n  },\n  \"b\": [],\n  \"c\": {}\n}\n");
  EXPECT_EQ(parse_json(pretty_json(value), "c.json"), value);
}

class JsonFieldTest : public ::testing::Test {
 protected:
  nlohmann::json document_ = parse_json(
      R"({"hidden_size": 384, "eps": 1e-12, "act": "gelu", "flag": true, "none": null, "whole": 3.0, "half": 3.5,
          "large": 18446744073709551615, "types": ["a", "b"], "ids": [1, 2], "rope": {"factor": "two"}})",
      "config.json");
  JsonField root_{document_, "config.json"};
};

TEST_F(JsonFieldTest, GettersReturnTheValue) {
  EXPECT_EQ(root_.at("hidden_size").as_int(), 384);
  EXPECT_EQ(root_.at("whole").as_int(), 3);
  EXPECT_EQ(root_.at("eps").as_double(), 1e-12);
  EXPECT_EQ(root_.at("hidden_size").as_double(), 384.0);
  EXPECT_EQ(root_.at("act").as_string(), "gelu");
  EXPECT_TRUE(root_.at("flag").as_bool());
  EXPECT_THAT(root_.at("types").as_strings(), ElementsAre("a", "b"));
  EXPECT_THAT(root_.at("ids").as_ints(), ElementsAre(1, 2));
}

TEST_F(JsonFieldTest, AbsentAndNullGiveTheFallback) {
  EXPECT_EQ(root_.get_int("absent", 7), 7);
  EXPECT_EQ(root_.get_int("none", 7), 7);
  EXPECT_EQ(root_.get_int("hidden_size", 7), 384);
  EXPECT_EQ(root_.get_string("act", "relu"), "gelu");
  EXPECT_FALSE(root_.has("none"));
  EXPECT_TRUE(root_.at("none").is_null());
}

TEST_F(JsonFieldTest, ErrorsNameFieldFileAndWhatWasFound) {
  EXPECT_EQ(error_of([&] { root_.at("act").as_int(); }),
            "The field 'act' in 'config.json' must be a whole number, not string '\"gelu\"'");
  EXPECT_THAT(error_of([&] { root_.at("rope").at("factor").as_double(); }), HasSubstr("'rope.factor'"));
  EXPECT_THAT(error_of([&] { root_.at("types").as_ints(); }), HasSubstr("'types[0]'"));
  EXPECT_THAT(error_of([&] { root_.at("half").as_int(); }), HasSubstr("whole number, not number '3.5'"));
  EXPECT_THAT(error_of([&] { root_.at("large").as_int(); }), HasSubstr("'18446744073709551615'"));
  EXPECT_THAT(error_of([&] { root_.get_bool("hidden_size", true); }), HasSubstr("true or false"));
  EXPECT_THAT(error_of([&] { root_.at("act").at("x"); }), HasSubstr("must be an object"));
}

TEST_F(JsonFieldTest, AnAbsentFieldGetsNearNames) {
  EXPECT_THAT(error_of([&] { root_.at("hiden_size"); }),
              AllOf(HasSubstr("in 'config.json' has no field 'hiden_size'"), HasSubstr("Did you mean 'hidden_size'?")));
}

}  // namespace
}  // namespace exporters
