#include "exporters/symbolic/shape_env.h"

#include "exporters/support/error.h"
#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

namespace exporters {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

std::vector<std::string> guard_texts(const ShapeEnv& env) {
  std::vector<std::string> texts;
  for (const Guard& guard : env.guards()) {
    texts.push_back(guard.condition.str());
  }
  return texts;
}

TEST(ShapeEnv, AutoAxesGetFreshSymbolsWhateverTheSample) {
  ShapeEnv env;
  for (int64_t sample : {8, 1, 0}) {
    const Expr e = env.add_axis({"x", sample}, sample, Dim::Auto());
    EXPECT_TRUE(e.as_symbol()) << sample;
    EXPECT_EQ(env.hint(e), sample);
    EXPECT_EQ(env.bounds(e), (Range{0, Range::kMax}));
  }
  EXPECT_EQ(env.range_constraints().size(), 3u);
}

TEST(ShapeEnv, StaticAxisIsItsSample) {
  ShapeEnv env;
  EXPECT_EQ(env.add_axis({"x", 0}, 7, Dim::Static()), Expr(7));
  EXPECT_TRUE(env.range_constraints().empty());
}

TEST(ShapeEnv, EqualityThatIsTrueMakesAnAutoAxisStaticAndReportsIt) {
  ShapeEnv env;
  const Expr s = env.add_axis({"input_ids", 1}, 1, Dim::Auto());
  {
    const ModuleScope scope("encoder");
    const OpScope op("aten::squeeze");
    EXPECT_TRUE(env.evaluate(eq(s, 1)));
  }
  EXPECT_EQ(env.simplify(s), Expr(1));
  const auto specializations = env.specializations();
  ASSERT_EQ(specializations.size(), 1u);
  EXPECT_EQ(specializations[0].source.input, "input_ids");
  EXPECT_EQ(specializations[0].source.axis, 1);
  EXPECT_EQ(specializations[0].value, 1);
  EXPECT_EQ(specializations[0].place.module_path, "encoder");
  EXPECT_THAT(specializations[0].str(), HasSubstr("input_ids axis 1 became static: 1 (encoder, aten::squeeze"));
  EXPECT_TRUE(env.guards().empty());
}

TEST(ShapeEnv, EqualityThatIsFalseBecomesAGuard) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto());
  EXPECT_FALSE(env.evaluate(eq(s, 1)));
  EXPECT_EQ(guard_texts(env), std::vector<std::string>{"Ne(s0, 1)"});
  EXPECT_EQ(env.statically(eq(s, 1)), false);
  EXPECT_TRUE(env.specializations().empty());
}

TEST(ShapeEnv, InequalityAtTheEndOfARangeMovesTheEnd) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto(1, 100));
  EXPECT_FALSE(env.evaluate(eq(s, 1)));
  EXPECT_EQ(env.range_constraints().at("s0"), (Range{2, 100}));
  EXPECT_TRUE(env.guards().empty());
  // An inner exclusion counts as soon as the end reaches it.
  EXPECT_FALSE(env.evaluate(eq(s, 50)));
  EXPECT_EQ(guard_texts(env), std::vector<std::string>{"Ne(s0, 50)"});
  EXPECT_TRUE(env.evaluate(le(s, 50)));
  EXPECT_EQ(env.range_constraints().at("s0"), (Range{2, 49}));
  EXPECT_TRUE(env.guards().empty());
}

TEST(ShapeEnv, OneSymbolInequalityTightensTheRangeAndIsNotRepeated) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto());
  EXPECT_TRUE(env.evaluate(le(s, 512)));
  EXPECT_TRUE(env.evaluate(gt(Expr(2) * s, 5)));
  EXPECT_EQ(env.range_constraints().at("s0"), (Range{3, 512}));
  EXPECT_TRUE(env.guards().empty());
  EXPECT_EQ(env.statically(lt(s, 513)), true);
}

TEST(ShapeEnv, RangeThatShrinksToOneValueIsASpecialization) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 4, Dim::Auto(4, 9));
  EXPECT_TRUE(env.evaluate(le(s, 4)));
  EXPECT_EQ(env.simplify(s), Expr(4));
  ASSERT_EQ(env.specializations().size(), 1u);
  EXPECT_EQ(env.specializations()[0].value, 4);
}

