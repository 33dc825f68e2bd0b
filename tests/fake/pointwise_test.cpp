#include "dtypes.h"
#include "oracle.h"

namespace exporters::oracle {
namespace {

// One operand of every dtype the op takes; layouts of a 3-D and a 4-D tensor.
std::vector<Case> unary(const std::vector<std::string>& ops, const std::vector<c10::ScalarType>& dtypes) {
  std::vector<Case> cases;
  for (const std::string& op : ops) {
    cases.push_back(Case(op, {t("b s 8")}).all_layouts().dtypes(dtypes));
    cases.push_back(Case(op, {t("b 3 s w")}).all_layouts());
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(
    UnaryFloat, ShapeOracle,
    testing::ValuesIn(unary({"aten::exp",    "aten::exp2",    "aten::expm1",   "aten::log",    "aten::log2",
                             "aten::log10",  "aten::log1p",   "aten::sqrt",    "aten::rsqrt",  "aten::reciprocal",
                             "aten::sin",    "aten::cos",     "aten::tan",     "aten::asin",   "aten::acos",
                             "aten::atan",   "aten::sinh",    "aten::cosh",    "aten::tanh",   "aten::asinh",
                             "aten::acosh",  "aten::atanh",   "aten::sinc",    "aten::erf",    "aten::erfc",
                             "aten::erfinv", "aten::i0",      "aten::digamma", "aten::lgamma", "aten::sigmoid",
                             "aten::logit",  "aten::deg2rad", "aten::rad2deg", "aten::angle"},
                            {kHalf, kBFloat16, kDouble, kLong, kByte, kBool})),
    case_name);

INSTANTIATE_TEST_SUITE_P(UnarySame, ShapeOracle,
                         testing::ValuesIn(unary({"aten::abs", "aten::neg", "aten::sign", "aten::sgn", "aten::floor",
                                                  "aten::ceil", "aten::round", "aten::trunc", "aten::nan_to_num",
                                                  "aten::relu", "aten::relu6", "aten::hardtanh", "aten::square",
                                                  "aten::positive", "aten::conj_physical"},
                                                 {kHalf, kBFloat16, kDouble, kLong, kInt})),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Activations, ShapeOracle,
                         testing::ValuesIn(unary({"aten::leaky_relu", "aten::elu", "aten::celu", "aten::selu",
                                                  "aten::gelu", "aten::silu", "aten::mish", "aten::hardsigmoid",
                                                  "aten::hardswish", "aten::hardshrink", "aten::softshrink",
                                                  "aten::softplus", "aten::log_sigmoid", "aten::frac",
                                                  "aten::frexp.Tensor"},
                                                 {kHalf, kBFloat16, kDouble})),
                         case_name);

INSTANTIATE_TEST_SUITE_P(UnaryBool, ShapeOracle,
                         testing::ValuesIn(unary({"aten::isnan", "aten::isinf", "aten::isfinite", "aten::isposinf",
                                                  "aten::isneginf", "aten::signbit", "aten::logical_not"},
                                                 {kHalf, kDouble, kLong, kBool})),
                         case_name);

// Operands that broadcast, in all layouts, of mixed dtypes, and with numbers on either side.
std::vector<Case> binary(const std::vector<std::string>& ops, bool integers = true, bool floats = true) {
  std::vector<Case> cases;
  for (const std::string& op : ops) {
    const auto add = [&](TensorArg a, TensorArg b) { cases.push_back(Case(op, {std::move(a), std::move(b)})); };
    if (floats) {
      cases.push_back(Case(op, {t("b s 8"), t("b s 8")}).all_layouts().dtypes({kHalf, kBFloat16, kDouble}));
      cases.push_back(Case(op, {t("b s 8"), t("s 8")}).all_layouts());
      cases.push_back(Case(op, {t("b 1 s 8"), t("b 4 1 8")}).all_layouts());
      cases.push_back(Case(op, {t("b 3 s w"), t("3 1 1")}).all_layouts());
      add(t("b s"), t(""));
      add(t("b s").dtype(kHalf), t(""));
      add(t("b s").dtype(kHalf), t("1"));
      add(t("b s").dtype(kHalf), t("").wrapped_number().dtype(kDouble));
      add(t(""), t(""));
    }
    if (integers) {
      const auto ints = [](const char* sizes) { return t(sizes).dtype(kLong).values("1", "5"); };
      add(ints("b s"), ints("b s").dtype(kInt));
      add(ints("b s").dtype(kInt), ints(""));
      add(ints("b s").dtype(kByte), ints("b 1"));
      add(ints("b s"), t("b s").dtype(kBool));
      if (floats) {
        add(ints("b s"), t("s"));
        add(ints("b s"), t("s").dtype(kHalf));
        add(t("b s").dtype(kBFloat16), t("s").dtype(kHalf));
        add(t("b s").dtype(kHalf), ints("s"));
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Arithmetic, ShapeOracle,
                         testing::ValuesIn(binary({"aten::add.Tensor", "aten::mul.Tensor", "aten::div.Tensor",
                                                   "aten::maximum", "aten::minimum", "aten::pow.Tensor_Tensor",
                                                   "aten::atan2", "aten::fmax", "aten::fmin", "aten::copysign.Tensor",
                                                   "aten::xlogy.Tensor", "aten::float_power.Tensor_Tensor",
                                                   "aten::max.other", "aten::min.other"})),
                         case_name);

INSTANTIATE_TEST_SUITE_P(Comparisons, ShapeOracle,
                         testing::ValuesIn(binary({"aten::eq.Tensor", "aten::ne.Tensor", "aten::lt.Tensor",
                                                   "aten::le.Tensor", "aten::gt.Tensor", "aten::ge.Tensor",
                                                   "aten::logical_and", "aten::logical_or", "aten::logical_xor"})),
                         case_name);

INSTANTIATE_TEST_SUITE_P(FloatsOnly, ShapeOracle,
                         testing::ValuesIn(binary({"aten::logaddexp", "aten::logaddexp2", "aten::hypot"}, false)),
                         case_name);

INSTANTIATE_TEST_SUITE_P(IntegersOnly, ShapeOracle,
                         testing::ValuesIn(binary({"aten::bitwise_and.Tensor", "aten::bitwise_or.Tensor",
                                                   "aten::bitwise_xor.Tensor", "aten::gcd", "aten::__and__.Tensor"},
                                                  true, false)),
                         case_name);

std::vector<Case> scalars() {
  std::vector<Case> cases;
  for (const std::string op : {"add", "sub", "mul", "div", "rsub", "remainder", "fmod", "floor_divide", "eq", "lt"}) {
    for (const Arg& number : {Arg(3), Arg(2.5)}) {
      for (const auto dtype : {kFloat, kHalf, kLong, kByte}) {
        cases.push_back(Case("aten::" + op + ".Scalar", {t("b s 8").dtype(dtype).transposed(0, 1), number}));
      }
    }
  }
  for (const Arg& number : {Arg(2), Arg(0.5)}) {
    for (const auto dtype : {kFloat, kHalf, kLong, kBool}) {
      cases.push_back(Case("aten::pow.Tensor_Scalar", {t("b s").dtype(dtype), number}));
      cases.push_back(Case("aten::pow.Scalar", {number, t("b s").dtype(dtype)}));
      cases.push_back(Case("aten::add.Scalar", {t("").dtype(dtype), number}));
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Numbers, ShapeOracle, testing::ValuesIn(scalars()), case_name);

std::vector<Case> others() {
  const TensorArg ints = t("b s").dtype(kLong).values("1", "5");
  const TensorArg mask = t("b 1 s").dtype(kBool);
  return {
      // Numbers that depend on sizes
      {"aten::add.Scalar", {t("b s"), "s"}},
      {"aten::add.Scalar", {ints, "b*s"}},
      {"aten::mul.Scalar", {t("b s").dtype(kHalf), "s"}},
      // More of the four operations
      Case("aten::sub.Tensor", {t("b s 8"), t("b s 8")}).all_layouts(),
      {"aten::sub.Tensor", {ints, t("b 1").dtype(kInt)}},
      {"aten::rsub.Tensor", {t("b s"), t("s")}},
      {"aten::subtract.Tensor", {t("b s"), t("s")}},
      {"aten::multiply.Tensor", {t("b s"), t("s")}},
      {"aten::true_divide.Tensor", {ints, ints}},
      {"aten::div.Tensor_mode", {ints, ints, kw("rounding_mode", "floor")}},
      {"aten::div.Tensor_mode", {ints, t("b s"), kw("rounding_mode", "trunc")}},
      {"aten::div.Tensor_mode", {ints, ints, kw("rounding_mode", none)}},
      {"aten::div.Scalar_mode", {ints, 2, kw("rounding_mode", "floor")}},
      {"aten::div.Scalar_mode", {ints, 2.0, kw("rounding_mode", "trunc")}},
      {"aten::floor_divide", {ints, t("s").dtype(kInt).values("1", "5")}},
      {"aten::floor_divide", {t("b s"), t("b s")}},
      {"aten::remainder.Tensor", {t("b s"), ints}},
      {"aten::remainder.Scalar_Tensor", {7, ints}},
      {"aten::fmod.Tensor", {ints, ints}},
      {"aten::heaviside", {t("b s"), t("s")}},
      {"aten::nextafter", {t("b s"), t("s")}},
      {"aten::lcm", {ints, ints}},
      {"aten::polygamma", {1, t("b s")}},
      {"aten::round.decimals", {t("b s"), kw("decimals", 2)}},
      {"aten::xlogy.Scalar_Other", {ints, 2.0}},
      {"aten::xlogy.Scalar_Self", {2, ints}},
      // Bits
      {"aten::bitwise_not", {ints}},
      {"aten::bitwise_not", {mask}},
      {"aten::bitwise_and.Scalar", {ints, 3}},
      {"aten::bitwise_left_shift.Tensor", {ints, ints}},
      {"aten::bitwise_right_shift.Tensor_Scalar", {ints, 1}},
      {"aten::__lshift__.Scalar", {ints, 1}},
      {"aten::__rshift__.Tensor", {ints, ints}},
      {"aten::__and__.Scalar", {ints, 3}},
      {"aten::__or__.Tensor", {mask, mask}},
      {"aten::__xor__.Tensor", {mask, mask}},
      // Ternary
      Case("aten::where.self", {t("b 1 s").dtype(kBool), t("b 4 s"), t("b 4 s")}).all_layouts(),
      Case("aten::where.self", {t("s s").dtype(kBool), t("b s s"), t("")}).all_layouts(),
      {"aten::where.self", {mask, ints, t("b 1 s").dtype(kHalf)}},
      {"aten::where.ScalarOther", {mask, t("b 4 s").dtype(kHalf), -1.0}},
      {"aten::where.ScalarSelf", {mask, 0, t("b 4 s").dtype(kHalf)}},
      {"aten::where.ScalarSelf", {mask, 0.5, t("b 4 s").dtype(kLong)}},
      {"aten::where.Scalar", {mask, 1.0, 0.0}},
      {"aten::where.Scalar", {mask, 1, 0}},
      Case("aten::lerp.Scalar", {t("b s 8"), t("b 1 8"), 0.5}).all_layouts(),
      {"aten::lerp.Tensor", {t("b s"), t("b s"), t("s")}},
      Case("aten::addcmul", {t("b s 8"), t("s 8"), t("b s 1")}).all_layouts(),
      {"aten::addcmul", {ints, ints, t("s").dtype(kInt)}},
      {"aten::addcdiv", {t("b s"), t("b s"), t("s"), kw("value", 0.5)}},
      // Clamping
      {"aten::clamp", {t("b s"), 0, 1}},
      {"aten::clamp", {ints, 0, none}},
      {"aten::clamp", {ints, 0.5, none}},
      {"aten::clamp", {t("b s").dtype(kHalf), none, 1.0}},
      {"aten::clamp.Tensor", {t("b s"), t("s"), t("")}},
      {"aten::clamp.Tensor", {ints, none, t("s")}},
      {"aten::clamp_min", {ints, 2}},
      {"aten::clamp_max", {ints, 2.5}},
      {"aten::clamp_min.Tensor", {t("b s"), t("s")}},
      {"aten::clip", {t("b s"), 0, none}},
      {"aten::hardtanh", {t("b s"), -2, 2}},
      {"aten::threshold", {t("b s"), 0.1, 20}},
      {"aten::gelu", {t("b s"), kw("approximate", "tanh")}},
      {"aten::softplus", {t("b s").transposed(0, 1)}},
      {"aten::rrelu", {t("b s")}},
      {"aten::prelu", {t("b 4 s"), t("4")}},
      {"aten::prelu", {t("b 4 s"), t("1")}},
      Case("aten::_prelu_kernel", {t("b 4 s"), t("1 4 1")}).all_layouts(),
      // Halves of an axis
      Case("aten::glu", {t("b s 8")}).all_layouts(),
      {"aten::glu", {t("b 2*s 8"), 1}},
      {"aten::glu", {t("b 6 s w").channels_last(), 1}},
      Case("aten::glu", {t("b s 7")}).refused("halves an axis"),
      // Masks
      Case("aten::masked_fill.Scalar", {t("b 4 s"), mask, -1.0}).all_layouts(),
      Case("aten::masked_fill.Scalar", {t("b h s s"), t("s s").dtype(kBool), 0}).all_layouts(),
      {"aten::masked_fill.Scalar", {ints, t("s").dtype(kBool), 0}},
      {"aten::masked_fill.Tensor", {t("b s"), t("b s").dtype(kBool), t("")}},
      {"aten::masked_fill.Scalar", {t("s"), t("b s").dtype(kBool), 0.0}},
      // Outputs given by the caller
      {"aten::add.out", {t("b s"), t("s"), kw("out", t("b s"))}},
      {"aten::sigmoid.out", {t("b s"), kw("out", t("b s").transposed(0, 1))}},
      Case("aten::add.out", {t("b s"), t("s"), kw("out", t("s"))}).refused("size of the tensor"),
      // Distributions
      {"aten::normal.Tensor_float", {t("b s"), 1.0}},
      // Composite ones
      {"aten::isclose", {t("b s"), t("s")}},
      {"aten::absolute", {t("b s")}},
      {"aten::negative", {t("b s")}},
      {"aten::greater.Tensor", {t("b s"), t("s")}},
      {"aten::not_equal.Scalar", {t("b s"), 0}},
      {"aten::arctan2", {t("b s"), t("s")}},
      {"aten::special_expit", {t("b s")}},
      {"aten::special_xlog1py", {t("b s"), t("s")}},
      {"aten::fix", {t("b s")}},
      {"aten::ldexp.Tensor", {t("b s"), ints}},
      {"aten::mvlgamma", {t("b s").dtype(kLong).values("5", "9"), 2}},
      {"aten::cosine_similarity", {t("b s 8"), t("b s 8"), -1}},
      {"aten::pairwise_distance", {t("b 8"), t("b 8")}},
      {"aten::isin.Tensor_Tensor", {t("b s").transposed(0, 1), t("n")}},
      {"aten::isin.Tensor_Scalar", {ints, 2}},
      {"aten::complex", {t("b s"), t("s")}},
      {"aten::polar", {t("b s"), t("b s")}},
      // Complex numbers
      {"aten::abs", {t("b s").dtype(kComplex)}},
      {"aten::angle", {t("b s").dtype(kComplex)}},
      {"aten::mul.Tensor", {t("b s").dtype(kComplex), t("s")}},
      {"aten::float_power.Scalar", {2, t("b s")}},
      {"aten::float_power.Tensor_Scalar", {ints, 2}},
  };
}
INSTANTIATE_TEST_SUITE_P(OtherPointwise, ShapeOracle, testing::ValuesIn(others()), case_name);

std::vector<Case> copies() {
  std::vector<Case> cases;
  for (const char* sizes : {"b s 8", "b 3 s w", "b 3 d s w", "s", ""}) {
    cases.push_back(Case("aten::clone", {t(sizes)}).all_layouts());
    cases.push_back(Case("aten::clone", {t(sizes), kw("memory_format", c10::MemoryFormat::Contiguous)}).all_layouts());
    cases.push_back(Case("aten::contiguous", {t(sizes)}).all_layouts().view_depends_on_ones());
    cases.push_back(Case("aten::_to_copy", {t(sizes), kw("dtype", kHalf)}).all_layouts());
    cases.push_back(Case("aten::to.dtype", {t(sizes), kFloat}).all_layouts());
    cases.push_back(Case("aten::to.dtype", {t(sizes), kDouble}).all_layouts());
    cases.push_back(Case("aten::to.dtype", {t(sizes), kFloat, false, true}).all_layouts());
    cases.push_back(Case("aten::fill.Scalar", {t(sizes), 1}).all_layouts());
    cases.push_back(Case("aten::zero", {t(sizes)}).all_layouts());
    cases.push_back(Case("aten::copy", {t(sizes), t("")}).all_layouts());
  }
  const std::vector<Case> more = {
      {"aten::clone", {t("b 3 s w"), kw("memory_format", c10::MemoryFormat::ChannelsLast)}},
      Case("aten::contiguous", {t("b 3 s w").channels_last(), kw("memory_format", c10::MemoryFormat::ChannelsLast)})
          .view_depends_on_ones(),
      Case("aten::contiguous", {t("b 3 s w"), kw("memory_format", c10::MemoryFormat::ChannelsLast)})
          .view_depends_on_ones(),
      {"aten::to.other", {t("b s"), t("4").dtype(kHalf)}},
      {"aten::to.dtype_layout", {t("b s"), kw("dtype", kLong)}},
      {"aten::to.dtype_layout", {t("b s"), kw("dtype", kFloat)}},
      {"aten::type_as", {t("b s"), t("s").dtype(kBFloat16)}},
      {"aten::_cast_Float", {t("b s").dtype(kHalf)}},
      // In place: the argument itself comes back
      {"aten::add_.Tensor", {t("b s 8"), t("s 8")}},
      {"aten::add_.Scalar", {t("b s 8"), 1}},
      {"aten::mul_.Tensor", {t("b s 8").transposed(0, 1), t("")}},
      {"aten::div_.Scalar", {t("b s"), 2}},
      {"aten::relu_", {t("b s").sliced(1)}},
      {"aten::clamp_", {t("b s"), 0, none}},
      {"aten::masked_fill_.Scalar", {t("b s s"), t("s s").dtype(kBool), -1.0}},
      {"aten::copy_", {t("b s 8"), t("s 1").dtype(kLong)}},
      {"aten::fill_.Scalar", {t("b s"), 0.5}},
      {"aten::fill_.Tensor", {t("b s"), t("")}},
      {"aten::zero_", {t("b s")}},
      {"aten::normal_", {t("b s")}},
      {"aten::uniform_", {t("b s")}},
      {"aten::random_", {t("b s")}},
      {"aten::bernoulli_.float", {t("b s"), 0.5}},
      {"aten::bernoulli.p", {t("b s").expanded(0), 0.5}},
      Case("aten::add_.Tensor", {t("s"), t("b s").dtype(kFloat)}).refused("size of the tensor"),
      Case("aten::add_.Tensor", {t("b s").dtype(kLong), t("b s")}).refused("cannot be written to a tensor of Long"),
      // Dropout
      {"aten::dropout", {t("b s").transposed(0, 1), 0.1, false}},
      {"aten::dropout", {t("b s").transposed(0, 1), 0.1, true}},
      {"aten::dropout", {t("b s"), 0.0, true}},
      {"aten::dropout_", {t("b s"), 0.5, true}},
      {"aten::alpha_dropout", {t("b s"), 0.5, false}},
      {"aten::feature_dropout", {t("b 4 s"), 0.5, true}},
      {"aten::native_dropout", {t("b s").transposed(0, 1), 0.5, true}},
      {"aten::native_dropout", {t("b s"), 0.5, false}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Copies, ShapeOracle, testing::ValuesIn(copies()), case_name);

std::vector<Case> broadcasts() {
  return {
      // Two names that meet: equal samples become one name.
      Case("aten::add.Tensor", {t("a s"), t("b s")}).sample("a", 4).sample("b", 4).binds({"b"}),
      // A sample of 1 that meets another one is static 1.
      Case("aten::add.Tensor", {t("a s"), t("b s")}).sample("a", 4).sample("b", 1).binds({"b"}),
      // A name that meets a number.
      Case("aten::add.Tensor", {t("a s"), t("4 1")}).sample("a", 4).binds({"a"}),
      Case("aten::add.Tensor", {t("a s"), t("b s")}).sample("a", 4).sample("b", 5).refused("do not broadcast"),
  };
}
INSTANTIATE_TEST_SUITE_P(Broadcasts, ShapeOracle, testing::ValuesIn(broadcasts()), case_name);

}  // namespace
}  // namespace exporters::oracle
