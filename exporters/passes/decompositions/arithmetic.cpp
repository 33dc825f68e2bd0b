// Elementwise ops.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace exporters::decompositions {
namespace {

at::Tensor scaled(const at::Tensor& x, const at::Scalar& factor) { return is_one(factor) ? x : x * factor; }

// other - alpha * self
Results rsub_scalar(const DecompositionCall& in) {
  return {scaled(in.tensor("self"), in.scalar("alpha")).neg() + in.scalar("other")};
}

Results rsub_tensor(const DecompositionCall& in) {
  return {in.tensor("other").sub(in.tensor("self"), in.scalar("alpha"))};
}

Results addcmul(const DecompositionCall& in) {
  return {in.tensor("self") + scaled(in.tensor("tensor1") * in.tensor("tensor2"), in.scalar("value"))};
}

Results addcdiv(const DecompositionCall& in) {
  return {in.tensor("self") + scaled(in.tensor("tensor1") / in.tensor("tensor2"), in.scalar("value"))};
}

// From the nearer end, so that a weight of 1 gives `end` exactly.
Results lerp_scalar(const DecompositionCall& in) {
  const at::Tensor start = in.tensor("self");
  const at::Tensor end = in.tensor("end");
  const double weight = in.scalar("weight").toDouble();
  return {std::abs(weight) < 0.5 ? start + (end - start) * weight : end - (end - start) * (1 - weight)};
}

Results lerp_tensor(const DecompositionCall& in) {
  const at::Tensor start = in.tensor("self");
  const at::Tensor end = in.tensor("end");
  const at::Tensor weight = in.tensor("weight");
  const at::Tensor way = end - start;
  return {at::where(weight.abs() < 0.5, start + way * weight, end - way * weight.neg().add(1))};
}

Results square(const DecompositionCall& in) { return {in.tensor("self").pow(2)}; }

Results frac(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {x - x.trunc()};
}

Results sgn(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  if (x.is_complex()) {
    in.refuse("signs of complex numbers have no core form", "Keep the op whole: DecompositionTable::keep.");
  }
  return {x.sign()};
}

Results deg2rad(const DecompositionCall& in) { return {as_floating(in.tensor("self")) * (std::numbers::pi / 180)}; }
Results rad2deg(const DecompositionCall& in) { return {as_floating(in.tensor("self")) * (180 / std::numbers::pi)}; }

Results exp2(const DecompositionCall& in) { return {at::pow(2, as_floating(in.tensor("self")))}; }

Results sinc(const DecompositionCall& in) {
  const at::Tensor x = as_floating(in.tensor("self")) * std::numbers::pi;
  return {at::where(x == 0, scalar_like(x, 1), x.sin() / x)};
}

Results erfc(const DecompositionCall& in) { return {as_floating(in.tensor("self")).erf().neg() + 1}; }

at::Tensor product_with_log(const at::Tensor& x, const at::Tensor& y, const at::Tensor& log) {
  const at::Tensor product = x * log;
  const at::Tensor zero_at_zero = at::where(x == 0, zero_like(product), product);
  return at::where(y.isnan(), scalar_like(product, std::numeric_limits<double>::quiet_NaN()), zero_at_zero);
}

Results xlogy(const DecompositionCall& in) {
  const at::Tensor y = as_floating(in.tensor("other"));
  return {product_with_log(in.tensor("self"), y, y.log())};
}

Results xlog1py(const DecompositionCall& in) {
  const at::Tensor y = as_floating(in.tensor("other"));
  return {product_with_log(in.tensor("self"), y, y.log1p())};
}

// The larger one plus the log of one plus the smaller part; two equal infinities are that infinity.
Results log_add(const DecompositionCall& in, double base) {
  const at::Tensor a = in.tensor("self");
  const at::Tensor b = in.tensor("other");
  const at::Tensor larger = at::maximum(a, b);
  const at::Tensor distance = (at::minimum(a, b) - larger) * std::log(base);
  const at::Tensor sum = larger + distance.exp().log1p() / std::log(base);
  return {at::where((a == b).logical_and(a.abs() == std::numeric_limits<double>::infinity()), a, sum)};
}

Results logaddexp(const DecompositionCall& in) { return log_add(in, std::numbers::e); }
Results logaddexp2(const DecompositionCall& in) { return log_add(in, 2); }

Results nan_to_num(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  if (!c10::isFloatingType(x.scalar_type())) {
    return {x.clone()};
  }
  const auto limits = [&](std::string_view name, double standard) {
    return scalar_like(x, in.has(name) ? in.floating(name) : standard);
  };
  const auto most = [&] {
    switch (x.scalar_type()) {
      case c10::ScalarType::Double:
        return std::numeric_limits<double>::max();
      case c10::ScalarType::Half:
        return static_cast<double>(std::numeric_limits<c10::Half>::max());
      case c10::ScalarType::BFloat16:
        return static_cast<double>(std::numeric_limits<c10::BFloat16>::max());
      default:
        return static_cast<double>(std::numeric_limits<float>::max());
    }
  }();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::Tensor result = at::where(x.isnan(), limits("nan", 0), x);
  result = at::where(x == kInfinity, limits("posinf", most), result);
  return {at::where(x == -kInfinity, limits("neginf", -most), result)};
}

Results heaviside(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const at::Tensor step = cast(x > 0, x.scalar_type());
  return {at::where(x == 0, in.tensor("values"), step)};
}

Results isposinf(const DecompositionCall& in) { return {in.tensor("self") == std::numeric_limits<double>::infinity()}; }
Results isneginf(const DecompositionCall& in) {
  return {in.tensor("self") == -std::numeric_limits<double>::infinity()};
}

Results clamp_min(const DecompositionCall& in) { return {in.tensor("self").clamp(in.scalar("min"), c10::nullopt)}; }
Results clamp_max(const DecompositionCall& in) { return {in.tensor("self").clamp(c10::nullopt, in.scalar("max"))}; }
Results clamp_min_tensor(const DecompositionCall& in) { return {at::maximum(in.tensor("self"), in.tensor("min"))}; }
Results clamp_max_tensor(const DecompositionCall& in) { return {at::minimum(in.tensor("self"), in.tensor("max"))}; }

Results fmax(const DecompositionCall& in) {
  const at::Tensor a = in.tensor("self");
  const at::Tensor b = in.tensor("other");
  return {at::where((a >= b).logical_or(b.isnan()), a, b)};
}

Results fmin(const DecompositionCall& in) {
  const at::Tensor a = in.tensor("self");
  const at::Tensor b = in.tensor("other");
  return {at::where((a <= b).logical_or(b.isnan()), a, b)};
}

Results hypot(const DecompositionCall& in) {
  const at::Tensor a = in.tensor("self").abs();
  const at::Tensor b = in.tensor("other").abs();
  // Scaled by the larger one, so that squares don't overflow.
  const at::Tensor larger = at::maximum(a, b);
  const at::Tensor ratio = at::minimum(a, b) / larger;
  const at::Tensor length = larger * (ratio * ratio + 1).sqrt();
  const at::Tensor infinite = (larger == 0).logical_or(larger == std::numeric_limits<double>::infinity());
  return {at::where(infinite, larger, length)};
}

Results floor_divide(const DecompositionCall& in) { return {in.tensor("self").div(in.tensor("other"), "floor")}; }

Results floor_divide_scalar(const DecompositionCall& in) {
  return {in.tensor("self").div(in.scalar("other"), "floor")};
}

Results ldexp(const DecompositionCall& in) { return {in.tensor("self") * at::pow(2, as_floating(in.tensor("other")))}; }

Results entr(const DecompositionCall& in) {
  const at::Tensor x = as_floating(in.tensor("self"));
  const at::Tensor inside = at::where(x > 0, (x * x.log()).neg(), zero_like(x));
  const at::Tensor outside = scalar_like(x, -std::numeric_limits<double>::infinity());
  return {at::where(x.isnan(), x, at::where(x >= 0, inside, outside))};
}

// ── Choices ──

Results masked_fill_scalar(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {at::where(in.tensor("mask"), scalar_like(x, in.scalar("value")), x)};
}

Results masked_fill_tensor(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {at::where(in.tensor("mask"), cast(in.tensor("value"), x.scalar_type()), x)};
}

Results where_scalar_self(const DecompositionCall& in) {
  const at::Tensor other = in.tensor("other");
  const at::Scalar value = in.scalar("self");
  return {at::where(in.tensor("condition"), scalar_of(other, value, at::result_type(other, value)), other)};
}

Results where_scalar_other(const DecompositionCall& in) {
  const at::Tensor self = in.tensor("self");
  const at::Scalar value = in.scalar("other");
  return {at::where(in.tensor("condition"), self, scalar_of(self, value, at::result_type(self, value)))};
}

Results where_scalars(const DecompositionCall& in) {
  const at::Tensor condition = in.tensor("condition");
  const at::Scalar self = in.scalar("self");
  const at::Scalar other = in.scalar("other");
  const c10::ScalarType dtype = at::result_type(self, other);
  return {at::where(condition, scalar_of(condition, self, dtype), scalar_of(condition, other, dtype))};
}

Results copy(const DecompositionCall& in) {
  const at::Tensor self = in.tensor("self");
  return {cast(in.tensor("src"), self.scalar_type()).expand_symint(self.sym_sizes()).clone()};
}

Results fill_tensor(const DecompositionCall& in) {
  const at::Tensor self = in.tensor("self");
  return {cast(in.tensor("value"), self.scalar_type()).expand_symint(self.sym_sizes()).clone()};
}

}  // namespace