TEST(ShapeEnv, EqualSymbolsBecomeOne) {
  ShapeEnv env;
  const Expr a = env.add_axis({"x", 0}, 5, Dim::Auto(2, 50));
  const Expr b = env.add_axis({"y", 0}, 5, Dim::Auto(3, 90));
  EXPECT_TRUE(env.evaluate(eq(a, b)));
  EXPECT_EQ(env.simplify(b), a);
  EXPECT_EQ(env.range_constraints(), (std::map<std::string, Range>{{"s0", {3, 50}}}));
  EXPECT_TRUE(env.guards().empty());
  EXPECT_EQ(env.sources(Symbol("s0")).size(), 2u);
  // Later facts about one hold for both.
  EXPECT_EQ(env.specialize(b), 5);
  EXPECT_EQ(env.specializations().size(), 2u);
}

TEST(ShapeEnv, EqualityIsSolvedForOneSymbol) {
  ShapeEnv env;
  const Expr past = env.add_axis({"past", 2}, 6, Dim::Auto());
  const Expr length = env.add_axis({"ids", 1}, 2, Dim::Auto());
  const Expr mask = env.add_axis({"mask", 1}, 8, Dim::Auto());
  EXPECT_TRUE(env.evaluate(eq(mask, past + length)));
  EXPECT_EQ(env.simplify(mask), past + length);
  EXPECT_TRUE(env.guards().empty());
}

TEST(ShapeEnv, ReplacedSymbolLeavesItsRangeBehind) {
  ShapeEnv env;
  const Expr a = env.add_axis({"x", 0}, 3, Dim::Auto());
  const Expr b = env.add_axis({"y", 0}, 7, Dim::Auto(5, 21));
  EXPECT_TRUE(env.evaluate(eq(b, Expr(2) * a + Expr(1))));
  EXPECT_EQ(env.simplify(b), Expr(2) * a + Expr(1));
  EXPECT_EQ(env.range_constraints(), (std::map<std::string, Range>{{"s0", {2, 10}}}));
}

TEST(ShapeEnv, EqualityWithoutAUnitCoefficientStaysAGuard) {
  ShapeEnv env;
  const Expr a = env.add_axis({"x", 0}, 6, Dim::Auto());
  const Expr b = env.add_axis({"y", 0}, 4, Dim::Auto());
  EXPECT_TRUE(env.evaluate(eq(Expr(2) * a, Expr(3) * b)));
  EXPECT_EQ(guard_texts(env), std::vector<std::string>{"Eq(2*s0, 3*s1)"});
  EXPECT_EQ(env.statically(eq(Expr(4) * a, Expr(6) * b)), true);
  EXPECT_EQ(env.statically(lt(Expr(2) * a, Expr(3) * b + Expr(1))), true);
}

TEST(ShapeEnv, CommonFactorThatCannotBeZeroCancels) {
  ShapeEnv env;
  const Expr a = env.add_axis({"x", 0}, 3, Dim::Auto(1));
  const Expr b = env.add_axis({"x", 1}, 8, Dim::Auto());
  EXPECT_TRUE(env.evaluate(eq(a * b, Expr(8) * a)));
  EXPECT_EQ(env.simplify(b), Expr(8));
}

TEST(ShapeEnv, EarlierGuardIsSolvedOnceAReplacementAllowsIt) {
  ShapeEnv env;
  const Expr a = env.add_axis({"x", 0}, 3, Dim::Auto());
  const Expr b = env.add_axis({"x", 1}, 4, Dim::Auto());
  EXPECT_TRUE(env.evaluate(eq(a * b, 12)));
  EXPECT_EQ(env.specialize(a), 3);
  EXPECT_EQ(env.simplify(b), Expr(4));
  EXPECT_EQ(env.specializations().size(), 2u);
  EXPECT_TRUE(env.guards().empty());
}

TEST(ShapeEnv, DivisibilityGuardSimplifiesLaterDivisions) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto());
  EXPECT_TRUE(env.evaluate(eq(mod(s, 4), 0)));
  EXPECT_EQ(guard_texts(env), std::vector<std::string>{"Eq(Mod(s0, 4), 0)"});
  EXPECT_EQ(env.statically(eq(Expr(4) * floordiv(s, 4), s)), true);
  EXPECT_EQ(env.simplify(mod(s, 4)), Expr(0));
}

TEST(ShapeEnv, RangesResolveMinMaxModAndDivision) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto(2, 10));
  EXPECT_EQ(env.simplify(max(1, s)), s);
  EXPECT_EQ(env.simplify(min(s, 10)), s);
  EXPECT_EQ(env.simplify(mod(s, 11)), s);
  EXPECT_EQ(env.simplify(floordiv(s, 11)), Expr(0));
  EXPECT_EQ(env.simplify(floordiv(s + Expr(30), 40)), Expr(floordiv(Expr(32), 40)) + floordiv(s + Expr(30), 40));
  EXPECT_EQ(env.statically(le(floordiv(s, 2), s)), true);
  EXPECT_EQ(env.statically(ge(max(s, 5), s)), true);
}

