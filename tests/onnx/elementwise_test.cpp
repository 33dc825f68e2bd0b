#include "tests/onnx/harness.h"
#include "tests/support/error_of.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace exporters::onnx {
namespace {

using namespace testing;

using Unary = at::Tensor (*)(const at::Tensor&);

struct UnaryCase {
  const char* name;
  Unary function;
  double low;
  double high;
};

void PrintTo(const UnaryCase& c, std::ostream* out) { *out << c.name; }

#define CASE(op, low, high)                                       \
  UnaryCase {                                                     \
#op, [](const at::Tensor& x) { return at::op(x); }, low, high \
  }

struct UnaryOps : ::testing::TestWithParam<UnaryCase> {
  at::Tensor sample(at::IntArrayRef sizes, at::ScalarType dtype) const {
    const auto& p = GetParam();
    return (at::rand(sizes, at::kDouble) * (p.high - p.low) + p.low).to(dtype);
  }
};

TEST_P(UnaryOps, FloatAtSeveralSizes) {
  expect_same_unary(GetParam().function, sample({2, 3}, at::kFloat),
                    {sample({1, 1}, at::kFloat), sample({4, 0}, at::kFloat), sample({5, 7}, at::kFloat)});
}

TEST_P(UnaryOps, ZeroDimensional) { expect_same_unary(GetParam().function, sample({}, at::kFloat)); }

TEST_P(UnaryOps, HalfAndBfloat16) {
  // One rounding more or less than eager: the width of the format.
  expect_same_unary(GetParam().function, sample({2, 3}, at::kHalf), {}, {}, {2e-3, 2e-3});
  expect_same_unary(GetParam().function, sample({2, 3}, at::kBFloat16), {}, {}, {2e-2, 2e-2});
}

TEST_P(UnaryOps, OldestOpset) { expect_same_unary(GetParam().function, sample({2, 3}, at::kFloat), {}, at_opset(18)); }

INSTANTIATE_TEST_SUITE_P(
    Onnx, UnaryOps,
    ::testing::Values(CASE(abs, -2, 2), CASE(neg, -2, 2), CASE(exp, -2, 2), CASE(exp2, -2, 2), CASE(expm1, -2, 2),
                      CASE(log, 0.1, 3), CASE(log2, 0.1, 3), CASE(log10, 0.1, 3), CASE(log1p, -0.5, 3),
                      CASE(sqrt, 0, 3), CASE(rsqrt, 0.1, 3), CASE(square, -2, 2), CASE(reciprocal, 0.2, 2),
                      CASE(sin, -3, 3), CASE(cos, -3, 3), CASE(tan, -1, 1), CASE(asin, -0.9, 0.9),
                      CASE(acos, -0.9, 0.9), CASE(atan, -3, 3), CASE(sinh, -2, 2), CASE(cosh, -2, 2),
                      CASE(asinh, -2, 2), CASE(acosh, 1.1, 3), CASE(atanh, -0.8, 0.8), CASE(erf, -2, 2),
                      CASE(erfc, -2, 2), CASE(sign, -2, 2), CASE(floor, -3, 3), CASE(ceil, -3, 3), CASE(round, -3, 3),
                      CASE(trunc, -3, 3), CASE(frac, -3, 3), CASE(relu, -2, 2), CASE(tanh, -2, 2), CASE(sigmoid, -3, 3),
                      CASE(silu, -3, 3), CASE(mish, -3, 3), CASE(hardswish, -4, 4), CASE(hardsigmoid, -4, 4),
                      CASE(log_sigmoid, -3, 3), CASE(selu, -2, 2), CASE(softplus, -3, 3)),
    [](const auto& info) { return std::string(info.param.name); });

TEST(OnnxElementwise, SmallArgumentsKeepTheirDigits) {
  const at::Tensor tiny = at::tensor({1e-7f, -1e-7f, 1e-4f, 0.0f, -1e-20f});
  expect_same_unary([](const at::Tensor& x) { return at::log1p(x); }, tiny, {}, {}, {1e-6, 0});
  expect_same_unary([](const at::Tensor& x) { return at::expm1(x); }, tiny, {}, {}, {1e-6, 0});
}

TEST(OnnxElementwise, SpecialValues) {
  const at::Tensor x = at::tensor({NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f});
  for (const Unary function :
       {Unary([](const at::Tensor& t) { return at::sign(t); }), Unary([](const at::Tensor& t) { return at::isnan(t); }),
        Unary([](const at::Tensor& t) { return at::isinf(t); }),
        Unary([](const at::Tensor& t) { return at::isfinite(t); }),
        Unary([](const at::Tensor& t) { return at::nan_to_num(t); }),
        Unary([](const at::Tensor& t) { return at::relu(t); }), Unary([](const at::Tensor& t) { return at::log1p(t); }),
        Unary([](const at::Tensor& t) { return at::expm1(t); })}) {
    expect_same_unary(function, x);
  }
}

// ── Two operands ──

using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

// float16 has none of these numbers, or with few digits; torch computes with them in float32. One rounding more or
// less.
TEST(HalfPrecision, NumbersThatItDoesNotHave) {
  const Forward forward = [](const Tensors& x) {
    return Tensors{x[0] / 70000, x[0] * 1e-7, x[0] / 100 * 70000, x[0] + 1e-6};
  };
  const auto numbers = [](at::IntArrayRef sizes) { return (at::rand(sizes) * 6000 - 3000).to(at::kHalf); };
  expect_same(forward, {numbers({2, 3})}, {{numbers({5, 1})}}, {}, {2e-3, 1e-7});
}

// torch compares with it; no ONNX operator takes operands of two dtypes.
TEST(NumbersBeyondADtype, AreRefusedByTheNameOfTheOp) {
  const std::string error = exporters::testing::error_of(
      [] { expect_same_unary([](const at::Tensor& x) { return x < (int64_t{1} << 40); }, at::ones({3}, at::kInt)); });
  EXPECT_THAT(error, ::testing::HasSubstr("aten.lt.Scalar"));
}

struct BinaryCase {
  const char* name;
  Binary function;
  bool integers;
};
void PrintTo(const BinaryCase& c, std::ostream* out) { *out << c.name; }

#define BINARY(op, integers)                                                             \
  BinaryCase {                                                                           \
#op, [](const at::Tensor& a, const at::Tensor& b) { return at::op(a, b); }, integers \
  }

struct BinaryOps : ::testing::TestWithParam<BinaryCase> {
  Forward forward() const {
    const Binary function = GetParam().function;
    return [function](const Tensors& x) { return Tensors{function(x[0], x[1])}; };
  }
};

at::Tensor integers(at::IntArrayRef sizes, at::ScalarType dtype, int64_t low = -7, int64_t high = 8) {
  return at::randint(dtype == at::kByte ? 1 : low, high, sizes, at::kLong).to(dtype);
}

at::Tensor nonzero_integers(at::IntArrayRef sizes, at::ScalarType dtype) {
  at::Tensor x = integers(sizes, at::kLong);
  const at::Tensor magnitude = at::where(x == 0, at::full_like(x, 3), x).abs_();
  return (dtype == at::kByte ? magnitude : magnitude * (at::randint(0, 2, sizes, at::kLong) * 2 - 1)).to(dtype);
}

TEST_P(BinaryOps, FloatsBroadcast) {
  const auto x = [](at::IntArrayRef sizes) { return at::randn(sizes); };
  expect_same(forward(), {x({2, 3}), x({2, 3})}, {{x({5, 4}), x({5, 4})}, {x({1, 1}), x({1, 1})}});
  expect_same(forward(), {x({2, 3}), x({3})}, {{x({4, 5}), x({5})}});
  expect_same(forward(), {x({2, 1, 3}), x({4, 1})}, {{x({3, 1, 6}), x({5, 1})}});
  expect_same(forward(), {x({2, 3}), x({})});
}

struct BinaryIntegerOps : BinaryOps {};

TEST_P(BinaryIntegerOps, EveryWidth) {
  for (const auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
    expect_same(forward(), {integers({4, 8}, dtype), nonzero_integers({4, 8}, dtype)});
  }
}

TEST_P(BinaryOps, MixedTypesPromote) {
  expect_same(forward(), {at::randn({4}), nonzero_integers({4}, at::kLong)});
  expect_same(forward(), {nonzero_integers({4}, at::kInt), at::randn({4}).to(at::kHalf) + 3}, {}, {}, {2e-3, 2e-3});
  if (GetParam().integers) {
    expect_same(forward(), {integers({4}, at::kInt), nonzero_integers({4}, at::kLong)});
    expect_same(forward(), {integers({4}, at::kInt), nonzero_integers({}, at::kLong)});
  }
}

struct BinaryBoolOps : BinaryOps {};

TEST_P(BinaryBoolOps, Bools) {
  const at::Tensor a = at::randint(0, 2, {8}).to(at::kBool);
  const at::Tensor b = at::randint(0, 2, {8}).to(at::kBool);
  expect_same(forward(), {a, b});
}

const std::vector<BinaryCase> kBoolCases = {
    BINARY(add, true),        BINARY(mul, true), BINARY(maximum, true),     BINARY(minimum, true),
    BINARY(eq, true),         BINARY(ne, true),  BINARY(lt, true),          BINARY(le, true),
    BINARY(gt, true),         BINARY(ge, true),  BINARY(logical_and, true), BINARY(logical_or, true),
    BINARY(logical_xor, true)};
const std::vector<BinaryCase> kIntegerCases = {BINARY(sub, true), BINARY(div, true), BINARY(floor_divide, true),
                                               BINARY(remainder, true), BINARY(fmod, true)};
const std::vector<BinaryCase> kFloatCases = {BINARY(atan2, false)};

std::string case_name(const ::testing::TestParamInfo<BinaryCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Bool, BinaryBoolOps, ::testing::ValuesIn(kBoolCases), case_name);
INSTANTIATE_TEST_SUITE_P(Bool, BinaryIntegerOps, ::testing::ValuesIn(kBoolCases), case_name);
INSTANTIATE_TEST_SUITE_P(Integer, BinaryIntegerOps, ::testing::ValuesIn(kIntegerCases), case_name);
INSTANTIATE_TEST_SUITE_P(Bool, BinaryOps, ::testing::ValuesIn(kBoolCases), case_name);
INSTANTIATE_TEST_SUITE_P(Integer, BinaryOps, ::testing::ValuesIn(kIntegerCases), case_name);
INSTANTIATE_TEST_SUITE_P(Float, BinaryOps, ::testing::ValuesIn(kFloatCases), case_name);

at::Tensor edges(c10::ScalarType dtype) {
  const auto least = dtype == at::kLong ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min();
  return at::tensor({least, least + 1, int64_t{-7}, int64_t{0}, int64_t{7}, -(least + 2), -(least + 1)}, at::kLong)
      .to(dtype);
}

TEST(OnnxElementwise, FloorDivisionHoldsAtTheEndsOfTheDtype) {
  for (const auto dtype : {at::kLong, at::kInt}) {
    const at::Tensor x = edges(dtype);
    for (const int64_t divisor : {20, -20, 1, 7}) {
      expect_same([divisor](const Tensors& t) { return Tensors{at::floor_divide(t[0], divisor)}; }, {x});
    }
    expect_same([](const Tensors& t) { return Tensors{at::floor_divide(t[0], t[1])}; },
                {x.slice(0, 1), x.slice(0, 0, 1)});
  }
  expect_same([](const Tensors& t) { return Tensors{at::floor_divide(t[0], 20)}; }, {at::arange(-128, 128, at::kChar)});
}

// 1 / 0.1 is 10 in floats, and ten times the float 0.1 is more than 1.
TEST(OnnxElementwise, FloorDivisionOfFloatsIsThatOfTheExactNumbers) {
  const at::Tensor x = at::tensor({1.0, 0.3, 0.6, -1.0, -0.3, 5.0, 0.0, 1e30, -2.5});
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor numbers = x.to(dtype);
    for (const double divisor : {0.1, -0.1, 3.0}) {
      expect_same([divisor](const Tensors& t) { return Tensors{at::div(t[0], divisor, "floor")}; }, {numbers});
    }
    expect_same([](const Tensors& t) { return Tensors{at::floor_divide(t[0], t[1])}; },
                {numbers.unsqueeze(1), numbers});
  }
}