Table arithmetic() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.rsub.Scalar", rsub_scalar},
      {"aten.rsub.Tensor", rsub_tensor},
      {"aten.addcmul.default", addcmul},
      {"aten.addcdiv.default", addcdiv},
      {"aten.lerp.Scalar", lerp_scalar},
      {"aten.lerp.Tensor", lerp_tensor},
      {"aten.square.default", square},
      {"aten.frac.default", frac},
      {"aten.sgn.default", sgn},
      {"aten.deg2rad.default", deg2rad},
      {"aten.rad2deg.default", rad2deg},
      {"aten.exp2.default", exp2},
      {"aten.sinc.default", sinc},
      {"aten.erfc.default", erfc},
      {"aten.xlogy.Tensor", xlogy},
      {"aten.special_xlog1py.default", xlog1py},
      {"aten.logaddexp.default", logaddexp},
      {"aten.logaddexp2.default", logaddexp2},
      {"aten.nan_to_num.default", nan_to_num},
      {"aten.heaviside.default", heaviside},
      {"aten.isposinf.default", isposinf},
      {"aten.isneginf.default", isneginf},
      {"aten.clamp_min.default", clamp_min},
      {"aten.clamp_max.default", clamp_max},
      {"aten.clamp_min.Tensor", clamp_min_tensor},
      {"aten.clamp_max.Tensor", clamp_max_tensor},
      {"aten.fmax.default", fmax},
      {"aten.fmin.default", fmin},
      {"aten.hypot.default", hypot},
      {"aten.floor_divide.default", floor_divide},
      {"aten.floor_divide.Scalar", floor_divide_scalar},
      {"aten.ldexp.Tensor", ldexp},
      {"aten.special_entr.default", entr},
      {"aten.masked_fill.Scalar", masked_fill_scalar},
      {"aten.masked_fill.Tensor", masked_fill_tensor},
      {"aten.where.ScalarSelf", where_scalar_self},
      {"aten.where.ScalarOther", where_scalar_other},
      {"aten.where.Scalar", where_scalars},
      {"aten.copy.default", copy},
      {"aten.fill.Tensor", fill_tensor},
  });
  return kTable;
}

}  // namespace exporters::decompositions
