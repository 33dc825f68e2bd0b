#pragma once

#include "exporters/symbolic/dim.h"

namespace exporters {

// Arithmetic on intervals with open ends. A bound that leaves int64 becomes an open end, which is sound because
// values that leave int64 are errors.
Range interval_add(Range a, Range b);
Range interval_multiply(Range a, Range b);
Range interval_power(Range base, int64_t exponent);
Range interval_floordiv(Range a, Range b);
Range interval_mod(Range a, Range b);
Range interval_min(Range a, Range b);
Range interval_max(Range a, Range b);
Range interval_trunc(Range a, double scale);
Range intersect(Range a, Range b);

}  // namespace exporters
