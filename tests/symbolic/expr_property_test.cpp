#include "exporters/symbolic/shape_env.h"
#include "tests/symbolic/random_expr.h"

#include <gtest/gtest.h>

#include <set>

namespace exporters::testing {
namespace {

constexpr int kExpressions = 4000;
constexpr int kPoints = 12;

// Larger values lose exactness in the long-double division of the independent computation.
bool is_small(int64_t value) { return std::abs(value) < (int64_t{1} << 50); }

template <typename Check>
void for_random_expressions(uint32_t seed, Check check) {
  RandomExpr random(seed);
  int checked = 0;
  for (int i = 0; i < kExpressions; ++i) {
    try {
      const Sample sample = random.make(static_cast<int>(random.number(1, 4)));
      check(random, sample);
      ++checked;
    } catch (const Error& error) {
      // A canonical form may leave int64 where coefficients multiply up, and a divisor may turn out to be zero.
      const std::string what = error.what();
      ASSERT_TRUE(what.find("overflow") != std::string::npos || what.find("by zero") != std::string::npos) << what;
    }
  }
  EXPECT_GT(checked, kExpressions * 9 / 10);
}

TEST(ExprProperty, CanonicalFormsEvaluateLikePlainArithmetic) {
  for_random_expressions(1, [](RandomExpr& random, const Sample& sample) {
    for (int i = 0; i < kPoints; ++i) {
      const Point point = random.point(-15, 15);
      const auto expected = sample.value(point);
      if (expected && is_small(*expected)) {
        // Cancelling may define what a division by zero left undefined, never the reverse.
        ASSERT_EQ(sample.expr.evaluate(at(point)), *expected) << sample.expr.str();
      }
    }
  });
}

TEST(ExprProperty, SubstitutionCommutesWithEvaluation) {
  for_random_expressions(2, [](RandomExpr& random, const Sample& sample) {
    const Sample inner = random.make(1);
    const Symbol replaced = symbols()[0];
    const Expr substituted =
        sample.expr.substitute([&](Symbol s) { return s == replaced ? std::optional(inner.expr) : std::nullopt; });
    for (int i = 0; i < kPoints; ++i) {
      Point point = random.point(-9, 9);
      const auto value = inner.value(point);
      if (!value) {
        continue;
      }
      Point moved = point;
      moved[0] = *value;
      const auto expected = sample.value(moved);
      if (expected && is_small(*expected)) {
        ASSERT_EQ(substituted.evaluate(at(point)), *expected) << sample.expr.str() << " with " << inner.expr.str();
      }
    }
  });
}

TEST(ExprProperty, BothNotationsReadBackToTheSameExpression) {
  for_random_expressions(3, [](RandomExpr&, const Sample& sample) {
    ASSERT_EQ(Expr::parse(sample.expr.str()), sample.expr) << sample.expr.str();
    ASSERT_EQ(Expr::parse(sample.expr.srepr()), sample.expr) << sample.expr.srepr();
  });
}

TEST(ExprProperty, TermsRebuildTheExpression) {
  for_random_expressions(4, [](RandomExpr&, const Sample& sample) {
    Expr sum = 0;
    for (const Expr::Term& term : sample.expr.terms()) {
      Expr product = term.coefficient;
      for (const Expr::Factor& factor : term.factors) {
        const auto& o = factor.atom.operands;
        Expr atom;
        switch (factor.atom.kind) {
          case Expr::AtomKind::kSymbol:
            atom = *factor.atom.symbol;
            break;
          case Expr::AtomKind::kFloorDiv:
            atom = floordiv(o[0], o[1]);
            break;
          case Expr::AtomKind::kMod:
            atom = mod(o[0], o[1]);
            break;
          case Expr::AtomKind::kTruncToInt:
            atom = trunc_to_int(o[0], factor.atom.scale);
            break;
          default:
            atom = o[0];
            for (size_t i = 1; i < o.size(); ++i) {
              atom = factor.atom.kind == Expr::AtomKind::kMin ? min(atom, o[i]) : max(atom, o[i]);
            }
        }
        product = product * pow(atom, factor.power);
      }
      sum = sum + product;
    }
    ASSERT_EQ(sum, sample.expr);
  });
}

TEST(ExprProperty, EqualFormsHaveEqualHashesAndOrderIsTotal) {
  for_random_expressions(5, [](RandomExpr& random, const Sample& a) {
    const Sample b = random.make(2);
    ASSERT_EQ((a.expr + b.expr) - b.expr, a.expr);
    ASSERT_EQ(((a.expr + b.expr) - b.expr).hash(), a.expr.hash());
    ASSERT_EQ(a.expr + b.expr, b.expr + a.expr);
    ASSERT_EQ(a.expr * b.expr, b.expr * a.expr);
    ASSERT_EQ(Expr::compare(a.expr, b.expr), -Expr::compare(b.expr, a.expr));
    ASSERT_EQ(Expr::compare(a.expr, b.expr) == 0, a.expr == b.expr);
  });
}

// Symbols with random ranges: values are drawn from them.
struct Box {
  explicit Box(RandomExpr& random) {
    for (Symbol symbol : symbols()) {
      const int64_t low = random.number(-8, 8);
      const int64_t high = low + random.number(0, 12);
      ranges.push_back({low, high});
      env.declare(symbol, ranges.back());
    }
  }
  Point point(RandomExpr& random) const {
    Point result;
    for (const Range& range : ranges) {
      result.push_back(random.number(range.min, range.max));
    }
    return result;
  }
  ShapeEnv env;
  std::vector<Range> ranges;
};

TEST(ExprProperty, SimplificationAndBoundsHoldInsideTheRanges) {
  for_random_expressions(6, [](RandomExpr& random, const Sample& sample) {
    const Box box(random);
    const Expr simple = box.env.simplify(sample.expr);
    const Range bounds = box.env.bounds(sample.expr);
    for (int i = 0; i < kPoints; ++i) {
      const Point point = box.point(random);
      const auto expected = sample.value(point);
      if (expected && is_small(*expected)) {
        ASSERT_EQ(simple.evaluate(at(point)), *expected) << sample.expr.str() << " became " << simple.str();
        ASSERT_TRUE(bounds.contains(*expected)) << sample.expr.str() << " in " << bounds.str() << ": " << *expected;
      }
    }
  });
}

bool compare(int op, int64_t x, int64_t y) {
  const bool results[] = {x == y, x != y, x <= y, x<y, x >= y, x> y};
  return results[op];
}

BoolExpr compare(int op, const Expr& x, const Expr& y) {
  switch (op) {
    case 0:
      return eq(x, y);
    case 1:
      return ne(x, y);
    case 2:
      return le(x, y);
    case 3:
      return lt(x, y);
    case 4:
      return ge(x, y);
    default:
      return gt(x, y);
  }
}

TEST(ExprProperty, ConditionsEvaluateNegateAndReadBackLikePlainComparisons) {
  for_random_expressions(7, [](RandomExpr& random, const Sample& a) {
    const Sample b = random.make(2);
    const int op = static_cast<int>(random.number(0, 5));
    const BoolExpr condition = compare(op, a.expr, b.expr);
    ASSERT_EQ(BoolExpr::parse(condition.str()), condition) << condition.str();
    ASSERT_EQ(BoolExpr::parse(condition.srepr()), condition) << condition.srepr();
    ASSERT_EQ(!!condition, condition);
    for (int i = 0; i < kPoints; ++i) {
      const Point point = random.point(-9, 9);
      const auto x = a.value(point);
      const auto y = b.value(point);
      if (x && y && is_small(*x) && is_small(*y)) {
        ASSERT_EQ(condition.evaluate(at(point)), compare(op, *x, *y)) << condition.str();
        ASSERT_EQ((!condition).evaluate(at(point)), !compare(op, *x, *y)) << condition.str();
      }
    }
  });
}

TEST(ExprProperty, WhatFactsDecideIsTrueInsideTheRanges) {
  int decided = 0;
  for_random_expressions(8, [&decided](RandomExpr& random, const Sample& a) {
    const Sample b = random.make(1);
    const Box box(random);
    const int op = static_cast<int>(random.number(0, 5));
    const auto known = box.env.statically(compare(op, a.expr, b.expr));
    decided += known ? 1 : 0;
    for (int i = 0; i < kPoints && known; ++i) {
      const Point point = box.point(random);
      const auto x = a.value(point);
      const auto y = b.value(point);
      if (x && y && is_small(*x) && is_small(*y)) {
        ASSERT_EQ(compare(op, *x, *y), *known) << a.expr.str() << " against " << b.expr.str();
      }
    }
  });
  EXPECT_GT(decided, kExpressions / 10);
}

// Guards answered at the samples: whatever satisfies guards, ranges and replacements gives the same answers.
TEST(ExprProperty, AnswersHoldWhereverTheGuardsHold) {
  RandomExpr random(9);
  int inside = 0;
  for (int i = 0; i < 1500; ++i) {
    ShapeEnv env;
    std::vector<Expr> axes;
    for (int64_t axis = 0; axis < 3; ++axis) {
      axes.push_back(env.add_axis({"x", axis}, random.number(0, 6), Dim::Auto()));
    }
    struct Question {
      Sample left, right;
      int op;
      bool answer;
    };
    std::vector<Question> asked;
    for (int q = 0; q < 4; ++q) {
      Sample a = random.make(2);
      Sample b = random.make(1);
      const int op = static_cast<int>(random.number(0, 5));
      const BoolExpr condition = compare(op, a.expr, b.expr);
      const auto used = condition.free_symbols();
      if (std::find(used.begin(), used.end(), symbols()[3]) != used.end()) {
        continue;
      }
      try {
        asked.push_back({a, b, op, env.evaluate(condition)});
      } catch (const Error& error) {
        const std::string what = error.what();
        ASSERT_TRUE(what.find("by zero") != std::string::npos || what.find("overflow") != std::string::npos) << what;
      }
    }
    for (int p = 0; p < 30; ++p) {
      const Point point = random.point(0, 7);
      bool allowed = true;
      try {
        for (size_t s = 0; s < 3; ++s) {
          allowed &= env.simplify(axes[s]).evaluate(at(point)) == point[s];
        }
        for (const auto& [name, range] : env.range_constraints()) {
          allowed &= range.contains(at(point)(Symbol(name)));
        }
        for (const Guard& guard : env.guards()) {
          allowed &= guard.condition.evaluate(at(point));
        }
      } catch (const Error&) {
        continue;
      }
      for (const Question& question : asked) {
        const auto x = question.left.value(point);
        const auto y = question.right.value(point);
        if (allowed && x && y) {
          ++inside;
          ASSERT_EQ(compare(question.op, *x, *y), question.answer)
              << question.left.expr.str() << " op " << question.op << " " << question.right.expr.str();
        }
      }
    }
  }
  EXPECT_GT(inside, 1000);
}

}  // namespace
}  // namespace exporters::testing