TEST(ShapeEnv, RepeatedGuardsAreKeptOnceWithTheFirstPlace) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto());
  const Expr t = env.add_axis({"x", 1}, 3, Dim::Auto());
  for (const char* name : {"first", "second"}) {
    const ModuleScope scope(name);
    EXPECT_TRUE(env.evaluate(lt(t, s)));
  }
  ASSERT_EQ(env.guards().size(), 1u);
  EXPECT_EQ(env.guards()[0].place.module_path, "first");
  EXPECT_EQ(env.guards()[0].condition.str(), "s1 <= s0 - 1");
}

TEST(ShapeEnv, NamedDimIsSharedByItsAxes) {
  ShapeEnv env;
  const Expr a = env.add_axis({"x", 0}, 4, Dim::named("batch", 1, 64));
  const Expr b = env.add_axis({"y", 0}, 4, Dim::named("batch", 1, 32));
  EXPECT_EQ(a, b);
  EXPECT_EQ(env.bounds(a), (Range{1, 32}));
  EXPECT_EQ(env.dim_name(*a.as_symbol()), "batch");
  EXPECT_THAT(error_of([&] {
                env.add_axis({"z", 0}, 5, Dim::named("batch"));
              }),
              HasSubstr("input 'z' axis 0 makes Dim 'batch' 5, but input 'x' axis 0"));
}

TEST(ShapeEnv, NamedDimThatWouldBecomeStaticIsAnErrorWithTheWholeStory) {
  ShapeEnv env;
  const Expr batch = env.add_axis({"input_ids", 0}, 1, Dim::named("batch"));
  const ModuleScope scope("pooler");
  const std::string what = error_of([&] { env.evaluate(eq(batch, 1)); });
  EXPECT_THAT(what, HasSubstr("input 'input_ids' axis 0 (Dim 'batch')"));
  EXPECT_THAT(what, HasSubstr("fixes it to 1"));
  EXPECT_THAT(what, HasSubstr("pooler"));
}

TEST(ShapeEnv, NamedDimWhoseDeclaredRangeTheModelCannotTakeIsAnError) {
  ShapeEnv env;
  const Expr length = env.add_axis({"input_ids", 1}, 8, Dim::named("sequence", 1, 1000));
  try {
    env.evaluate(le(length, 512));
    FAIL() << "the range was narrowed in silence";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("[1, 1000]"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("[1, 512]"));
  }
}

TEST(ShapeEnv, NamedDimWithoutAnUpperBoundTakesTheModels) {
  ShapeEnv env;
  const Expr length = env.add_axis({"input_ids", 1}, 8, Dim::named("sequence"));
  EXPECT_TRUE(env.evaluate(le(length, 512)));
  EXPECT_EQ(env.range_constraints().begin()->second, (Range{1, 512}));
}

TEST(ShapeEnv, TwoNamedDimsForcedEqualAreAnError) {
  ShapeEnv env;
  const Expr a = env.add_axis({"x", 0}, 4, Dim::named("a"));
  const Expr b = env.add_axis({"y", 0}, 4, Dim::named("b"));
  EXPECT_THAT(error_of([&] { env.evaluate(eq(a, b)); }), HasSubstr("Eq(s0, s1)"));
  EXPECT_THAT(error_of([&] { env.broadcast(a, b); }), HasSubstr("cannot be independent"));
}

TEST(ShapeEnv, NamedSurvivesUnificationWithAuto) {
  ShapeEnv env;
  const Expr anonymous = env.add_axis({"x", 0}, 4, Dim::Auto());
  const Expr batch = env.add_axis({"y", 0}, 4, Dim::named("batch"));
  EXPECT_TRUE(env.evaluate(eq(anonymous, batch)));
  EXPECT_EQ(env.simplify(anonymous), batch);
  EXPECT_EQ(env.dim_name(*anonymous.as_symbol()), "batch");
}

TEST(ShapeEnv, NamedReachedThroughAnAutoSymbolIsStillAnError) {
  ShapeEnv env;
  const Expr batch = env.add_axis({"x", 0}, 4, Dim::named("batch"));
  const Expr twice = env.add_axis({"y", 0}, 8, Dim::Auto());
  EXPECT_TRUE(env.evaluate(eq(twice, Expr(2) * batch)));
  EXPECT_THAT(error_of([&] { env.specialize(twice); }), HasSubstr("fixes it to 4"));
}

