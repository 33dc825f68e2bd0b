#include "exporters/passes/torch_replacements.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

namespace exporters {
namespace {

struct Extreme {
  at::Tensor (*reduce)(const at::Tensor&, at::IntArrayRef, bool);
  bool largest;
};

// What can never win.
at::Scalar loser(c10::ScalarType dtype, bool largest) {
  if (c10::isFloatingType(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return largest ? -infinity : infinity;
  }
  if (dtype == at::kBool) {
    return !largest;
  }
  return AT_DISPATCH_INTEGRAL_TYPES(dtype, "cumulative extreme", [&]() -> at::Scalar {
    return largest ? std::numeric_limits<scalar_t>::lowest() : std::numeric_limits<scalar_t>::max();
  });
}

// 0, 1, … along an axis.
at::Tensor places_of(const at::Tensor& self, int64_t dim) {
  return at::arange(c10::Scalar(self.sym_size(dim)), self.options().dtype(at::kLong));
}

std::tuple<at::Tensor, at::Tensor> of_one_element(const at::Tensor& self) {
  return {self.clone(), at::zeros(at::IntArrayRef{}, self.options().dtype(at::kLong))};
}

// Row i of a triangle of the axis with itself holds the elements up to i; its extreme is the result at i, and the last
// place that has it the index, as ATen has it for equal elements. NaN wins from where it stands on.
std::tuple<at::Tensor, at::Tensor> cumulative(const at::Tensor& self, int64_t dim, const Extreme& extreme) {
  if (self.dim() == 0) {
    return of_one_element(self);
  }
  const at::Tensor x = self.movedim(dim, -1).unsqueeze(-2);  // [..., 1, n]
  const at::Tensor places = places_of(self, dim);
  const at::Tensor seen = at::le(places.unsqueeze(0), places.unsqueeze(1));  // [n, n]
  const at::Tensor other = at::full_like(x, loser(x.scalar_type(), extreme.largest));
  at::Tensor values = extreme.reduce(at::where(seen, x, other), at::IntArrayRef{-1}, false);  // [..., n]
  at::Tensor same = at::eq(x, values.unsqueeze(-1));
  if (c10::isFloatingType(x.scalar_type())) {
    // Not by the reduction: formats differ in what a maximum makes of NaN.
    const at::Tensor nan_seen = at::logical_and(seen, at::isnan(x)).any(-1);
    const at::Scalar nan = std::numeric_limits<double>::quiet_NaN();
    values = at::where(nan_seen, at::full_like(values, nan), values);
    same = at::where(nan_seen.unsqueeze(-1), at::isnan(x), same);
  }
  const at::Tensor hits = at::logical_and(seen, same);
  const at::Tensor indices = at::amax(at::where(hits, places, at::full_like(places, 0)), at::IntArrayRef{-1}, false);
  return {values.movedim(-1, dim), indices.movedim(-1, dim)};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> cumulative_maximum(const at::Tensor& self, int64_t dim) {
  return cumulative(self, dim, {[](const auto& x, auto dims, bool keep) { return at::amax(x, dims, keep); }, true});
}

std::tuple<at::Tensor, at::Tensor> cumulative_minimum(const at::Tensor& self, int64_t dim) {
  return cumulative(self, dim, {[](const auto& x, auto dims, bool keep) { return at::amin(x, dims, keep); }, false});
}

// Elements outside [min, max] add nothing. Equal bounds stand for those of the data, and data without a range gets 1 on
// both sides, as in ATen.
at::Tensor histogram(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
  const at::Tensor x = self.flatten();
  at::Tensor low = at::full(at::IntArrayRef{}, min, x.options());
  at::Tensor high = at::full(at::IntArrayRef{}, max, x.options());
  if (min.toDouble() == max.toDouble()) {
    const at::Tensor least = x.min();
    const at::Tensor greatest = x.max();
    const at::Tensor flat = at::eq(least, greatest);
    low = at::where(flat, least.sub(1), least);
    high = at::where(flat, greatest.add(1), greatest);
  }
  const at::Tensor inside = at::logical_and(at::le(low, x), at::le(x, high));
  const at::Tensor position = at::div(at::mul(x.sub(low), bins), high.sub(low));
  const at::Tensor bin =
      at::where(inside, position, at::zeros(at::IntArrayRef{}, x.options())).to(at::kLong).clamp(0, bins - 1);
  return at::scatter_add(at::zeros({bins}, x.options()), 0, bin, inside.to(x.scalar_type()));
}

std::tuple<at::Tensor, at::Tensor> stable_sort(const at::Tensor& self, int64_t dim, bool descending) {
  if (self.dim() == 0) {
    return of_one_element(self);
  }
  const at::Tensor x = self.movedim(dim, -1);
  const at::Tensor own = x.unsqueeze(-1);    // [..., n, 1]
  const at::Tensor other = x.unsqueeze(-2);  // [..., 1, n]
  at::Tensor before = descending ? at::gt(other, own) : at::lt(other, own);
  at::Tensor same = at::eq(other, own);
  if (c10::isFloatingType(x.scalar_type())) {  // NaN is greater than all numbers
    const at::Tensor own_nan = at::isnan(own);
    const at::Tensor other_nan = at::isnan(other);
    const at::Tensor& late = descending ? other_nan : own_nan;
    const at::Tensor& early = descending ? own_nan : other_nan;
    before = at::logical_or(before, at::logical_and(late, at::logical_not(early)));
    same = at::logical_or(same, at::logical_and(own_nan, other_nan));
  }
  const at::Tensor places = places_of(x, -1);
  const at::Tensor earlier = at::lt(places.unsqueeze(0), places.unsqueeze(1));  // [n, n]
  const at::Tensor rank = at::logical_or(before, at::logical_and(same, earlier)).to(at::kLong).sum(at::IntArrayRef{-1});
  const at::Tensor values = at::scatter(at::zeros_like(x), -1, rank, x);
  const at::Tensor indices = at::scatter(at::zeros_like(rank), -1, rank, places.expand_as(rank));
  return {values.movedim(-1, dim), indices.movedim(-1, dim)};
}

// ATen goes on while an element is not at or beyond the value, so that NaN comes last.
at::Tensor positions_in_sorted(const at::Tensor& sorted, const at::Tensor& values, bool right, bool int32) {
  const at::Tensor row = values.dim() == 0 ? sorted : sorted.unsqueeze(-2);  // [..., 1, n]
  const at::Tensor value = values.dim() == 0 ? values : values.unsqueeze(-1);
  const at::Tensor beyond = right ? at::gt(row, value) : at::ge(row, value);
  const at::Tensor count = at::logical_not(beyond).to(at::kLong).sum(at::IntArrayRef{-1});
  return int32 ? count.to(at::kInt) : count;
}

}  // namespace exporters
