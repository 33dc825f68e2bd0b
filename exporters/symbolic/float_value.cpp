#include "exporters/symbolic/float_value.h"

#include "exporters/symbolic/expr_node.h"

#include <cmath>

namespace exporters {
namespace {

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::isfinite(value) && value != 0 && std::abs(std::frexp(value, &exponent)) == 0.5;
}

std::string grouped(const std::string& text) { return text.find(' ') == std::string::npos ? text : "(" + text + ")"; }

void take_inputs(FloatValue& result, const FloatValue& from) {
  result.inputs.insert(result.inputs.end(), from.inputs.begin(), from.inputs.end());
}

// scale = p / 2^k with a p small enough that p times any size is exact as a double.
struct Dyadic {
  int64_t numerator;
  int64_t denominator;
};

std::optional<Dyadic> dyadic(double scale) {
  constexpr double kMaxNumerator = 1 << 20;
  Dyadic result{0, 1};
  for (; result.denominator <= (1 << 20); result.denominator *= 2, scale *= 2) {
    if (scale == std::trunc(scale)) {
      if (std::abs(scale) > kMaxNumerator) {
        return std::nullopt;
      }
      result.numerator = static_cast<int64_t>(scale);
      return result;
    }
  }
  return std::nullopt;
}

// The largest n with n * scale / divisor <= limit, for scale > 0: double arithmetic is monotonic in n.
std::optional<int64_t> largest_below(double scale, double divisor, double limit) {
  auto value = [&](int64_t n) { return static_cast<double>(n) * scale / divisor; };
  const double guess = std::floor(limit * divisor / scale);
  if (!(std::abs(guess) < 1e15)) {
    return std::nullopt;
  }
  int64_t n = static_cast<int64_t>(guess);
  for (int i = 0; i < 4 && value(n) > limit; ++i) {
    --n;
  }
  for (int i = 0; i < 4 && value(n + 1) <= limit; ++i) {
    ++n;
  }
  return value(n) <= limit && value(n + 1) > limit ? std::optional(n) : std::nullopt;
}

}  // namespace

FloatValue FloatValue::constant(double value) {
  FloatValue result;
  result.scale = value;
  result.sample = value;
  result.text = number_text(value);
  return result;
}

FloatValue FloatValue::ratio(const Expr& numerator, const Expr& denominator, const ShapeEnv& env) {
  FloatValue result;
  result.numerator = numerator;
  const auto divisor = denominator.as_int();
  if (divisor && is_power_of_two(static_cast<double>(*divisor))) {
    result.scale = 1.0 / static_cast<double>(*divisor);
  } else {
    result.denominator = denominator;
  }
  for (const Expr& e : {numerator, denominator}) {
    if (!e.is_int()) {
      result.inputs.push_back(e);
    }
  }
  const auto n = env.hint(numerator);
  const auto d = env.hint(denominator);
  if (n && d) {
    result.sample = static_cast<double>(*n) / static_cast<double>(*d);
  }
  result.text = denominator == Expr(1) ? "ToFloat(" + numerator.str() + ")"
                                       : "IntTrueDiv(" + numerator.str() + ", " + denominator.str() + ")";
  return result;
}

std::optional<double> FloatValue::as_constant() const { return inputs.empty() ? sample : std::nullopt; }

FloatValue negate(const FloatValue& a) {
  FloatValue result = a;
  result.scale = -a.scale;
  result.text = "-" + grouped(a.text);
  if (a.sample) {
    result.sample = -*a.sample;
  }
  return result;
}

FloatValue opaque(std::string text, const std::vector<FloatValue>& inputs, double (*function)(double, double)) {
  FloatValue result;
  result.affine = false;
  result.text = std::move(text);
  for (const FloatValue& input : inputs) {
    take_inputs(result, input);
  }
  const FloatValue& first = inputs.front();
  const FloatValue& last = inputs.back();
  if (first.sample && last.sample) {
    result.sample = function(*first.sample, *last.sample);
  }
  return result.as_constant() ? FloatValue::constant(*result.sample) : result;
}

FloatValue add(const FloatValue& a, const FloatValue& b) {
  if (a.as_constant() == 0.0) {
    return b;
  }
  if (b.as_constant() == 0.0) {
    return a;
  }
  return opaque(a.text + " + " + b.text, {a, b}, [](double x, double y) { return x + y; });
}

FloatValue multiply(const FloatValue& a, const FloatValue& b) {
  if (a.as_constant() && !b.as_constant()) {
    return multiply(b, a);
  }
  const auto factor = b.as_constant();
  const std::string text = grouped(b.text) + "*" + grouped(a.text);
  // One rounding only: the form stays exact when one of the factors is a power of two.
  const bool exact = a.affine && (a.scale == 1.0 || is_power_of_two(a.scale) || (factor && is_power_of_two(*factor)));
  if (factor && exact && std::isfinite(*factor) && (a.denominator == Expr(1) || is_power_of_two(*factor))) {
    FloatValue result = a;
    result.scale = a.scale * *factor;
    result.text = text;
    if (a.sample) {
      result.sample = *a.sample * *factor;
    }
    return result;
  }
  return opaque(text, {a, b}, [](double x, double y) { return x * y; });
}

FloatValue divide(const FloatValue& a, const FloatValue& b) {
  const auto divisor = b.as_constant();
  const std::string text = grouped(a.text) + "/" + grouped(b.text);
  if (divisor && is_power_of_two(*divisor)) {
    FloatValue result = multiply(a, FloatValue::constant(1.0 / *divisor));
    result.text = text;
    return result;
  }
  const bool whole = divisor && *divisor == std::trunc(*divisor) && std::abs(*divisor) < 1e15 && *divisor != 0;
  if (whole && a.affine && a.scale == 1.0 && a.denominator == Expr(1)) {
    FloatValue result = a;
    result.denominator = Expr(static_cast<int64_t>(*divisor));
    result.text = text;
    if (a.sample) {
      result.sample = *a.sample / *divisor;
    }
    return result;
  }
  return opaque(text, {a, b}, [](double x, double y) { return x / y; });
}

std::optional<Expr> floor(const FloatValue& a, const ShapeEnv& env) {
  if (!a.affine) {
    return std::nullopt;
  }
  if (const auto ratio = dyadic(a.scale)) {
    return floordiv(a.numerator * Expr(ratio->numerator), a.denominator * Expr(ratio->denominator));
  }
  if (a.scale > 0 && a.denominator == Expr(1) && env.bounds(a.numerator).min >= 0) {
    return trunc_to_int(a.numerator, a.scale);
  }
  return std::nullopt;
}

std::optional<Expr> ceil(const FloatValue& a, const ShapeEnv& env) {
  const auto down = floor(negate(a), env);
  return down ? std::optional(-*down) : std::nullopt;
}

std::optional<BoolExpr> at_most(const FloatValue& a, double limit) {
  const auto divisor = a.denominator.as_int();
  if (!a.affine || !divisor || *divisor <= 0 || a.scale == 0) {
    return std::nullopt;
  }
  if (a.scale < 0) {
    return at_least(negate(a), -limit);
  }
  const auto n = largest_below(a.scale, static_cast<double>(*divisor), limit);
  return n ? std::optional(le(a.numerator, Expr(*n))) : std::nullopt;
}

std::optional<BoolExpr> at_least(const FloatValue& a, double limit) {
  FloatValue mirrored = a;
  mirrored.numerator = -a.numerator;
  if (a.scale < 0) {
    return at_most(negate(a), -limit);
  }
  return at_most(mirrored, -limit);
}

}  // namespace exporters
