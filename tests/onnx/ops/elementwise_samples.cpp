// Arithmetic, comparisons, activations.
#include "tests/onnx/ops/op_sample.h"

#include <cmath>

namespace exporters::onnx::testing {
namespace {

using c10::ScalarType;

struct Range {
  const char* op;
  double low;
  double high;
};

constexpr Range kUnary[] = {
    {"abs", -2, 2},      {"neg", -2, 2},        {"exp", -2, 2},         {"exp2", -2, 2},        {"expm1", -2, 2},
    {"log", 0.1, 3},     {"log2", 0.1, 3},      {"log10", 0.1, 3},      {"log1p", -0.5, 3},     {"sqrt", 0, 3},
    {"rsqrt", 0.1, 3},   {"square", -2, 2},     {"reciprocal", 0.2, 2}, {"sin", -3, 3},         {"cos", -3, 3},
    {"tan", -1, 1},      {"asin", -0.9, 0.9},   {"acos", -0.9, 0.9},    {"atan", -3, 3},        {"sinh", -2, 2},
    {"cosh", -2, 2},     {"asinh", -2, 2},      {"acosh", 1.1, 3},      {"atanh", -0.8, 0.8},   {"erf", -2, 2},
    {"erfc", -2, 2},     {"sign", -2, 2},       {"sgn", -2, 2},         {"floor", -3, 3},       {"ceil", -3, 3},
    {"round", -3, 3},    {"trunc", -3, 3},      {"fix", -3, 3},         {"frac", -3, 3},        {"positive", -2, 2},
    {"relu", -2, 2},     {"relu6", -2, 9},      {"tanh", -2, 2},        {"sigmoid", -3, 3},     {"silu", -3, 3},
    {"mish", -3, 3},     {"hardswish", -4, 4},  {"hardsigmoid", -4, 4}, {"log_sigmoid", -3, 3}, {"selu", -2, 2},
    {"softplus", -3, 3}, {"gelu", -3, 3},       {"hardtanh", -3, 3},    {"leaky_relu", -3, 3},  {"elu", -3, 3},
    {"celu", -3, 3},     {"softshrink", -3, 3}, {"hardshrink", -3, 3},  {"nan_to_num", -2, 2},  {"isnan", -2, 2},
    {"isinf", -2, 2},    {"isposinf", -2, 2},   {"isneginf", -2, 2},    {"isfinite", -2, 2}};

constexpr const char* kArithmetic[] = {
    "add.Tensor",         "sub.Tensor",          "rsub.Tensor",        "mul.Tensor",
    "multiply.Tensor",    "div.Tensor",          "atan2.default",      "fmod.Tensor",
    "true_divide.Tensor", "remainder.Tensor",    "maximum.default",    "floor_divide.default",
    "minimum.default",    "max.other",           "min.other",          "eq.Tensor",
    "ne.Tensor",          "lt.Tensor",           "le.Tensor",          "gt.Tensor",
    "ge.Tensor",          "logical_and.default", "logical_or.default", "logical_xor.default"};
constexpr const char* kBits[] = {"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor",
                                 "__and__.Tensor",     "__or__.Tensor",     "__xor__.Tensor"};
constexpr const char* kShifts[] = {"bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor", "__lshift__.Tensor",
                                   "__rshift__.Tensor"};
constexpr const char* kDropouts[] = {"dropout", "feature_dropout", "alpha_dropout"};

std::string aten(const std::string& op) { return "aten." + op; }

// Away from zero, so that floor(a / b) is not decided by rounding.
SampleTensor divisor(const std::string& sizes) { return f(sizes, 0.3, 3); }

OpSamples by_name() {
  OpSamples samples;
  for (const Range& each : kUnary) {
    samples.push_back({aten(each.op) + ".default", {f("n m", each.low, each.high)}});
  }
  for (const char* op : kArithmetic) {
    samples.push_back({aten(op), {f("n m"), divisor("n m")}});
    samples.push_back({aten(op), {f("n m"), divisor("m")}});
  }
  for (const char* op : {"add.Tensor", "mul.Tensor", "multiply.Tensor", "maximum.default", "minimum.default",
                         "max.other", "min.other", "lt.Tensor", "ge.Tensor"}) {
    samples.push_back({aten(op), {bools("n m"), bools("m")}});
  }
  for (const char* op : {"floor_divide.Scalar", "remainder.Scalar", "fmod.Scalar"}) {
    samples.push_back({aten(op), {ints("n m", "90", ScalarType::Short), 7}});
  }
  for (const char* op : {"maximum.default", "min.other"}) {
    samples.push_back({aten(op), {ints("n m", "90", ScalarType::Short), ints("m", "90", ScalarType::Short)}});
  }
  for (const char* op : kBits) {
    samples.push_back({aten(op), {ints("n m", "100"), ints("m", "100")}});
    samples.push_back({aten(op), {bools("n m"), bools("m")}});
  }
  for (const char* op : kShifts) {
    samples.push_back({aten(op), {ints("n m", "100"), ints("m", "5")}});
  }
  for (const char* op : kDropouts) {
    samples.push_back({aten(op) + ".default", {f("n m"), 0.5, false}});
    samples.push_back(OpSample{aten(op) + ".default", {f("n m"), 0.5, true}}.is_refused("training mode"));
  }
  return samples;
}

OpSamples by_argument() {
  const SampleTensor x = f("n m");
  return {
      {"aten.add.Tensor", {x, f("m"), kw("alpha", 0.5)}},
      {"aten.sub.Tensor", {x, f("m"), kw("alpha", 2)}},
      {"aten.rsub.Tensor", {x, f("m"), kw("alpha", 2)}},
      {"aten.rsub.Scalar", {x, 1}},
      {"aten.div.Tensor_mode", {x, divisor("m"), kw("rounding_mode", "floor")}},
      {"aten.div.Tensor_mode", {x, divisor("m"), kw("rounding_mode", "trunc")}},
      {"aten.div.Scalar_mode", {ints("n m", "50"), -7, kw("rounding_mode", "floor")}},
      {"aten.true_divide.Scalar", {ints("n m", "50"), 7}},
      {"aten.pow.Tensor_Scalar", {x, 2}},
      {"aten.pow.Tensor_Scalar", {f("n m", 0, 2), 0.5}},
      {"aten.pow.Tensor_Scalar", {ints("n m", "5", ScalarType::Char), 3}},
      {"aten.pow.Tensor_Tensor", {f("n m", 0.2, 2), f("m")}},
      {"aten.pow.Scalar", {2, x}},
      {"aten.neg.default", {ints("n m", "200", ScalarType::Byte)}},
      {"aten.sign.default", {ints("n m", "3")}},
      {"aten.sgn.default", {ints("n m", "3")}},
      {"aten.sign.default", {bools("n m")}},
      {"aten.floor.default", {ints("n m", "9")}},
      {"aten.round.decimals", {x, kw("decimals", 2)}},
      {"aten.nan_to_num.default", {ints("n m", "9")}},
      {"aten.clamp.default", {x, -0.5, 0.5}},
      {"aten.clamp.Tensor", {x, f("m", -1, 0), f("m", 0, 1)}},
      {"aten.clip.default", {x, none(), 0.5}},
      {"aten.clip.default", {x, -0.5, 0.5}},
      {"aten.clamp_min.default", {x, 0.1}},
      {"aten.clamp_max.default", {x, 0.1}},
      {"aten.addcmul.default", {x, f("m"), f("n 1"), kw("value", 0.5)}},
      {"aten.addcdiv.default", {x, f("m"), divisor("n 1"), kw("value", 0.5)}},
      {"aten.lerp.Scalar", {x, f("m"), 0.3}},
      {"aten.lerp.Tensor", {x, x, f("n m", 0, 1)}},
      {"aten.bitwise_not.default", {ints("n m", "100")}},
      {"aten.bitwise_not.default", {bools("n m")}},
      {"aten.logical_not.default", {x}},
      {"aten.eq.Scalar", {ints("n m", "3"), 1}},
      {"aten.where.self", {bools("n m"), x, f("m")}},
      {"aten.where.self", {bools("n m"), bools("n m"), bools("m")}},
      OpSample{"aten.where.default", {bools("n m")}}.is_refused("gives indices"),
      {"aten.masked_fill.Scalar", {x, bools("m"), 1.5}},
      {"aten.masked_fill.Tensor", {x, bools("n m"), f("")}},
      {"aten.isnan.default", {ints("n m", "9")}},
      {"aten.isinf.default", {ints("n m", "9")}},
      {"aten.isposinf.default", {ints("n m", "9")}},
      {"aten.isneginf.default", {ints("n m", "9")}},
      {"aten.isfinite.default", {ints("n m", "9")}},
      // Activations.
      {"aten.relu.default", {ints("n m", "9")}},
      {"aten.gelu.default", {x, kw("approximate", "tanh")}},
      {"aten.softplus.default", {x, 2.0, 3.0}},
      {"aten.elu.default", {x, 0.7, 1.3, 0.5}},
      {"aten.threshold.default", {x, 0.2, -1.0}},
      {"aten.prelu.default", {f("n 3 m"), f("3", 0, 1)}},
      {"aten.prelu.default", {f("n m"), f("1", 0, 1)}},
      {"aten._prelu_kernel.default", {x, f("n m", 0, 1)}},
      {"aten.glu.default", {f("n 6"), 1}},
      {"aten.softmax.int", {x, -1}},
      {"aten._softmax.default", {x, 0, false}},
      {"aten.special_softmax.default", {x, 1}},
      {"aten._safe_softmax.default", {x, 1}},
      {"aten.log_softmax.int", {x, -1}},
      {"aten._log_softmax.default", {x, 0, false}},
  };
}

}  // namespace

OpSamples elementwise_samples() {
  OpSamples samples = by_name();
  const OpSamples more = by_argument();
  samples.insert(samples.end(), more.begin(), more.end());
  return samples;
}

}  // namespace exporters::onnx::testing
