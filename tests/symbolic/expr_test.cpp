#include "exporters/symbolic/expr.h"

#include "exporters/support/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace exporters {
namespace {

using ::testing::HasSubstr;

const Expr a = Symbol("s0");
const Expr b = Symbol("s1");
const Expr c = Symbol("s2");

TEST(Expr, LikeTermsMerge) {
  EXPECT_EQ(a + b - a, b);
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ(Expr(2) * a + Expr(3) * a, Expr(5) * a);
  EXPECT_EQ((a - a).as_int(), 0);
  EXPECT_EQ(pow(a + Expr(1), 2), a * a + Expr(2) * a + Expr(1));
}

TEST(Expr, DivisionSplitsOffMultiplesAndCancels) {
  EXPECT_EQ(floordiv(Expr(6) * a + Expr(7), 3), Expr(2) * a + Expr(2));
  EXPECT_EQ(floordiv(Expr(6) * a, Expr(4)), floordiv(Expr(3) * a, Expr(2)));
  EXPECT_EQ(floordiv(a * b * c, b), a * c);
  EXPECT_EQ(floordiv(a * b + c, b), a + floordiv(c, b));
  EXPECT_EQ(floordiv(Expr(4) * a * b, Expr(6) * a * c), floordiv(Expr(2) * b, Expr(3) * c));
  EXPECT_EQ(floordiv(a * a - b * b, a + b), a - b);
  EXPECT_EQ(floordiv(a, Expr(-3)), floordiv(-a, Expr(3)));
}

TEST(Expr, NestedDivisionsMerge) {
  EXPECT_EQ(floordiv(floordiv(a, 2), 3), floordiv(a, 6));
  EXPECT_EQ(floordiv(floordiv(a + Expr(1), 2) + Expr(1), 3), floordiv(a + Expr(3), 6));
  EXPECT_EQ(floordiv(floordiv(a, b), 3), floordiv(a, Expr(3) * b));
}

TEST(Expr, CeilingHasOneForm) {
  EXPECT_EQ(ceildiv(a, 8), floordiv(a + Expr(7), 8));
  EXPECT_EQ(floordiv(a - Expr(1), 2) + Expr(1), floordiv(a + Expr(1), 2));
}

TEST(Expr, ModuloReduces) {
  EXPECT_EQ(mod(Expr(6) * a, 3), Expr(0));
  EXPECT_EQ(mod(a + Expr(7), 3), mod(Expr(4) * a + Expr(1), 3));
  EXPECT_EQ(mod(mod(a, 12), 4), mod(a, 4));
  EXPECT_EQ(mod(Expr(4) * a, 6), Expr(2) * mod(Expr(2) * a, 3));
  EXPECT_EQ(mod(a * b, b), Expr(0));
  EXPECT_EQ(mod(a * b + c, b), mod(c, b));
  EXPECT_EQ(mod(a * b, a * c), a * mod(b, c));
}

TEST(Expr, MinimumAndMaximumFlatten) {
  EXPECT_EQ(max(max(a, b), a), max(b, a));
  EXPECT_EQ(max(max(a, 3), max(b, 5)), max(5, max(a, b)));
  EXPECT_EQ(min(a, a + Expr(1)), a);
  EXPECT_EQ(max(a, a + Expr(1)), a + Expr(1));
  EXPECT_EQ(min(a, a), a);
}

TEST(Expr, WholeScaleIsAProduct) {
  EXPECT_EQ(trunc_to_int(a, 2.0), Expr(2) * a);
  EXPECT_EQ(trunc_to_int(-a, 0.5), -trunc_to_int(a, 0.5));
  EXPECT_EQ(trunc_to_int(7, 0.5), Expr(3));
  EXPECT_THROW(trunc_to_int(a, std::nan("")), Error);
}

TEST(Expr, PrintsReadably) {
  EXPECT_EQ((Expr(2) * a + Expr(1)).str(), "2*s0 + 1");
  EXPECT_EQ(floordiv(a, 2).str(), "s0//2");
  EXPECT_EQ((Expr(3) - floordiv(a + b, 2)).str(), "-((s0 + s1)//2) + 3");
  EXPECT_EQ((Expr(3) * pow(floordiv(a, b), 2)).str(), "3*(s0//s1)**2");
  EXPECT_EQ(max(a, 1).str(), "Max(1, s0)");
  EXPECT_EQ((b - a * a - Expr(4)).str(), "-s0**2 + s1 - 4");
}

TEST(Expr, OverflowAndDivisionByZeroAreErrors) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(Expr(kMax) + Expr(1), Error);
  EXPECT_THROW(Expr(kMax) * a * Expr(2), Error);
  EXPECT_THROW(floordiv(a, 0), Error);
  EXPECT_THROW(mod(a, 0), Error);
  EXPECT_THROW(floordiv(a, b).evaluate([](Symbol) { return 0; }), Error);
  EXPECT_THROW((a * a).evaluate([](Symbol) { return kMax; }), Error);
  EXPECT_THROW(pow(a, -1), Error);
  EXPECT_EQ(Expr(kMax).as_int(), kMax);
  EXPECT_EQ(Expr(std::numeric_limits<int64_t>::min()).as_int(), std::numeric_limits<int64_t>::min());
}

TEST(Expr, FreeSymbolsAreSortedAndUnique) {
  std::vector<std::string> names;
  for (Symbol symbol : (Expr(Symbol("u3")) + max(b, a) * a).free_symbols()) {
    names.push_back(symbol.name());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"s0", "s1", "u3"}));
  EXPECT_TRUE(max(Symbol("u3"), a).has_unbacked());
  EXPECT_FALSE(max(b, a).has_unbacked());
}