TEST(OnnxElementwise, ScalarOverloadsAndAlpha) {
  const at::Tensor x = at::randn({2, 3});
  const at::Tensor n = integers({2, 3}, at::kLong);
  const auto on = [](auto function) { return [function](const Tensors& t) { return Tensors{function(t[0])}; }; };
  expect_same(on([](const at::Tensor& t) { return at::add(t, 2, 3); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::add(t, 2.5); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::sub(t, 2, 0.5); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::rsub(t, 1); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::mul(t, 3); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::div(t, 3); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::div(t, 2, "floor"); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::div(t, -2, "trunc"); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::div(t, 0.7, "floor"); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::remainder(t, -3); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::remainder(t, 0.7); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::floor_divide(t, -3); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::eq(t, 1.5); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::lt(t, 1); }), {n});
  expect_same(on([](const at::Tensor& t) { return t + true; }), {n});
}

TEST(OnnxElementwise, Powers) {
  const at::Tensor x = at::rand({2, 3}) + 0.5;
  const at::Tensor n = integers({2, 3}, at::kInt);
  const auto on = [](auto function) { return [function](const Tensors& t) { return Tensors{function(t[0])}; }; };
  for (const double exponent : {2.0, 0.5, 3.0, -1.0, 1.7}) {
    expect_same(on([exponent](const at::Tensor& t) { return at::pow(t, exponent); }), {x});
  }
  expect_same(on([](const at::Tensor& t) { return at::pow(t, 3); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::pow(t, 3); }), {n.to(at::kChar)});
  expect_same(on([](const at::Tensor& t) { return at::pow(2, t); }), {x});
  expect_same([](const Tensors& t) { return Tensors{at::pow(t[0], t[1])}; }, {x, at::randn({3})});
}