TEST(ShapeEnv, DerivedDimSolvesItsRootFromTheSample) {
  ShapeEnv env;
  const Expr derived = env.add_axis({"x", 0}, 9, Dim::derived("batch", 2, 1));
  EXPECT_EQ(derived.str(), "2*s0 + 1");
  EXPECT_EQ(env.hint(Expr(Symbol("s0"))), 4);
  EXPECT_EQ(env.add_axis({"y", 0}, 4, Dim::named("batch")), Expr(Symbol("s0")));
  EXPECT_EQ(env.sources(Symbol("s0")).size(), 1u);
  EXPECT_EQ(env.sources(Symbol("s0"))[0].input, "y");
}

TEST(ShapeEnv, SampleThatDoesNotFitADerivedDimIsAnError) {
  ShapeEnv env;
  EXPECT_THAT(error_of([&] {
                env.add_axis({"x", 0}, 8, Dim::derived("batch", 2, 1));
              }),
              HasSubstr("size 8, which is not of the form 2*batch + 1"));
  env.add_axis({"y", 0}, 3, Dim::named("batch"));
  EXPECT_THAT(error_of([&] {
                env.add_axis({"x", 0}, 9, Dim::derived("batch", 2, 1));
              }),
              HasSubstr("makes Dim 'batch' 4, but input 'y' axis 0 (Dim 'batch') makes it 3"));
}

TEST(ShapeEnv, SampleOutsideTheDeclaredRangeIsAnError) {
  ShapeEnv env;
  EXPECT_THAT(error_of([&] {
                env.add_axis({"x", 0}, 65, Dim::named("batch", 1, 64));
              }),
              HasSubstr("sample size 65, outside the range [1, 64]"));
  EXPECT_THAT(error_of([&] { env.add_axis({"x", 0}, 0, Dim::named("batch")); }), HasSubstr("outside the range"));
  EXPECT_THAT(error_of([&] { env.add_axis({"x", 0}, 1, Dim::Auto(2)); }), HasSubstr("outside the range"));
  EXPECT_THAT(error_of([&] { env.add_axis({"x", 0}, -1, Dim::Auto()); }), HasSubstr("negative size"));
}

TEST(ShapeEnv, RequirementThatIsFalseIsAnError) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto());
  EXPECT_THAT(error_of([&] { env.require(le(s, 7)); }), HasSubstr("s0 <= 7 does not hold for the sample inputs"));
  env.require(ge(s, 8));
  EXPECT_EQ(env.range_constraints().at("s0").min, 8);
  EXPECT_THAT(error_of([&] { env.require(lt(s, 8)); }), HasSubstr("does not hold"));
}

TEST(ShapeEnv, QuestionAboutUnbackedDataIsAnErrorUnlessFactsDecide) {
  ShapeEnv env;
  const Expr u = env.add_unbacked({0, 100});
  EXPECT_EQ(u.str(), "u0");
  EXPECT_EQ(env.hint(u), std::nullopt);
  EXPECT_TRUE(env.evaluate(ge(u, 0)));
  const ModuleScope scope("router");
  const std::string what = error_of([&] { env.evaluate(eq(u, 3)); });
  EXPECT_THAT(what, HasSubstr("data-dependent"));
  EXPECT_THAT(what, HasSubstr("router"));
  EXPECT_THAT(error_of([&] { env.specialize(u + Expr(1)); }), HasSubstr("data-dependent"));
  EXPECT_TRUE(env.guards().empty());
}

TEST(ShapeEnv, RequirementOnUnbackedDataIsKeptAsAnAssertion) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto());
  const Expr u = env.add_unbacked();
  env.require(eq(u, s + Expr(1)));
  EXPECT_EQ(env.simplify(u), s + Expr(1));
  EXPECT_EQ(guard_texts(env), std::vector<std::string>{"Eq(s0, u0 - 1)"});
  const Expr v = env.add_unbacked();
  env.require(le(v, s));
  EXPECT_EQ(env.statically(le(v, s)), true);
  EXPECT_EQ(guard_texts(env).back(), "u1 <= s0");
}

TEST(ShapeEnv, ContradictionOfEarlierFactsIsAnError) {
  ShapeEnv env;
  const Expr u = env.add_unbacked();
  env.require(le(u, 5));
  EXPECT_THAT(error_of([&] { env.require(ge(u, 6)); }), HasSubstr("does not hold"));
  env.declare(Symbol("s7"), {2, 9});
  EXPECT_THAT(error_of([&] { env.require(eq(Expr(Symbol("s7")), 10)); }), HasSubstr("does not hold"));
}