TEST(BoolExpr, ComparisonsAreCanonical) {
  EXPECT_EQ(lt(a, 3), le(a, 2));
  EXPECT_EQ(gt(Expr(2) * a, 5), ge(a, 3));
  EXPECT_EQ(eq(Expr(2) * a, Expr(2) * b), eq(b, a));
  EXPECT_EQ(eq(Expr(2) * a, Expr(3)).as_bool(), false);
  EXPECT_EQ(eq(Expr(2) * floordiv(a, 2), a), eq(mod(a, 2), 0));
  EXPECT_EQ(!(lt(a, b)), ge(a, b));
  EXPECT_EQ((lt(a, b) && ge(a, b)).as_bool(), false);
  EXPECT_EQ((lt(a, b) || ge(a, b)).as_bool(), true);
  EXPECT_EQ(!(lt(a, b) && eq(a, c)), ge(a, b) || ne(a, c));
}

TEST(BoolExpr, PrintsConstantsOnTheRight) {
  EXPECT_EQ(le(a, 512).str(), "s0 <= 512");
  EXPECT_EQ(ge(a, 2).str(), "s0 >= 2");
  EXPECT_EQ(eq(a, b).str(), "Eq(s0, s1)");
  EXPECT_EQ(ne(a, 1).str(), "Ne(s0, 1)");
  EXPECT_EQ((le(a, 5) && ne(b, 3)).str(), "And(Ne(s1, 3), s0 <= 5)");
}

std::string parse_error(const std::string& text) {
  try {
    Expr::parse(text);
    BoolExpr::parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Parse, BadTextIsRefusedWithThePosition) {
  EXPECT_THAT(parse_error("s0 +"), HasSubstr("at position 4: unexpected end"));
  EXPECT_THAT(parse_error("s0 ? 3"), HasSubstr("at position 3: unexpected text"));
  EXPECT_THAT(parse_error("Frob(s0)"), HasSubstr("unknown function 'Frob'"));
  EXPECT_THAT(parse_error("FloorDiv(s0)"), HasSubstr("does not take 1 arguments"));
  EXPECT_THAT(parse_error("s0 <= 3"), HasSubstr("not an integer expression"));
  EXPECT_THAT(parse_error("s0/2"), HasSubstr("not an integer expression"));
  EXPECT_THAT(parse_error("s0//0"), HasSubstr("by zero"));
  EXPECT_THAT(parse_error("2**s0"), HasSubstr("constant exponents"));
  EXPECT_THAT(parse_error("99999999999999999999"), HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(parse_error("Symbol('a b')"), HasSubstr("identifier"));
  EXPECT_THAT(parse_error("Symbol('s0"), HasSubstr("does not end"));
  EXPECT_THAT(parse_error("Max(Eq(s0, 1), 2)"), HasSubstr("an integer is needed"));
  EXPECT_THAT(parse_error(""), HasSubstr("at position 0"));
  EXPECT_THAT(parse_error(std::string("s0\0s1", 5)), HasSubstr("at position 2"));
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) {
    result += text;
  }
  return result;
}

TEST(Parse, ReadsConditionsInPython) {
  EXPECT_EQ(BoolExpr::parse("s0 == s1 or not s0 <= 3 and s1 != 1"),
            eq(a, Expr(Symbol("s1"))) || (gt(a, 3) && ne(Expr(Symbol("s1")), 1)));
  EXPECT_EQ(BoolExpr::parse("2 <= s0 < 17"), ge(a, 2) && lt(a, 17));
  EXPECT_EQ(Expr::parse("math.floor((s0 + 1)/2)"), floordiv(a + 1, 2));
  EXPECT_EQ(Expr::parse("orange + android"), Expr(Symbol("orange")) + Expr(Symbol("android")));
  EXPECT_THAT(parse_error("os.system"), HasSubstr("unexpected text"));
}

TEST(Parse, HostileTextIsRefusedInBoundedTime) {
  const auto start = std::chrono::steady_clock::now();
  std::string many_symbols = "0";
  for (int i = 0; i < 6000; ++i) {
    many_symbols += "+x" + std::to_string(i);
  }
  const std::string hostile[] = {
      repeated("(", 20000),
      repeated("-", 20000),
      repeated("~", 20000),
      repeated("Max(s0,", 9000),
      repeated("s0**", 16000) + "2",
      "s0" + repeated("//s1", 16000),
      "s0" + repeated("%(s1+s0)", 8000),
      repeated("TruncToInt(IntTrueDiv(", 200) + "u0" + repeated(",3))", 200),
      many_symbols,
      repeated("(a+b+c+d+e+f+g+h)*", 3000) + "a",
      "(a+b+c+d+e+f)**9999999",
      repeated("9", 60000),
      repeated("s0+", 60000) + "s0",
  };
  for (const std::string& text : hostile) {
    EXPECT_THROW(Expr::parse(text), Error) << text.substr(0, 40);
  }
  const auto elapsed = std::chrono::steady_clock::now() - start;
  // Well under a second where nothing else runs; a loop without bounds takes minutes.
  EXPECT_LT(std::chrono::duration<double>(elapsed).count(), 20.0);
}

TEST(Parse, LongHarmlessTextIsRead) {
  EXPECT_EQ(Expr::parse("0" + repeated(" + s0", 5000)), Expr(5000) * a);
  EXPECT_EQ(Expr::parse(repeated("(", 200) + "s0" + repeated(")", 200)), a);
}

}  // namespace
}  // namespace exporters