TEST(OnnxElementwise, Clamps) {
  const at::Tensor x = at::randn({3, 4});
  const at::Tensor n = integers({3, 4}, at::kShort);
  const auto on = [](auto function) { return [function](const Tensors& t) { return Tensors{function(t[0])}; }; };
  expect_same(on([](const at::Tensor& t) { return at::clamp(t, -0.5, 0.5); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::clamp(t, c10::nullopt, 0.5); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::clamp_min(t, 0.1); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::clamp_max(t, 0.1); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::clamp(t, -2, 3); }), {n});
  expect_same(on([](const at::Tensor& t) { return at::clamp(t, 1.0, -1.0); }), {x});
  expect_same([](const Tensors& t) { return Tensors{at::clamp(t[0], t[1], t[2])}; },
              {x, at::randn({4}), at::randn({3, 1})});
}

TEST(OnnxElementwise, ThreeOperands) {
  const at::Tensor a = at::randn({3, 4});
  const at::Tensor b = at::randn({4});
  const at::Tensor c = at::rand({3, 1}) + 0.5;
  expect_same([](const Tensors& t) { return Tensors{at::addcmul(t[0], t[1], t[2], 0.5)}; }, {a, b, c});
  expect_same([](const Tensors& t) { return Tensors{at::addcdiv(t[0], t[1], t[2], 2)}; }, {a, b, c});
  expect_same([](const Tensors& t) { return Tensors{at::lerp(t[0], t[1], t[2])}; },
              {a, b.expand({3, 4}), c.expand({3, 4})});
  expect_same([](const Tensors& t) { return Tensors{at::where(t[0] > 0, t[1], t[2])}; }, {a, b, c});
}

