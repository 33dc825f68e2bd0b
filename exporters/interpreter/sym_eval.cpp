#include "exporters/interpreter/sym_eval.h"

#include "exporters/support/error.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace exporters {
namespace {

using Numbers = std::span<const c10::IValue>;

bool is_float(const c10::IValue& value) { return value.isDouble(); }

int64_t to_int(const c10::IValue& value) {
  ensure(value.isInt() || value.isBool(), "An operation on sizes takes a {} for an integer", value.tagKind());
  return value.isInt() ? value.toInt() : static_cast<int64_t>(value.toBool());
}

double to_double(const c10::IValue& value) {
  return is_float(value) ? value.toDouble() : static_cast<double>(to_int(value));
}

int64_t checked(bool overflow, int64_t result) {
  ensure(!overflow, "An operation on sizes does not fit into 64 bits");
  return result;
}

int64_t add(int64_t a, int64_t b) {
  int64_t result = 0;
  const bool overflow = __builtin_add_overflow(a, b, &result);
  return checked(overflow, result);
}

int64_t subtract(int64_t a, int64_t b) {
  int64_t result = 0;
  const bool overflow = __builtin_sub_overflow(a, b, &result);
  return checked(overflow, result);
}

int64_t multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &result);
  return checked(overflow, result);
}

// The divisor -1 is taken apart since the least integer has no negative.
int64_t floor_divide(int64_t a, int64_t b) {
  ensure(b != 0, "A size is divided by zero");
  if (b == -1) {
    return subtract(0, a);
  }
  const bool rounds_up = a % b != 0 && (a < 0) != (b < 0);
  return a / b - (rounds_up ? 1 : 0);
}

int64_t modulo(int64_t a, int64_t b) {
  ensure(b != 0, "A size is divided by zero");
  if (b == -1) {
    return 0;
  }
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t power(int64_t base, int64_t exponent) {
  ensure(exponent >= 0, "A size is raised to the negative power {}", exponent);
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      result = multiply(result, base);
    }
    if (exponent > 1) {
      base = multiply(base, base);
    }
  }
  return result;
}

int64_t shift_left(int64_t value, int64_t places) {
  ensure(places >= 0, "A size is shifted by {} places", places);
  ensure(places < 63 || value == 0, "An operation on sizes does not fit into 64 bits");
  return value == 0 ? 0 : multiply(value, int64_t{1} << places);
}

// Rounds down, as Python does.
int64_t shift_right(int64_t value, int64_t places) {
  ensure(places >= 0, "A size is shifted by {} places", places);
  return value >> std::min<int64_t>(places, 63);
}

double true_divide(double a, double b) {
  ensure(b != 0.0, "A size is divided by zero");
  return a / b;
}

double float_floor_divide(double a, double b) { return std::floor(true_divide(a, b)); }

double float_modulo(double a, double b) {
  ensure(b != 0.0, "A size is divided by zero");
  const double rest = std::fmod(a, b);
  return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

int64_t float_to_int(double value) {
  // 2^63 is the first double that does not fit.
  ensure(value >= -0x1p63 && value < 0x1p63, "The number {} does not fit into 64 bits", value);
  return static_cast<int64_t>(value);
}

template <typename OnInts, typename OnFloats>
c10::IValue arithmetic(Numbers in, OnInts on_ints, OnFloats on_floats) {
  if (is_float(in[0]) || is_float(in[1])) {
    return on_floats(to_double(in[0]), to_double(in[1]));
  }
  return on_ints(to_int(in[0]), to_int(in[1]));
}

template <typename Compare>
c10::IValue comparison(Numbers in, Compare compare) {
  return arithmetic(in, compare, compare);
}

template <typename OnBools, typename OnInts>
c10::IValue bitwise(Numbers in, OnBools on_bools, OnInts on_ints) {
  if (in[0].isBool() && in[1].isBool()) {
    return on_bools(in[0].toBool(), in[1].toBool());
  }
  return on_ints(to_int(in[0]), to_int(in[1]));
}

c10::IValue rounded(const c10::IValue& value, double (*round)(double)) {
  return is_float(value) ? float_to_int(round(value.toDouble())) : to_int(value);
}

c10::IValue negative(const c10::IValue& value) {
  return is_float(value) ? c10::IValue(-value.toDouble()) : c10::IValue(subtract(0, to_int(value)));
}

c10::IValue absolute(const c10::IValue& value) {
  const bool below_zero = is_float(value) ? std::signbit(value.toDouble()) : to_int(value) < 0;
  return below_zero ? negative(value) : value;
}

constexpr auto kLeast = [](auto a, auto b) { return std::min(a, b); };
constexpr auto kGreatest = [](auto a, auto b) { return std::max(a, b); };

}  // namespace

c10::IValue evaluate_sym_op(SymOp op, Numbers in) {
  switch (op) {
    case SymOp::kAdd:
      return arithmetic(in, add, std::plus<double>());
    case SymOp::kSub:
      return arithmetic(in, subtract, std::minus<double>());
    case SymOp::kMul:
      return arithmetic(in, multiply, std::multiplies<double>());
    case SymOp::kFloorDiv:
      return arithmetic(in, floor_divide, float_floor_divide);
    case SymOp::kMod:
      return arithmetic(in, modulo, float_modulo);
    case SymOp::kPow:
      return arithmetic(in, power, [](double a, double b) { return std::pow(a, b); });
    case SymOp::kTrueDiv:
      return true_divide(to_double(in[0]), to_double(in[1]));
    case SymOp::kNeg:
      return negative(in[0]);
    case SymOp::kPos:
      return in[0];
    case SymOp::kAbs:
      return absolute(in[0]);
    case SymOp::kEq:
      return comparison(in, std::equal_to<>());
    case SymOp::kNe:
      return comparison(in, std::not_equal_to<>());
    case SymOp::kLt:
      return comparison(in, std::less<>());
    case SymOp::kLe:
      return comparison(in, std::less_equal<>());
    case SymOp::kGt:
      return comparison(in, std::greater<>());
    case SymOp::kGe:
      return comparison(in, std::greater_equal<>());
    case SymOp::kAnd:
      return bitwise(in, std::logical_and<bool>(), std::bit_and<int64_t>());
    case SymOp::kOr:
      return bitwise(in, std::logical_or<bool>(), std::bit_or<int64_t>());
    case SymOp::kNot:
      return to_int(in[0]) == 0;
    case SymOp::kTrunc:
    case SymOp::kToInt:
      return rounded(in[0], std::trunc);
    case SymOp::kFloor:
      return rounded(in[0], std::floor);
    case SymOp::kCeil:
      return rounded(in[0], std::ceil);
    case SymOp::kMin:
      return arithmetic(in, kLeast, kLeast);
    case SymOp::kMax:
      return arithmetic(in, kGreatest, kGreatest);
    case SymOp::kToFloat:
      return to_double(in[0]);
    case SymOp::kIte:
      return to_int(in[0]) != 0 ? in[1] : in[2];
    case SymOp::kLShift:
      return shift_left(to_int(in[0]), to_int(in[1]));
    case SymOp::kRShift:
      return shift_right(to_int(in[0]), to_int(in[1]));
    case SymOp::kSqrt:
      return std::sqrt(to_double(in[0]));
  }
  fail("An operation on sizes that is not known");
}

}  // namespace exporters
