#include "exporters/support/near.h"

#include "exporters/support/quote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {"attention_mask", "input_ids", "position_ids", "token_type_ids"};

TEST(NearTest, NearestComeFirst) {
  EXPECT_THAT(near_misses("input_id", kNames), ElementsAre("input_ids"));
  EXPECT_THAT(near_misses("inptu_ids", kNames), ElementsAre("input_ids"));
  std::vector<std::string> close = {"abcdef", "abcdxx", "abcdex"};
  EXPECT_THAT(near_misses("abcdef_", close), ElementsAre("abcdef", "abcdex"));
}

TEST(NearTest, CaseCostsNothing) { EXPECT_THAT(near_misses("INPUT_IDS", kNames), ElementsAre("input_ids")); }

TEST(NearTest, FarNamesAreNotSuggested) {
  EXPECT_THAT(near_misses("pixel_values", kNames), IsEmpty());
  EXPECT_THAT(near_misses("", kNames), IsEmpty());
  EXPECT_EQ(did_you_mean("pixel_values", kNames), "");
}

TEST(NearTest, SeveralAreJoined) {
  std::vector<std::string> names = {"w1", "w2", "w3", "w4"};
  EXPECT_EQ(did_you_mean("w", names), "Did you mean 'w1', 'w2' or 'w3'?");
}

TEST(NearTest, SuggestListsAllWhereNothingIsNear) {
  const std::vector<std::string_view> names = {"gelu", "relu"};
  EXPECT_EQ(suggest("geul", names), "Did you mean 'gelu'?");
  EXPECT_EQ(suggest("hyperbolic", names), "Known are: gelu, relu.");
}

TEST(NearTest, LongNamesCostNothing) {
  std::vector<std::string> names(1'000, std::string(1'000'000, 'a'));
  EXPECT_THAT(near_misses(std::string(1'000'000, 'a') + "b", names), IsEmpty());
  EXPECT_THAT(near_misses("aaa", names), IsEmpty());
}

TEST(QuoteTest, ControlCharactersAreEscapedAndLongTextCut) {
  EXPECT_EQ(quote("a\nb\x7f"), "'a\\x0ab\\x7f'");
  EXPECT_EQ(quote("äöü", 3), "'ä…'");
  EXPECT_EQ(quote("abc", 3), "'abc'");
}

TEST(QuoteTest, BytesAreCountedAndRounded) {
  EXPECT_EQ(short_bytes_text(999), "999 B");
  EXPECT_EQ(short_bytes_text(90'868'376), "90.9 MB");
  EXPECT_EQ(bytes_text(9'999), "9999 bytes");
  EXPECT_EQ(bytes_text(40'000'000'000), "40000000000 bytes (40.0 GB)");
  EXPECT_EQ(bytes_text(UINT64_MAX), "18446744073709551615 bytes (18.4 EB)");
  EXPECT_EQ(shape_text({2, 0, 3}), "[2, 0, 3]");
  EXPECT_EQ(shape_text({}), "[]");
}

}  // namespace
}  // namespace exporters
