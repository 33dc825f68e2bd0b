// `hfx operators`.
#include "tests/cli/hfx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::hfx;

TEST(Operators, AreThoseOfTheOpsThatAreNamed) {
  const auto result = hfx({"operators", "gelu", "aten.max.dim", "--json"});

  ASSERT_EQ(result.code, 0) << result.err;
  const json rows = json::parse(result.out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1], (json{{"op", "aten.gelu"}, {"opset", 20}, {"operators", {"Gelu"}}, {"refused", ""}}));
  EXPECT_EQ(rows[2].at("op"), "aten.max.dim");
}

TEST(Operators, OfAllOverloadsComeByTheName) {
  const json rows = json::parse(hfx({"operators", "aten.max", "--json"}).out);
  EXPECT_EQ(rows.size(), 3u);  // .default, .dim, .other
  EXPECT_THAT(hfx({"operators", "dropout"}).out, AllOf(HasSubstr("aten.dropout"), HasSubstr("refused")));
}

TEST(Operators, OfAnUnknownOpAreAnError) {
  const auto result = hfx({"operators", "aten.gelo"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("'aten.gelo'"), HasSubstr("aten.gelu")));
}

}  // namespace
}  // namespace exporters