TEST(OnnxElementwise, WhereAndMaskedFillInEveryType) {
  const at::Tensor mask = at::randint(0, 2, {3, 4}).to(at::kBool);
  for (const auto dtype : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
                           at::kFloat, at::kDouble}) {
    const at::Tensor a = at::randint(0, 2, {3, 4}).to(dtype);
    const at::Tensor b = at::randint(0, 2, {4}).to(dtype);
    expect_same([](const Tensors& t) { return Tensors{at::where(t[0], t[1], t[2])}; }, {mask, a, b});
    expect_same([](const Tensors& t) { return Tensors{at::masked_fill(t[1], t[0], 1)}; }, {mask, a});
  }
  expect_same([](const Tensors& t) { return Tensors{at::masked_fill(t[1], t[0], -INFINITY)}; },
              {mask, at::randn({3, 4})});
}

TEST(OnnxElementwise, Bits) {
  for (const auto dtype : {at::kBool, at::kByte, at::kInt, at::kLong}) {
    const at::Tensor a = at::randint(0, dtype == at::kBool ? 2 : 100, {8}).to(dtype);
    const at::Tensor b = at::randint(0, dtype == at::kBool ? 2 : 100, {8}).to(dtype);
    expect_same(
        [](const Tensors& t) {
          return Tensors{at::bitwise_and(t[0], t[1]), at::bitwise_or(t[0], t[1]), at::bitwise_xor(t[0], t[1]),
                         at::bitwise_not(t[0])};
        },
        {a, b});
  }
  const at::Tensor n = integers({8}, at::kLong);
  const at::Tensor s = at::randint(0, 5, {8});
  expect_same(
      [](const Tensors& t) {
        return Tensors{at::bitwise_left_shift(t[0], t[1]), at::bitwise_right_shift(t[0], t[1])};
      },
      {n, s});
}

