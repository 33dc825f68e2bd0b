#include "exporters/symbolic/sym_node.h"

#include "exporters/support/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace exporters {
namespace {

using ::testing::HasSubstr;

class SymNode : public ::testing::Test {
 protected:
  c10::SymInt axis(int64_t sample, const Dim& dim = Dim::Auto()) {
    return to_sym_int(env_->add_axis({"x", axes_++}, sample, dim), env_);
  }
  c10::SymInt unbacked() { return to_sym_int(env_->add_unbacked(), env_); }
  size_t guards() const { return env_->guards().size(); }
  Range range(const c10::SymInt& s) const { return env_->bounds(to_expr(s)); }
  int64_t at_sample(const c10::SymInt& s) const { return *env_->hint(to_expr(s)); }

  std::shared_ptr<ShapeEnv> env_ = std::make_shared<ShapeEnv>();
  int64_t axes_ = 0;
};

TEST_F(SymNode, ConstantsArePlainIntegers) {
  EXPECT_FALSE(to_sym_int(Expr(5), env_).is_heap_allocated());
  const c10::SymInt s = axis(8);
  EXPECT_TRUE(s.is_symbolic());
  EXPECT_EQ((s - s).maybe_as_int(), 0);
  EXPECT_EQ((s * 0).maybe_as_int(), 0);
  EXPECT_EQ(env_->specialize(to_expr(s)), 8);
  // A node made before the size became static is a number from now on.
  EXPECT_EQ(s.maybe_as_int(), 8);
  EXPECT_FALSE(s.is_symbolic());
  EXPECT_EQ((s + 1).maybe_as_int(), 9);
}

TEST_F(SymNode, ArithmeticEqualsPlainArithmeticInEitherOrder) {
  for (int64_t a : {7, 1, 12}) {
    for (int64_t b : {3, 5}) {
      const c10::SymInt x = axis(a);
      const c10::SymInt y = axis(b);
      EXPECT_EQ(at_sample(x + y), a + b);
      EXPECT_EQ(at_sample(x - y), a - b);
      EXPECT_EQ(at_sample(x * y), a * b);
      EXPECT_EQ(at_sample(x / y), a / b);
      EXPECT_EQ(at_sample(x % y), a % b);
      EXPECT_EQ(at_sample(x.min(y)), std::min(a, b));
      EXPECT_EQ(at_sample(x.max(y)), std::max(a, b));
      EXPECT_EQ(at_sample(x + b), a + b);
      EXPECT_EQ(at_sample(a + y), a + b);
      EXPECT_EQ(at_sample(x - b), a - b);
      EXPECT_EQ(at_sample(a - y), a - b);
      EXPECT_EQ(at_sample(a * y), a * b);
      EXPECT_EQ(at_sample(x / b), a / b);
      EXPECT_EQ(at_sample(c10::SymInt(a) / y), a / b);
      EXPECT_EQ(at_sample(c10::SymInt(a) % y), a % b);
      EXPECT_EQ(at_sample(c10::SymInt(a).max(y)), std::max(a, b));
      c10::SymInt z = x;
      z += y;
      z *= b;
      z /= 2;
      EXPECT_EQ(at_sample(z), (a + b) * b / 2);
    }
  }
  EXPECT_EQ(guards(), 0u);
}

TEST_F(SymNode, LargeNegativeConstantsTakePart) {
  const int64_t least = std::numeric_limits<int64_t>::min() + 1;
  const c10::SymInt s = axis(8);
  ASSERT_TRUE(c10::SymInt(least).is_heap_allocated());
  EXPECT_EQ(at_sample(s + c10::SymInt(least)), 8 + least);
  EXPECT_EQ(at_sample(c10::SymInt(least) + s), 8 + least);
  EXPECT_EQ(s.sym_gt(c10::SymInt(least)).maybe_as_bool(), true);
  EXPECT_EQ(c10::SymInt(least).sym_lt(s).maybe_as_bool(), true);
}

TEST_F(SymNode, ComparisonsAnswerLikePlainOnesAndRecordGuards) {
  const c10::SymInt x = axis(7);
  const c10::SymInt y = axis(3);
  EXPECT_TRUE(x > y);
  EXPECT_FALSE(x == y);
  EXPECT_TRUE(y != x);
  EXPECT_TRUE(y <= x);
  EXPECT_FALSE(3 > x);
  EXPECT_TRUE(x >= 2);
  EXPECT_EQ(guards(), 1u);  // s1 < s0; the rest follows from it or is in the range
  EXPECT_EQ(range(x).min, 3);
}

TEST_F(SymNode, EqualityThatIsTrueUnifies) {
  const c10::SymInt x = axis(4);
  const c10::SymInt y = axis(4);
  EXPECT_TRUE(x == y);
  EXPECT_EQ(env_->simplify(to_expr(y)), to_expr(x));
  EXPECT_EQ((x - y).maybe_as_int(), 0);
}

TEST_F(SymNode, GuardIntMakesTheAxisStatic) {
  const c10::SymInt x = axis(6);
  EXPECT_EQ((x * 2).guard_int(__FILE__, __LINE__), 12);
  EXPECT_EQ(env_->specializations().size(), 1u);
  EXPECT_EQ(x.maybe_as_int(), 6);
}

TEST_F(SymNode, HesitantQuestionsAskNothing) {
  const c10::SymInt x = axis(1);
  const c10::SymBool is_one = x.sym_eq(1);
  EXPECT_FALSE(is_one.guard_or_false(__FILE__, __LINE__));
  EXPECT_TRUE(is_one.guard_or_true(__FILE__, __LINE__));
  EXPECT_FALSE(is_one.guard_size_oblivious(__FILE__, __LINE__));
  EXPECT_FALSE(is_one.statically_known_true(__FILE__, __LINE__));
  EXPECT_TRUE(x.sym_ge(0).guard_or_false(__FILE__, __LINE__));
  EXPECT_FALSE(x.sym_lt(0).guard_or_true(__FILE__, __LINE__));
  EXPECT_EQ(guards(), 0u);
  EXPECT_TRUE(x.is_symbolic());
}

TEST_F(SymNode, ExpectTrueRequiresWhatTheSamplesAllow) {
  const c10::SymInt x = axis(6);
  EXPECT_TRUE(x.sym_le(10).expect_true(__FILE__, __LINE__));
  EXPECT_EQ(range(x), (Range{0, 10}));
  EXPECT_FALSE(x.sym_eq(7).expect_true(__FILE__, __LINE__));
  EXPECT_FALSE(x.sym_gt(10).expect_true(__FILE__, __LINE__));
  const c10::SymInt u = unbacked();
  EXPECT_TRUE(u.sym_le(x).expect_true(__FILE__, __LINE__));
  EXPECT_EQ(u.sym_le(10).maybe_as_bool(), std::nullopt);
  EXPECT_EQ(u.sym_le(x).maybe_as_bool(), true);
}

TEST_F(SymNode, SizesTellNoHintWhileTheyAreSymbolic) {
  EXPECT_FALSE(axis(3).has_hint());
  EXPECT_FALSE(unbacked().has_hint());
  const c10::SymInt fixed = axis(3);
  fixed.guard_int(__FILE__, __LINE__);
  EXPECT_TRUE(fixed.has_hint());
}

TEST_F(SymNode, QuestionsAboutDataAreErrorsWithThePlace) {
  const c10::SymInt u = unbacked();
  const ModuleScope scope("experts");
  for (int question = 0; question < 3; ++question) {
    try {
      question == 0   ? static_cast<void>(u == 3)
      : question == 1 ? static_cast<void>(u.guard_int(__FILE__, __LINE__))
                      : static_cast<void>(c10::SymFloat(u).guard_float(__FILE__, __LINE__));
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("data-dependent"));
      EXPECT_THAT(error.what(), HasSubstr("experts"));
    }
  }
}