TEST(ShapeEnv, CombinationIsDecidedByItsBackedPart) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 8, Dim::Auto());
  const Expr u = env.add_unbacked();
  EXPECT_TRUE(env.evaluate(eq(u, 1) || ge(s, 4)));
  EXPECT_EQ(env.range_constraints().at("s0").min, 4);
  EXPECT_FALSE(env.evaluate(eq(u, 1) && eq(s, 5)));
}

TEST(ShapeEnv, TimeGrowsLinearlyWithTheNumberOfGuards) {
  auto seconds = [](int64_t count) {
    ShapeEnv env;
    const Expr s = env.add_axis({"x", 0}, 1 << 20, Dim::Auto());
    const Expr t = env.add_axis({"x", 1}, 1 << 20, Dim::Auto());
    const std::clock_t start = std::clock();
    for (int64_t i = 2; i < count + 2; ++i) {
      env.evaluate(eq(mod(s * t, i), i - 1));
    }
    EXPECT_EQ(env.guards().size(), static_cast<size_t>(count));
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  // Eight times the guards take about eight times as long; a quadratic algorithm takes 64 times.
  const double base = seconds(1000);
  EXPECT_LT(seconds(8000), 30 * base);
}

// ── Broadcast ──

TEST(Broadcast, SameExpressionAsksNothing) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 5, Dim::Auto());
  EXPECT_EQ(env.broadcast(s, s), s);
  EXPECT_EQ(env.broadcast(s, 1), s);
  EXPECT_EQ(env.broadcast(1, s), s);
  EXPECT_TRUE(env.guards().empty());
  EXPECT_EQ(env.bounds(s), (Range{0, Range::kMax}));
}

TEST(Broadcast, SymbolsWithEqualSamplesBecomeOne) {
  for (int64_t sample : {5, 1, 0}) {
    ShapeEnv env;
    const Expr a = env.add_axis({"x", 0}, sample, Dim::Auto());
    const Expr b = env.add_axis({"y", 0}, sample, Dim::Auto());
    EXPECT_EQ(env.broadcast(b, a), a) << sample;
    EXPECT_EQ(env.simplify(b), a);
    EXPECT_TRUE(env.specializations().empty());
  }
}

TEST(Broadcast, SampleOneAgainstAnotherSizeMakesTheOneStatic) {
  ShapeEnv env;
  const Expr one = env.add_axis({"x", 0}, 1, Dim::Auto());
  const Expr many = env.add_axis({"y", 0}, 5, Dim::Auto());
  EXPECT_EQ(env.broadcast(many, one), many);
  EXPECT_EQ(env.simplify(one), Expr(1));
  ASSERT_EQ(env.specializations().size(), 1u);
  EXPECT_EQ(env.specializations()[0].source.input, "x");
  EXPECT_TRUE(env.simplify(many).as_symbol());
}

TEST(Broadcast, ConstantOfTheSameSizeMakesTheSymbolStatic) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 5, Dim::Auto());
  EXPECT_EQ(env.broadcast(s, 5), Expr(5));
  EXPECT_EQ(env.specializations().size(), 1u);
}

TEST(Broadcast, SampleOneAgainstALargerConstantMakesItStaticOne) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 1, Dim::Auto());
  EXPECT_EQ(env.broadcast(s, 5), Expr(5));
  EXPECT_EQ(env.simplify(s), Expr(1));
}

TEST(Broadcast, DifferentSizesAreAnError) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 5, Dim::Auto());
  EXPECT_THAT(error_of([&] { env.broadcast(s, 4); }), HasSubstr("sizes s0 (here 5) and 4 do not broadcast"));
  EXPECT_THAT(error_of([&] { env.broadcast(3, 4); }), HasSubstr("sizes 3 and 4 do not broadcast"));
}

TEST(Broadcast, UnbackedSizeIsTakenAsEqualNeverAsOne) {
  ShapeEnv env;
  const Expr s = env.add_axis({"x", 0}, 1, Dim::Auto());
  const Expr u = env.add_unbacked();
  EXPECT_EQ(env.broadcast(u, 1), u);
  EXPECT_EQ(env.broadcast(u, s), s);
  EXPECT_EQ(env.simplify(u), s);
  EXPECT_EQ(guard_texts(env), std::vector<std::string>{"Eq(s0, u0)"});
}

TEST(Broadcast, NamedDimThatMustBeOneIsAnError) {
  ShapeEnv env;
  const Expr batch = env.add_axis({"x", 0}, 1, Dim::named("batch"));
  EXPECT_THAT(error_of([&] { env.broadcast(batch, 5); }), HasSubstr("cannot stay dynamic"));
}

}  // namespace
}  // namespace exporters
