#include "exporters/symbolic/interval.h"

#include "exporters/symbolic/expr_node.h"

#include <algorithm>
#include <cmath>

namespace exporters {
namespace {

using Wide = __int128;
constexpr int64_t kMin = Range::kMin;
constexpr int64_t kMax = Range::kMax;

bool open(int64_t bound) { return bound == kMin || bound == kMax; }

int64_t clamp(Wide value) { return value <= kMin ? kMin : value >= kMax ? kMax : static_cast<int64_t>(value); }

int64_t multiply_bound(int64_t a, int64_t b) {
  if (a == 0 || b == 0) {
    return 0;
  }
  if (open(a) || open(b)) {
    return (a < 0) == (b < 0) ? kMax : kMin;
  }
  return clamp(static_cast<Wide>(a) * b);
}

// For b > 0.
int64_t floordiv_bound(int64_t a, int64_t b) {
  if (open(a)) {
    return a;
  }
  if (b == kMax) {
    return a < 0 ? -1 : 0;
  }
  return floordiv_int(a, b);
}

Range negate(Range r) { return {r.max == kMax ? kMin : -r.max, r.min == kMin ? kMax : -r.min}; }

Range hull(Range a, Range b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

Range floordiv_positive(Range a, Range b) {
  return {a.min >= 0 ? floordiv_bound(a.min, b.max) : floordiv_bound(a.min, b.min),
          a.max >= 0 ? floordiv_bound(a.max, b.min) : floordiv_bound(a.max, b.max)};
}

Range mod_positive(Range a, Range b) {
  if (a.min >= 0 && a.max < b.min) {
    return a;
  }
  const int64_t top = b.max == kMax ? kMax : b.max - 1;
  return {0, a.min >= 0 ? std::min(top, a.max) : top};
}

// Applies `f`, which is for positive divisors, to both signs of b; zero is no divisor.
template <typename Positive, typename Negative>
Range by_divisor_sign(Range b, Positive positive, Negative negative) {
  const Range above{std::max<int64_t>(b.min, 1), b.max};
  const Range below{b.min, std::min<int64_t>(b.max, -1)};
  const bool has_above = above.min <= above.max;
  const bool has_below = below.min <= below.max;
  if (has_above && has_below) {
    return hull(positive(above), negative(negate(below)));
  }
  if (has_above) {
    return positive(above);
  }
  return has_below ? negative(negate(below)) : Range{};
}

}  // namespace

Range interval_add(Range a, Range b) {
  auto sum = [](int64_t x, int64_t y, int64_t end) {
    return x == end || y == end ? end : clamp(static_cast<Wide>(x) + y);
  };
  return {sum(a.min, b.min, kMin), sum(a.max, b.max, kMax)};
}

Range interval_multiply(Range a, Range b) {
  const auto [low, high] = std::minmax({multiply_bound(a.min, b.min), multiply_bound(a.min, b.max),
                                        multiply_bound(a.max, b.min), multiply_bound(a.max, b.max)});
  return {low, high};
}

Range interval_power(Range base, int64_t exponent) {
  if (exponent % 2 == 0 && base.min < 0) {
    base = base.max <= 0 ? negate(base) : Range{0, std::max(negate(base).max, base.max)};
  }
  // Exponentiation saturates within 64 steps unless the ends are -1, 0 or 1, where odd and even repeat.
  Range result = base;
  for (int64_t i = 1; i < std::min<int64_t>(exponent, exponent % 2 == 0 ? 64 : 65); ++i) {
    result = interval_multiply(result, base);
  }
  return result;
}

Range interval_floordiv(Range a, Range b) {
  return by_divisor_sign(
      b, [&](Range d) { return floordiv_positive(a, d); }, [&](Range d) { return floordiv_positive(negate(a), d); });
}

Range interval_mod(Range a, Range b) {
  return by_divisor_sign(
      b, [&](Range d) { return mod_positive(a, d); }, [&](Range d) { return negate(mod_positive(negate(a), d)); });
}

Range interval_min(Range a, Range b) { return {std::min(a.min, b.min), std::min(a.max, b.max)}; }
Range interval_max(Range a, Range b) { return {std::max(a.min, b.min), std::max(a.max, b.max)}; }

Range interval_trunc(Range a, double scale) {
  auto bound = [scale](int64_t x) {
    const double value = std::trunc(static_cast<double>(x) * scale);
    return open(x) ? x : value <= -9.2e18 ? kMin : value >= 9.2e18 ? kMax : static_cast<int64_t>(value);
  };
  return {bound(a.min), bound(a.max)};
}

Range intersect(Range a, Range b) { return {std::max(a.min, b.min), std::min(a.max, b.max)}; }

}  // namespace exporters
