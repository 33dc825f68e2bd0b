// ── Stage 1: Torch patches ──
//
// Torch ops that are swapped while the forward is traced, because what they are has no ONNX form and what the
// replacement calls has one. To extend: register_patch("onnx", {"aten::op.overload"}, op_patch(…) or
// typed_op_patch<at::_ops::op_overload::schema>(…), {.name, .reason, .link}).

#include "exporters/onnx/stages.h"
#include "exporters/patching/registry.h"

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cummax_ops.h>
#include <ATen/ops/cummin_ops.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/histc_ops.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randperm_ops.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>

namespace exporters::onnx {
namespace {

// The order of random keys is a random order.
auto patch_randperm(const std::function<at::_ops::randperm::schema>&) {
  return [](c10::SymInt n, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device>,
            std::optional<bool>) { return at::argsort(at::rand_symint({std::move(n)})).to(dtype.value_or(at::kLong)); };
}

// Counts by scatter_add: elements outside [min, max] add nothing. Equal bounds stand for those of the data, and data
// without a range gets 1 on both sides, as in ATen.
auto patch_histc(const std::function<at::_ops::histc::schema>&) {
  return [](const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max) {
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
  };
}

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

// Row i of a triangle of the axis with itself holds the elements up to i; its extreme is the result at i, and the last
// place that has it the index, as ATen has it for equal elements. NaN wins from where it stands on.
std::tuple<at::Tensor, at::Tensor> cumulative(const at::Tensor& self, int64_t dim, const Extreme& extreme) {
  if (self.dim() == 0) {
    return {self.clone(), at::zeros(at::IntArrayRef{}, self.options().dtype(at::kLong))};
  }
  const at::Tensor x = self.movedim(dim, -1).unsqueeze(-2);  // [..., 1, n]
  const at::Tensor places = at::arange(c10::Scalar(self.sym_size(dim)), self.options().dtype(at::kLong));
  const at::Tensor seen = at::le(places.unsqueeze(0), places.unsqueeze(1));  // [n, n]
  const at::Tensor other = at::full_like(x, loser(x.scalar_type(), extreme.largest));
  at::Tensor values = extreme.reduce(at::where(seen, x, other), at::IntArrayRef{-1}, false);  // [..., n]
  at::Tensor same = at::eq(x, values.unsqueeze(-1));
  if (c10::isFloatingType(x.scalar_type())) {
    // Not by the reduction: ONNX does not say what ReduceMax makes of NaN.
    const at::Tensor nan_seen = at::logical_and(seen, at::isnan(x)).any(-1);
    const at::Scalar nan = std::numeric_limits<double>::quiet_NaN();
    values = at::where(nan_seen, at::full_like(values, nan), values);
    same = at::where(nan_seen.unsqueeze(-1), at::isnan(x), same);
  }
  const at::Tensor hits = at::logical_and(seen, same);
  const at::Tensor indices = at::amax(at::where(hits, places, at::full_like(places, 0)), at::IntArrayRef{-1}, false);
  return {values.movedim(-1, dim), indices.movedim(-1, dim)};
}

auto patch_cummax(const std::function<at::_ops::cummax::schema>&) {
  return [](const at::Tensor& self, int64_t dim) {
    return cumulative(self, dim, {[](const auto& x, auto dims, bool keep) { return at::amax(x, dims, keep); }, true});
  };
}

auto patch_cummin(const std::function<at::_ops::cummin::schema>&) {
  return [](const at::Tensor& self, int64_t dim) {
    return cumulative(self, dim, {[](const auto& x, auto dims, bool keep) { return at::amin(x, dims, keep); }, false});
  };
}

}  // namespace

void register_torch_patches() {
  register_patch(
      "onnx", {"aten::randperm.default"}, typed_op_patch<at::_ops::randperm::schema>(patch_randperm),
      {.name = "patch_randperm", .reason = "ONNX has no random permutation; the order of random keys is one."});
  register_patch("onnx", {"aten::histc.default"}, typed_op_patch<at::_ops::histc::schema>(patch_histc),
                 {.name = "patch_histc",
                  .reason = "ONNX has no histogram; ones are added up in the bins instead.",
                  .link = "https://github.com/pytorch/pytorch/issues/74032"});
  register_patch("onnx", {"aten::cummax.default"}, typed_op_patch<at::_ops::cummax::schema>(patch_cummax),
                 {.name = "patch_cummax",
                  .reason = "ONNX has no cumulative maximum; each element takes that of a masked row instead.",
                  .link = "https://github.com/pytorch/pytorch/pull/84496"});
  register_patch("onnx", {"aten::cummin.default"}, typed_op_patch<at::_ops::cummin::schema>(patch_cummin),
                 {.name = "patch_cummin",
                  .reason = "ONNX has no cumulative minimum; each element takes that of a masked row instead.",
                  .link = "https://github.com/pytorch/pytorch/pull/84496"});
}

Stage torch_patches_stage() {
  return {
      1, "Torch patches",
      "While the forward is traced, these torch ops are swapped: what they do is traced as other ops, which have an "
      "ONNX form.",
      "`register_patch(\"onnx\", {\"aten::op.overload\"}, typed_op_patch<…>(factory), {name, reason, link})`; see "
      "docs/adding_a_patch.md.",
      op_patch_entries("onnx")};
}

}  // namespace exporters::onnx