TEST(OnnxActivations, WithParameters) {
  const at::Tensor x = at::randn({2, 6}) * 3;
  const auto on = [](auto function) { return [function](const Tensors& t) { return Tensors{function(t[0])}; }; };
  for (const int64_t opset : {18, 23}) {
    const OnnxOptions options = at_opset(opset);
    expect_same(on([](const at::Tensor& t) { return at::gelu(t); }), {x}, {}, options);
    expect_same(on([](const at::Tensor& t) { return at::gelu(t, "tanh"); }), {x}, {}, options);
  }
  expect_same(on([](const at::Tensor& t) { return at::leaky_relu(t, 0.2); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::elu(t, 0.7); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::elu(t, 0.7, 1.3, 0.5); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::celu(t, 0.7); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::hardtanh(t, -0.5, 2); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::relu6(t); }), {x * 4});
  expect_same(on([](const at::Tensor& t) { return at::softplus(t, 2, 3); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::threshold(t, 0.2, -1); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::softshrink(t, 0.4); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::hardshrink(t, 0.4); }), {x});
  expect_same(on([](const at::Tensor& t) { return at::glu(t, -1); }), {x}, {{at::randn({3, 10})}});
  expect_same([](const Tensors& t) { return Tensors{at::prelu(t[0], t[1])}; }, {at::randn({2, 3, 4}), at::rand({3})});
  expect_same([](const Tensors& t) { return Tensors{at::prelu(t[0], t[1])}; }, {at::randn({2, 3}), at::rand({1})});
}

TEST(OnnxActivations, Softmax) {
  const at::Tensor x = at::randn({2, 3, 4});
  for (const int64_t dim : {-1, 0, 1}) {
    expect_same(
        [dim](const Tensors& t) {
          return Tensors{at::softmax(t[0], dim), at::log_softmax(t[0], dim)};
        },
        {x}, {{at::randn({1, 1, 1})}, {at::randn({3, 2, 9})}});
  }
  expect_same([](const Tensors& t) { return Tensors{at::softmax(t[0], 0)}; }, {at::randn({})});
  expect_same([](const Tensors& t) { return Tensors{at::softmax(t[0], -1, at::kFloat)}; }, {x.to(at::kHalf)});
  expect_same([](const Tensors& t) { return Tensors{at::softmax(t[0], -1, at::kFloat)}; },
              {integers({2, 3}, at::kLong)});
}

}  // namespace
}  // namespace exporters::onnx
