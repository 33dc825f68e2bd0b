#pragma once

#include "exporters/support/error.h"
#include "exporters/symbolic/expr.h"

#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace exporters::testing {

/// Values of a, b, c, … in order.
using Point = std::vector<int64_t>;

/// The symbols that random expressions are made of.
inline const std::vector<Symbol>& symbols() {
  static const std::vector<Symbol> all = {Symbol("s0"), Symbol("s1"), Symbol("s2"), Symbol("u0")};
  return all;
}

inline Valuation at(const Point& point) {
  return [&point](Symbol symbol) {
    for (size_t i = 0; i < symbols().size(); ++i) {
      if (symbols()[i] == symbol) {
        return point[i];
      }
    }
    fail("no value for {}", symbol.name());
  };
}

/// An expression together with the plain computation that it stands for, which shares no code with Expr.
struct Sample {
  Expr expr;
  std::function<std::optional<int64_t>(const Point&)> value;  ///< nothing for a division by zero
};

inline int64_t floor_division(int64_t a, int64_t b) {
  return static_cast<int64_t>(std::floor(static_cast<long double>(a) / static_cast<long double>(b)));
}

class RandomExpr {
 public:
  explicit RandomExpr(uint32_t seed) : engine_(seed) {}

  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }

  Point point(int64_t low, int64_t high) {
    Point result;
    for (size_t i = 0; i < symbols().size(); ++i) {
      result.push_back(number(low, high));
    }
    return result;
  }

  Sample make(int depth) {
    if (depth == 0 || number(0, 9) == 0) {
      return leaf();
    }
    const int64_t choice = number(0, 10);
    const Sample a = make(depth - 1);
    if (choice == 8) {
      return {-a.expr, [a](const Point& p) { return map(a.value(p), [](int64_t x) { return -x; }); }};
    }
    if (choice == 9) {
      return {pow(a.expr, 2), [a](const Point& p) { return map(a.value(p), [](int64_t x) { return x * x; }); }};
    }
    if (choice == 10) {
      const double scale = static_cast<double>(number(-20, 20)) / static_cast<double>(number(1, 6));
      return {trunc_to_int(a.expr, scale), [a, scale](const Point& p) {
                return map(a.value(p), [scale](int64_t x) {
                  return static_cast<int64_t>(std::trunc(static_cast<double>(x) * scale));
                });
              }};
    }
    // Division by a constant is what shapes mostly do.
    const bool divides = choice == 3 || choice == 4 || choice == 7;
    const Sample b = divides && number(0, 2) != 0 ? nonzero_constant() : make(depth - 1);
    return combine(choice, a, b);
  }

 private:
  template <typename F>
  static std::optional<int64_t> map(std::optional<int64_t> x, F f) {
    return x ? std::optional<int64_t>(f(*x)) : std::nullopt;
  }

  Sample constant(int64_t value) {
    return {Expr(value), [value](const Point&) { return value; }};
  }

  Sample nonzero_constant() {
    const int64_t value = number(1, 12);
    return constant(number(0, 3) == 0 ? -value : value);
  }

  Sample leaf() {
    if (number(0, 3) == 0) {
      return constant(number(-12, 12));
    }
    const size_t i = static_cast<size_t>(number(0, static_cast<int64_t>(symbols().size()) - 1));
    return {Expr(symbols()[i]), [i](const Point& p) { return p[i]; }};
  }

  Sample combine(int64_t choice, const Sample& a, const Sample& b) {
    auto both = [a, b](auto f) {
      return [a, b, f](const Point& p) -> std::optional<int64_t> {
        const auto x = a.value(p);
        const auto y = b.value(p);
        return x && y ? f(*x, *y) : std::nullopt;
      };
    };
    using Result = std::optional<int64_t>;
    auto quotient = [](int64_t x, int64_t y) -> Result { return y == 0 ? Result() : floor_division(x, y); };
    auto remainder = [](int64_t x, int64_t y) -> Result { return y == 0 ? Result() : x - y * floor_division(x, y); };
    const bool zero = b.expr == Expr(0);
    switch (choice) {
      case 0:
        return {a.expr + b.expr, both([](int64_t x, int64_t y) -> Result { return x + y; })};
      case 1:
        return {a.expr - b.expr, both([](int64_t x, int64_t y) -> Result { return x - y; })};
      case 2:
        return {a.expr * b.expr, both([](int64_t x, int64_t y) -> Result { return x * y; })};
      case 3:
        return zero ? a : Sample{floordiv(a.expr, b.expr), both(quotient)};
      case 4:
        return zero ? a : Sample{mod(a.expr, b.expr), both(remainder)};
      case 5:
        return {min(a.expr, b.expr), both([](int64_t x, int64_t y) -> Result { return std::min(x, y); })};
      case 6:
        return {max(a.expr, b.expr), both([](int64_t x, int64_t y) -> Result { return std::max(x, y); })};
      default:
        return zero ? a : Sample{ceildiv(a.expr, b.expr), both([](int64_t x, int64_t y) -> Result {
                                   return y == 0 ? Result() : -floor_division(-x, y);
                                 })};
    }
  }

  std::mt19937 engine_;
};

}  // namespace exporters::testing