TEST_F(SymNode, BoolsCombineAndBecomeNumbers) {
  const c10::SymInt x = axis(6);
  const c10::SymInt y = axis(2);
  const c10::SymBool both = x.sym_gt(3) & y.sym_eq(2);
  EXPECT_EQ(to_bool_expr(both), gt(to_expr(x), 3) && eq(to_expr(y), 2));
  EXPECT_EQ(to_bool_expr(~x.sym_gt(3)), le(to_expr(x), 3));
  EXPECT_EQ(at_sample(both.toSymInt()), 1);
  EXPECT_EQ(at_sample((x.sym_gt(3) & y.sym_eq(3)).toSymInt()), 0);
  EXPECT_EQ(at_sample((x.sym_lt(3) | y.sym_ne(3)).toSymInt()), 1);
  EXPECT_EQ(guards(), 0u);
  EXPECT_TRUE(both.guard_bool(__FILE__, __LINE__));
  EXPECT_EQ(y.maybe_as_int(), 2);
}

TEST_F(SymNode, IteChoosesByFactsOrStaysAnExpression) {
  const c10::SymInt x = axis(6);
  const c10::SymInt y = axis(2);
  const auto node = x.sym_gt(y).toSymNodeImpl();
  const c10::SymInt chosen(node->sym_ite(x.wrap_node(x.toSymNode()), y.toSymNode()));
  for (const auto& [a, b] : {std::pair{6, 2}, {2, 6}, {3, 3}, {0, 9}}) {
    const int64_t value =
        to_expr(chosen).evaluate([&, a = a, b = b](Symbol s) { return Expr(s) == to_expr(x) ? a : b; });
    EXPECT_EQ(value, a > b ? a : b);
  }
}

