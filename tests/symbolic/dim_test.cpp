#include "exporters/symbolic/dim.h"

#include "exporters/support/error.h"

#include <gtest/gtest.h>

namespace exporters {
namespace {

// Texts as repr() of torch.export.Dim and DimHint gives them in torch 2.13.
TEST(Dim, PrintsAsTheReferencePrintsIt) {
  EXPECT_EQ(Dim::named("batch").str(), "Dim('batch', min=1)");
  EXPECT_EQ(Dim::named("b", 2, 16).str(), "Dim('b', max=16)");
  EXPECT_EQ(Dim::named("b", 0, 16).str(), "Dim('b', min=0, max=16)");
  EXPECT_EQ(Dim::derived("b", 2, 1).str(), "2*b + 1");
  EXPECT_EQ(Dim::Auto().str(), "DimHint(AUTO)");
  EXPECT_EQ(Dim::Auto(2, 5).str(), "DimHint(AUTO, min=2, max=5)");
  EXPECT_EQ(Dim::Static().str(), "DimHint(STATIC)");
}

TEST(Dim, ParsesNamesAndDerivedForms) {
  EXPECT_EQ(Dim::parse("batch").name(), "batch");
  EXPECT_EQ(Dim::parse("batch").factor(), 1);
  const Dim derived = Dim::parse("2*batch - 1");
  EXPECT_EQ(derived.name(), "batch");
  EXPECT_EQ(derived.factor(), 2);
  EXPECT_EQ(derived.offset(), -1);
}

TEST(Dim, RefusesOtherExpressions) {
  for (const char* text : {"a*b", "a + b", "-a", "a//2", "3", "a**2", "", "2*", "Max(a, 1)"}) {
    EXPECT_THROW(Dim::parse(text), Error) << text;
  }
  EXPECT_THROW(Dim::derived("batch", 0, 1), Error);
}

TEST(Dim, RefusesImpossibleRangesAndNames) {
  EXPECT_THROW(Dim::named("b", 5, 4), Error);
  EXPECT_THROW(Dim::named("b", -1, 4), Error);
  EXPECT_THROW(Dim::Auto(9, 3), Error);
  EXPECT_THROW(Dim::named(""), Error);
  EXPECT_THROW(Dim::named("two words"), Error);
  EXPECT_THROW(Dim::named("1st"), Error);
}

TEST(Range, PrintsOpenEndsAsTorchDoes) {
  EXPECT_EQ((Range{1, 512}).str(), "[1, 512]");
  EXPECT_EQ((Range{1, Range::kMax}).str(), "[1, int_oo]");
  EXPECT_EQ(Range{}.str(), "[-int_oo, int_oo]");
}

}  // namespace
}  // namespace exporters
