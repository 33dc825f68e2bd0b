#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <algorithm>
#include <array>

// ── Elementwise ops: broadcasting and type promotion ──
namespace exporters::families {
namespace {

using c10::ScalarType;

struct Operands {
  std::vector<at::Tensor> tensors;
  std::vector<TensorMeta> metas;
  std::vector<at::Scalar> scalars;
};

bool is_operand(std::string_view name) {
  static constexpr std::array<std::string_view, 15> kNames = {"self", "other",    "tensor1", "tensor2", "end",
                                                              "min",  "exponent", "max",     "values",  "input",
                                                              "x",    "weight",   "n",       "src",     "min_val"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

Operands operands_of(const ShapeCall& call) {
  Operands operands;
  for (const auto& argument : call.schema().arguments()) {
    const std::string_view name = argument.name();
    if (!is_operand(name) || !call.has(name)) {
      continue;
    }
    if (call.value(name).isTensor()) {
      operands.tensors.push_back(call.tensor(name));
      operands.metas.push_back(meta_of(operands.tensors.back()));
    } else {
      operands.scalars.push_back(call.scalar(name));
    }
  }
  return operands;
}

void returns_elementwise(ShapeCall& call, const Operands& operands, ScalarType dtype) {
  call.returns(elementwise(call.env(), operands.metas, dtype));
}

// Result of the promoted type: add, mul, maximum, …
void promoting(ShapeCall& call) {
  const Operands operands = operands_of(call);
  returns_elementwise(call, operands, promote(operands.tensors, operands.scalars));
}

// Integers give floating results: div, sqrt, exp, sigmoid, …
void promoting_to_float(ShapeCall& call) {
  const Operands operands = operands_of(call);
  returns_elementwise(call, operands, to_floating(promote(operands.tensors, operands.scalars)));
}

// Comparisons and tests.
void to_bool(ShapeCall& call) { returns_elementwise(call, operands_of(call), ScalarType::Bool); }

// The type of self, whatever the scalars: relu, neg, floor, …
void like_self(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(elementwise(call.env(), {self}, self.dtype));
}

void row_major_like_self(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(dense(self.sizes, self.dtype, self.device));
}

// All tensors broadcast, the type of self: lerp, prelu, …
void broadcast_like_self(ShapeCall& call) { returns_elementwise(call, operands_of(call), call.meta("self").dtype); }

// The magnitude of complex numbers is real.
void to_real(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(elementwise(call.env(), {self}, c10::toRealValueType(self.dtype)));
}

void angle(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(elementwise(call.env(), {self}, to_floating(c10::toRealValueType(self.dtype))));
}

// div with a rounding mode: only true division makes floats of integers.
void divide(ShapeCall& call) { call.has("rounding_mode") ? promoting(call) : promoting_to_float(call); }

void float_power(ShapeCall& call) {
  const Operands operands = operands_of(call);
  const bool complex = c10::isComplexType(promote(operands.tensors, operands.scalars));
  returns_elementwise(call, operands, complex ? ScalarType::ComplexDouble : ScalarType::Double);
}

void frexp(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(elementwise(call.env(), {self}, self.dtype));
  call.returns(elementwise(call.env(), {self}, ScalarType::Int));
}

// where: the condition comes first for layout and takes no part in the type.
void where(ShapeCall& call) {
  Operands operands = operands_of(call);
  const ScalarType dtype = promote(operands.tensors, operands.scalars);
  operands.metas.insert(operands.metas.begin(), call.meta("condition"));
  returns_elementwise(call, operands, dtype);
}

// masked_fill clones the broadcast self row-major.
void masked_fill(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(dense(broadcast_sizes(call.env(), {call.meta("mask"), self}), self.dtype, self.device));
}

// complex(real, imag), polar(abs, angle)
void to_complex(ShapeCall& call) {
  const auto& arguments = call.schema().arguments();
  const TensorMeta first = call.meta(arguments[0].name()), second = call.meta(arguments[1].name());
  if (first.dtype != second.dtype || !c10::isFloatingType(first.dtype)) {
    call.refuse(std::string("the parts have dtypes ") + c10::toString(first.dtype) + " and " +
                c10::toString(second.dtype) + "; both must be of one floating type");
  }
  call.returns(elementwise(call.env(), {first, second}, c10::toComplexType(first.dtype)));
}

// Which elements are among the others.
void is_in(ShapeCall& call) {
  const bool one = !call.value("elements").isTensor();
  const TensorMeta elements = one ? TensorMeta{} : call.meta("elements");
  call.returns(dense(elements.sizes, ScalarType::Bool, elements.device));
}

// Random numbers around means, which are tensors or not, as the standard deviations are.
void normal(ShapeCall& call) {
  std::vector<TensorMeta> operands;
  for (const std::string_view name : {"mean", "std", "self"}) {
    if (call.has(name) && call.value(name).isTensor()) operands.push_back(call.meta(name));
  }
  call.returns(elementwise(call.env(), operands, operands.front().dtype));
}

void glu(ShapeCall& call) {
  TensorMeta half = call.meta("self");
  const auto dim = static_cast<size_t>(call.dim("dim", half.dim()));
  const Expr size = half.sizes.empty() ? Expr(1) : half.sizes[dim];
  if (half.sizes.empty() || !holds(call.env(), eq(mod(size, 2), 0))) {
    call.refuse("glu halves an axis, but its size is " + size.str());
  }
  half.sizes[dim] = call.env().simplify(floordiv(size, 2));
  call.returns(elementwise(call.env(), {half, half}, half.dtype));
}

// ── Copies and conversions ──

void clone(ShapeCall& call) { call.returns(like(call.env(), call.meta("self"), call.memory_format())); }

void contiguous(ShapeCall& call) {
  const auto format = call.memory_format().value_or(c10::MemoryFormat::Contiguous);
  const TensorMeta self = call.meta("self");
  if (is_contiguous(self, call.env(), format)) {
    call.returns_same(call.tensor("self"));
  } else {
    call.returns(like(call.env(), self, format));
  }
}

// Preserving a layout with gaps falls back to the format that the strides suggest.
void to_copy(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  auto format = call.memory_format().value_or(c10::MemoryFormat::Preserve);
  if (format == c10::MemoryFormat::Preserve && !is_dense(call.env(), self)) {
    format = suggest_memory_format(call.env(), self);
  }
  TensorMeta copy = like(call.env(), self, format);
  copy.dtype = call.dtype().value_or(self.dtype);
  copy.device = call.device().value_or(self.device);
  call.returns(std::move(copy));
}

void require_fits(const ShapeCall& call, const TensorMeta& target, const TensorMeta& source) {
  const std::vector<Expr> sizes = broadcast_sizes(call.env(), {target, source});
  bool same = sizes.size() == target.sizes.size();
  for (size_t d = 0; same && d < sizes.size(); ++d) {
    same = holds(call.env(), eq(sizes[d], target.sizes[d]));
  }
  if (!same) {
    call.refuse("the source does not fit the tensor it is copied to");
  }
}

void copy_in_place(ShapeCall& call) {
  require_fits(call, call.meta("self"), call.meta("src"));
  call.returns_same(call.tensor("self"));
}

// The functional form copies self's whole memory, gaps included.
void copy(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_fits(call, self, call.meta("src"));
  const bool overlaps =
      std::any_of(self.strides.begin(), self.strides.end(), [](const Expr& s) { return s == Expr(0); });
  call.returns(overlaps ? like(call.env(), self) : self);
}

// Fills, and random numbers written to self.
void returns_self(ShapeCall& call) { call.returns_same(call.tensor("self")); }

// ── Dropout ──

void dropout(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  if (!call.boolean("train") || call.floating("p") == 0) {
    call.returns_same(call.tensor("input"));
  } else {
    call.returns(elementwise(call.env(), {input}, input.dtype));
  }
}

void dropout_in_place(ShapeCall& call) { call.returns_same(call.tensor(call.schema().arguments()[0].name())); }

void native_dropout(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  call.returns(elementwise(call.env(), {input}, input.dtype));
  call.returns(elementwise(call.env(), {input}, ScalarType::Bool));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    // Arithmetic
    {"aten::add", promoting},
    {"aten::sub", promoting},
    {"aten::rsub", promoting},
    {"aten::mul", promoting},
    {"aten::div", divide},
    {"aten::floor_divide", promoting},
    {"aten::remainder", promoting},
    {"aten::fmod", promoting},
    {"aten::pow", promoting},
    {"aten::float_power", float_power},
    {"aten::maximum", promoting},
    {"aten::minimum", promoting},
    {"aten::fmax", promoting},
    {"aten::fmin", promoting},
    {"aten::max.other", promoting},
    {"aten::min.other", promoting},
    {"aten::gcd", promoting},
    {"aten::lcm", promoting},
    {"aten::hypot", promoting},
    {"aten::nextafter", promoting},
    {"aten::heaviside", promoting},
    {"aten::atan2", promoting_to_float},
    {"aten::copysign", promoting_to_float},
    {"aten::xlogy", promoting_to_float},
    {"aten::special_xlogy", promoting_to_float},
    {"aten::special_xlog1py", promoting_to_float},
    {"aten::logaddexp", promoting_to_float},
    {"aten::logaddexp2", promoting_to_float},
    {"aten::igamma", promoting_to_float},
    {"aten::igammac", promoting_to_float},
    {"aten::polygamma", promoting_to_float},
    {"aten::addcmul", promoting},
    {"aten::addcdiv", promoting},
    {"aten::_add_relu", promoting},
    {"aten::lerp", broadcast_like_self},
    {"aten::clamp", promoting},
    {"aten::clamp_min", promoting},
    {"aten::clamp_max", promoting},
    {"aten::clip", promoting},
    {"aten::where.self", where},
    {"aten::where.ScalarSelf", where},
    {"aten::where.ScalarOther", where},

    // Comparisons, logic and bits
    {"aten::eq", to_bool},
    {"aten::ne", to_bool},
    {"aten::lt", to_bool},
    {"aten::le", to_bool},
    {"aten::gt", to_bool},
    {"aten::ge", to_bool},
    {"aten::logical_and", to_bool},
    {"aten::logical_or", to_bool},
    {"aten::logical_xor", to_bool},
    {"aten::logical_not", to_bool},
    {"aten::isnan", to_bool},
    {"aten::isinf", to_bool},
    {"aten::isfinite", to_bool},
    {"aten::isposinf", to_bool},
    {"aten::isneginf", to_bool},
    {"aten::signbit", to_bool},
    {"aten::isin.Tensor_Tensor", is_in},
    {"aten::isin.Tensor_Scalar", is_in},
    {"aten::isin.Scalar_Tensor", is_in},
    {"aten::bitwise_and", promoting},
    {"aten::bitwise_or", promoting},
    {"aten::bitwise_xor", promoting},
    {"aten::bitwise_not", like_self},
    {"aten::bitwise_left_shift", promoting},
    {"aten::bitwise_right_shift", promoting},
    {"aten::__and__", promoting},
    {"aten::__or__", promoting},
    {"aten::__xor__", promoting},
    {"aten::__lshift__", promoting},
    {"aten::__rshift__", promoting},

    // One operand, its own type
    {"aten::abs", to_real},
    {"aten::angle", angle},
    {"aten::neg", like_self},
    {"aten::positive", returns_self},
    {"aten::sign", like_self},
    {"aten::sgn", like_self},
    {"aten::_conj_physical", like_self},
    {"aten::floor", like_self},
    {"aten::ceil", like_self},
    {"aten::round", like_self},
    {"aten::trunc", like_self},
    {"aten::frac", like_self},
    {"aten::nan_to_num", like_self},
    {"aten::relu", like_self},
    {"aten::relu6", like_self},
    {"aten::leaky_relu", like_self},
    {"aten::elu", like_self},
    {"aten::celu", like_self},
    {"aten::selu", like_self},
    {"aten::gelu", like_self},
    {"aten::silu", like_self},
    {"aten::mish", like_self},
    {"aten::hardtanh", like_self},
    {"aten::hardsigmoid", like_self},
    {"aten::hardswish", like_self},
    {"aten::hardshrink", like_self},
    {"aten::softshrink", like_self},
    {"aten::softplus", like_self},
    {"aten::log_sigmoid", row_major_like_self},
    {"aten::threshold", like_self},
    {"aten::rrelu", like_self},
    {"aten::rrelu_with_noise", like_self},
    {"aten::_prelu_kernel", broadcast_like_self},
    {"aten::glu", glu},

    // One operand, floating result
    {"aten::exp", promoting_to_float},
    {"aten::exp2", promoting_to_float},
    {"aten::expm1", promoting_to_float},
    {"aten::log", promoting_to_float},
    {"aten::log2", promoting_to_float},
    {"aten::log10", promoting_to_float},
    {"aten::log1p", promoting_to_float},
    {"aten::sqrt", promoting_to_float},
    {"aten::rsqrt", promoting_to_float},
    {"aten::reciprocal", promoting_to_float},
    {"aten::sin", promoting_to_float},
    {"aten::cos", promoting_to_float},
    {"aten::tan", promoting_to_float},
    {"aten::asin", promoting_to_float},
    {"aten::acos", promoting_to_float},
    {"aten::atan", promoting_to_float},
    {"aten::sinh", promoting_to_float},
    {"aten::cosh", promoting_to_float},
    {"aten::tanh", promoting_to_float},
    {"aten::asinh", promoting_to_float},
    {"aten::acosh", promoting_to_float},
    {"aten::atanh", promoting_to_float},
    {"aten::sinc", promoting_to_float},
    {"aten::erf", promoting_to_float},
    {"aten::erfc", promoting_to_float},
    {"aten::erfinv", promoting_to_float},
    {"aten::special_erfcx", promoting_to_float},
    {"aten::special_ndtri", promoting_to_float},
    {"aten::special_log_ndtr", promoting_to_float},
    {"aten::special_entr", promoting_to_float},
    {"aten::special_i0e", promoting_to_float},
    {"aten::special_i1", promoting_to_float},
    {"aten::special_i1e", promoting_to_float},
    {"aten::i0", promoting_to_float},
    {"aten::digamma", promoting_to_float},
    {"aten::lgamma", promoting_to_float},
    {"aten::sigmoid", promoting_to_float},
    {"aten::logit", promoting_to_float},
    {"aten::deg2rad", promoting_to_float},
    {"aten::rad2deg", promoting_to_float},
    {"aten::frexp", frexp},
    {"aten::mvlgamma", promoting_to_float},
    {"aten::ldexp.Tensor", promoting_to_float},
    {"aten::complex", to_complex},
    {"aten::polar", to_complex},

    // Masks
    {"aten::masked_fill", masked_fill},

    // Copies and conversions; `to` and its kin reach _to_copy through their composite kernels
    {"aten::clone", clone},
    {"aten::contiguous", contiguous},
    {"aten::_to_copy", to_copy},
    {"aten::copy", copy},
    {"aten::copy_", copy_in_place},
    {"aten::fill", like_self},
    {"aten::fill_", returns_self},
    {"aten::zero", like_self},
    {"aten::zero_", returns_self},

    // Random numbers
    {"aten::bernoulli", like_self},
    {"aten::bernoulli_", returns_self},
    {"aten::normal_", returns_self},
    {"aten::uniform_", returns_self},
    {"aten::random_", returns_self},
    {"aten::exponential_", returns_self},
    {"aten::cauchy_", returns_self},
    {"aten::geometric_", returns_self},
    {"aten::log_normal_", returns_self},
    {"aten::normal.Tensor_float", normal},
    {"aten::normal.float_Tensor", normal},
    {"aten::normal.Tensor_Tensor", normal},
    {"aten::normal_functional", like_self},
    {"aten::uniform", like_self},
    {"aten::random", like_self},
    {"aten::exponential", like_self},
    {"aten::cauchy", like_self},
    {"aten::geometric", like_self},
    {"aten::log_normal", like_self},
    {"aten::poisson", like_self},
    {"aten::dropout", dropout},
    {"aten::dropout_", dropout_in_place},
    {"aten::feature_dropout", dropout},
    {"aten::feature_dropout_", dropout_in_place},
    {"aten::alpha_dropout", dropout},
    {"aten::alpha_dropout_", dropout_in_place},
    {"aten::native_dropout", native_dropout},
});

}  // namespace

std::span<const ShapeEntry> pointwise() { return kTable; }

}  // namespace exporters::families