TEST_F(SymNode, FloatsOfSizesRoundBackToIntegers) {
  const c10::SymInt x = axis(7);
  const auto node = x.toSymNode();
  const c10::SymFloat half(node->int_truediv(node->wrap_int(2)));
  EXPECT_EQ(to_float_expr(half)->scale, 0.5);
  EXPECT_TRUE(to_float_expr(half)->affine);
  EXPECT_EQ(to_expr(c10::SymInt(half.toSymNodeImpl()->floor())), floordiv(to_expr(x), 2));
  EXPECT_EQ(to_expr(c10::SymInt(half.toSymNodeImpl()->ceil())), ceildiv(to_expr(x), 2));
  const c10::SymFloat third(node->int_truediv(node->wrap_int(3)));
  EXPECT_EQ(to_expr(c10::SymInt(third.toSymNodeImpl()->ceil())), ceildiv(to_expr(x), 3));
  const c10::SymFloat scaled = c10::SymFloat(x) * 1.3;
  EXPECT_EQ(to_expr(c10::SymInt(scaled.toSymNodeImpl()->floor())), trunc_to_int(to_expr(x), 1.3));
  EXPECT_TRUE(x.is_symbolic());
}

TEST_F(SymNode, FloatWithoutAFormMakesItsSizesStaticWhenAsked) {
  const c10::SymInt x = axis(9);
  const c10::SymFloat root = c10::SymFloat(x).sqrt();
  ASSERT_TRUE(root.is_symbolic());
  EXPECT_FALSE(to_float_expr(root)->affine);
  EXPECT_TRUE(x.is_symbolic());
  EXPECT_EQ(root.guard_float(__FILE__, __LINE__), 3.0);
  EXPECT_EQ(x.maybe_as_int(), 9);
}

TEST_F(SymNode, FloatComparisonsAreConditionsOnSizes) {
  const c10::SymInt x = axis(7);
  const c10::SymFloat scaled = c10::SymFloat(x) * 0.1;
  for (double limit : {0.7, 0.75, 0.3, -1.0, 2.0}) {
    const BoolExpr at_most = to_bool_expr(scaled.sym_le(limit));
    const BoolExpr above = to_bool_expr(scaled.sym_gt(limit));
    const BoolExpr below = to_bool_expr(scaled.sym_lt(limit));
    for (int64_t n = 0; n < 40; ++n) {
      auto value = [n](Symbol) { return n; };
      EXPECT_EQ(at_most.evaluate(value), static_cast<double>(n) * 0.1 <= limit) << n << " " << limit;
      EXPECT_EQ(above.evaluate(value), static_cast<double>(n) * 0.1 > limit) << n << " " << limit;
      EXPECT_EQ(below.evaluate(value), static_cast<double>(n) * 0.1 < limit) << n << " " << limit;
    }
  }
  EXPECT_TRUE(x.is_symbolic());
}

TEST_F(SymNode, MemoryFormatsComeFromFactsAlone) {
  const c10::SymInt n = axis(1);
  const c10::SymInt h = axis(5);
  const c10::SymInt u = unbacked();
  auto nodes = [&](const std::vector<c10::SymInt>& values) {
    std::vector<c10::SymNode> result;
    for (const c10::SymInt& value : values) {
      result.push_back(value.wrap_node(n.toSymNode()));
    }
    return result;
  };
  const auto base = n.toSymNode();
  const auto sizes = nodes({n, 3, h, u});
  EXPECT_EQ(base->is_contiguous(sizes, nodes({3 * h * u, h * u, u, 1}))->constant_bool(), true);
  EXPECT_EQ(base->is_contiguous(sizes, nodes({3 * h * u, 1, 3 * u, 3}))->constant_bool(), false);
  EXPECT_EQ(base->is_channels_last_contiguous_2d(sizes, nodes({3 * h * u, 1, 3 * u, 3}))->constant_bool(), true);
  EXPECT_EQ(base->is_channels_last_contiguous_2d(sizes, nodes({3 * h * u, h * u, u, 1}))->constant_bool(), false);
  EXPECT_EQ(base->is_non_overlapping_and_dense(sizes, nodes({u, n * h * u, n * u, 1}))->constant_bool(), true);
  EXPECT_EQ(base->is_non_overlapping_and_dense(sizes, nodes({0, h * u, u, 1}))->constant_bool(), false);
  EXPECT_EQ(guards(), 0u);
}

TEST_F(SymNode, ForeignNodesAreRefused) {
  class Foreign : public c10::SymNodeImpl {
    bool is_int() override { return true; }
    std::string str() override { return "foreign"; }
  };
  const c10::SymInt foreign(c10::SymNode(c10::make_intrusive<Foreign>()));
  EXPECT_THROW(to_expr(foreign), Error);
  EXPECT_THROW(axis(3) + foreign, Error);
}

TEST_F(SymNode, NodeKeepsItsEnvironment) {
  c10::SymInt s = axis(8);
  env_.reset();
  EXPECT_TRUE(s * 2 > s);
}

TEST_F(SymNode, PrintsAsTheExpression) {
  const c10::SymInt s = axis(8);
  EXPECT_EQ((s * 2 + 1).toSymNode()->str(), "2*s0 + 1");
  EXPECT_EQ(s.sym_le(5).toSymNodeImpl()->str(), "s0 <= 5");
  EXPECT_EQ((c10::SymFloat(s) * 0.5).toSymNodeImpl()->str(), "0.5*ToFloat(s0)");
}

}  // namespace
}  // namespace exporters
