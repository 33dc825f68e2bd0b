// Tensors that are made of sizes and numbers.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>

namespace exporters::decompositions {
namespace {

at::TensorOptions options(const DecompositionCall& in, c10::ScalarType standard, c10::Device device) {
  return at::TensorOptions(in.dtype().value_or(standard)).device(in.device().value_or(device));
}

at::TensorOptions options(const DecompositionCall& in) {
  return options(in, c10::get_default_dtype_as_scalartype(), c10::Device(c10::kCPU));
}

at::TensorOptions options_like(const DecompositionCall& in, const at::Tensor& like) {
  return options(in, like.scalar_type(), like.device());
}

Results filled(const DecompositionCall& in, int64_t value) {
  return {at::full_symint(in.syms("size"), value, options(in))};
}
Results zeros(const DecompositionCall& in) { return filled(in, 0); }
Results ones(const DecompositionCall& in) { return filled(in, 1); }

Results filled_like(const DecompositionCall& in, int64_t value) {
  const at::Tensor like = in.tensor("self");
  return {at::full_symint(like.sym_sizes(), value, options_like(in, like))};
}
Results zeros_like(const DecompositionCall& in) { return filled_like(in, 0); }
Results ones_like(const DecompositionCall& in) { return filled_like(in, 1); }

Results new_filled(const DecompositionCall& in, const at::Scalar& value) {
  return {at::full_symint(in.syms("size"), value, options_like(in, in.tensor("self")))};
}
Results new_zeros(const DecompositionCall& in) { return new_filled(in, 0); }
Results new_ones(const DecompositionCall& in) { return new_filled(in, 1); }
Results new_full(const DecompositionCall& in) { return new_filled(in, in.scalar("fill_value")); }

Results new_empty(const DecompositionCall& in) {
  return {at::empty_symint(in.syms("size"), options_like(in, in.tensor("self")), c10::nullopt)};
}
Results empty_like(const DecompositionCall& in) {
  const at::Tensor like = in.tensor("self");
  return {at::empty_symint(like.sym_sizes(), options_like(in, like), c10::nullopt)};
}

// Without a dtype, whole numbers give integers.
at::TensorOptions arange_options(const DecompositionCall& in) {
  bool whole = in.scalar("end").isIntegral(true) || in.scalar("end").isSymInt();
  if (in.has("start")) {
    whole = whole && (in.scalar("start").isIntegral(true) || in.scalar("start").isSymInt());
  }
  return options(in, whole ? at::kLong : c10::get_default_dtype_as_scalartype(), c10::Device(c10::kCPU));
}

Results arange(const DecompositionCall& in) { return {at::arange(0, in.scalar("end"), 1, arange_options(in))}; }
Results arange_from(const DecompositionCall& in) {
  return {at::arange(in.scalar("start"), in.scalar("end"), 1, arange_options(in))};
}

at::Tensor identity(const c10::SymInt& rows, const c10::SymInt& columns, const at::TensorOptions& made) {
  const at::TensorOptions counting = at::TensorOptions(at::kLong).device(made.device());
  const at::Tensor row = at::arange(0, rows, 1, counting).unsqueeze(-1);
  const at::Tensor column = at::arange(0, columns, 1, counting);
  return cast(row == column, c10::typeMetaToScalarType(made.dtype()));
}

Results eye(const DecompositionCall& in) { return {identity(in.sym("n"), in.sym("n"), options(in))}; }
Results eye_m(const DecompositionCall& in) { return {identity(in.sym("n"), in.sym("m"), options(in))}; }

// Counted from both ends, so that the last element is exact.
Results linspace(const DecompositionCall& in) {
  const double start = in.scalar("start").toDouble();
  const double end = in.scalar("end").toDouble();
  const int64_t steps = in.integer("steps");
  const at::TensorOptions made = options(in);
  const c10::ScalarType dtype = c10::typeMetaToScalarType(made.dtype());
  if (!c10::isFloatingType(dtype)) {
    in.refuse("spaces of integers have no core form", "Keep the op whole: DecompositionTable::keep.");
  }
  const at::TensorOptions computed = made.dtype(opmath_dtype(dtype));
  if (steps <= 1) {
    return {at::full({steps}, start, made)};
  }
  const double step = (end - start) / static_cast<double>(steps - 1);
  const at::Tensor i = at::arange(0, steps, 1, computed);
  const at::Tensor from_end = (i.neg() + static_cast<double>(steps - 1)) * -step + end;
  const at::Tensor from_start = i * step + start;
  return {cast(at::where(i < static_cast<double>(steps / 2), from_start, from_end), dtype)};
}

}  // namespace

Table factories() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.zeros.default", zeros},
      {"aten.ones.default", ones},
      {"aten.zeros_like.default", zeros_like},
      {"aten.ones_like.default", ones_like},
      {"aten.new_zeros.default", new_zeros},
      {"aten.new_ones.default", new_ones},
      {"aten.new_full.default", new_full},
      {"aten.new_empty.default", new_empty},
      {"aten.empty_like.default", empty_like},
      {"aten.arange.default", arange},
      {"aten.arange.start", arange_from},
      {"aten.eye.default", eye},
      {"aten.eye.m", eye_m},
      {"aten.linspace.default", linspace},
  });
  return kTable;
}

}  // namespace exporters::decompositions
