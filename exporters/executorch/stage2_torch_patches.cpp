// ── Stage 2: Torch patches ──
//
// Torch ops that are swapped while the forward is traced, because what they are has no kernel and what the replacement
// calls has one. A program that was traced elsewhere meets them when it is lowered. To extend:
// register_patch("executorch", {"aten::op.overload"}, op_patch(…) or typed_op_patch<at::_ops::op_overload::schema>(…),
// {.name, .reason, .link}); for one target register_patch("executorch.xnnpack", …).

#include "exporters/executorch/stages.h"
#include "exporters/passes/torch_replacements.h"
#include "exporters/patching/registry.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool1d_ops.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/bucketize_ops.h>
#include <ATen/ops/cummax_ops.h>
#include <ATen/ops/cummin_ops.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/histc_ops.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/remainder_ops.h>
#include <ATen/ops/searchsorted_ops.h>
#include <ATen/ops/sort_ops.h>
#include <ATen/ops/where.h>

namespace exporters::executorch {
namespace {

// ── Remainders ──

bool is_integer(c10::ScalarType dtype) { return c10::isIntegralType(dtype, /*includeBool=*/false); }

at::Tensor has_other_sign(const at::Tensor& rest, const at::Scalar& divisor) {
  return divisor.toDouble() < 0 ? rest.gt(0) : rest.lt(0);
}

at::Tensor has_other_sign(const at::Tensor& rest, const at::Tensor& divisor) {
  return at::logical_or(at::logical_and(rest.gt(0), divisor.lt(0)), at::logical_and(rest.lt(0), divisor.gt(0)));
}

// What fmod leaves has the dividend's sign: where it is not the divisor's, one divisor more. Exact, as torch's own.
template <typename Divisor>
at::Tensor float_remainder(const at::Tensor& self, const Divisor& divisor) {
  const at::Tensor rest = at::fmod(self, divisor);
  return at::where(has_other_sign(rest, divisor), rest + divisor, rest);
}

auto patch_remainder_tensor(const std::function<at::_ops::remainder_Tensor::schema>&) {
  return [](const at::Tensor& self, const at::Tensor& other) {
    const bool integers = is_integer(self.scalar_type()) && is_integer(other.scalar_type());
    return integers ? self - at::floor_divide(self, other) * other : float_remainder(self, other);
  };
}

auto patch_remainder_scalar(const std::function<at::_ops::remainder_Scalar::schema>&) {
  return [](const at::Tensor& self, const at::Scalar& other) {
    const bool integers = is_integer(self.scalar_type()) && other.isIntegral(/*includeBool=*/false);
    return integers ? self - at::floor_divide(self, other) * other : float_remainder(self, other);
  };
}

// ── Sorting ──

// Of a known length beyond this, an order by counting takes more memory than anybody has in mind.
constexpr int64_t kLongestSorted = 2048;

bool is_short(const at::Tensor& self, int64_t dim) {
  const auto length = self.dim() == 0 ? std::optional<int64_t>(1) : self.sym_size(dim).maybe_as_int();
  return !length || *length <= kLongestSorted;
}

auto patch_sort(const std::function<at::_ops::sort::schema>& original) {
  return [=](const at::Tensor& self, int64_t dim, bool descending) {
    return is_short(self, dim) ? stable_sort(self, dim, descending) : original(self, dim, descending);
  };
}

auto patch_stable_sort(const std::function<at::_ops::sort_stable::schema>& original) {
  return [=](const at::Tensor& self, std::optional<bool> stable, int64_t dim, bool descending) {
    return is_short(self, dim) ? stable_sort(self, dim, descending) : original(self, stable, dim, descending);
  };
}

auto patch_searchsorted(const std::function<at::_ops::searchsorted_Tensor::schema>&) {
  return [](const at::Tensor& sequence, const at::Tensor& self, bool int32, bool right,
            std::optional<std::string_view> side, const std::optional<at::Tensor>& sorter) {
    const at::Tensor sorted = sorter && sorter->defined() ? at::gather(sequence, -1, *sorter) : sequence;
    return positions_in_sorted(sorted, self, right || side == "right", int32);
  };
}

auto patch_bucketize(const std::function<at::_ops::bucketize_Tensor::schema>&) {
  return [](const at::Tensor& self, const at::Tensor& boundaries, bool int32, bool right) {
    return positions_in_sorted(boundaries, self, right, int32);
  };
}

// ── Running extremes, histograms ──

auto patch_cummax(const std::function<at::_ops::cummax::schema>&) { return cumulative_maximum; }

auto patch_cummin(const std::function<at::_ops::cummin::schema>&) { return cumulative_minimum; }

auto patch_histc(const std::function<at::_ops::histc::schema>&) { return histogram; }

// ── Pooling ──

auto patch_adaptive_avg_pool1d(const std::function<at::_ops::adaptive_avg_pool1d::schema>&) {
  return [](const at::Tensor& self, at::IntArrayRef size) {
    return at::adaptive_avg_pool2d(self.unsqueeze(-2), {1, size[0]}).squeeze(-2);
  };
}

// ── Random numbers ──

auto patch_bernoulli(const std::function<at::_ops::bernoulli::schema>&) {
  return [](const at::Tensor& self, std::optional<at::Generator>) {
    return at::lt(at::rand_symint(self.sym_sizes(), self.options()), self).to(self.scalar_type());
  };
}

}  // namespace

void register_torch_patches() {
  const char* remainder_reason =
      "The kernel gives integers the sign of C++'s %; what the floored quotient leaves has the divisor's.";
  register_patch("executorch", {"aten::remainder.Tensor"},
                 typed_op_patch<at::_ops::remainder_Tensor::schema>(patch_remainder_tensor),
                 {.name = "patch_remainder_tensor", .reason = remainder_reason});
  register_patch("executorch", {"aten::remainder.Scalar"},
                 typed_op_patch<at::_ops::remainder_Scalar::schema>(patch_remainder_scalar),
                 {.name = "patch_remainder_scalar", .reason = remainder_reason});
  register_patch("executorch", {"aten::sort.default"}, typed_op_patch<at::_ops::sort::schema>(patch_sort),
                 {.name = "patch_sort",
                  .reason = "The runtime does not sort; each element goes where as many others come before it."});
  register_patch("executorch", {"aten::sort.stable"}, typed_op_patch<at::_ops::sort_stable::schema>(patch_stable_sort),
                 {.name = "patch_stable_sort",
                  .reason = "The runtime does not sort; each element goes where as many others come before it."});
  register_patch("executorch", {"aten::searchsorted.Tensor"},
                 typed_op_patch<at::_ops::searchsorted_Tensor::schema>(patch_searchsorted),
                 {.name = "patch_searchsorted", .reason = "No kernel; elements that come before are counted instead."});
  register_patch("executorch", {"aten::bucketize.Tensor"},
                 typed_op_patch<at::_ops::bucketize_Tensor::schema>(patch_bucketize),
                 {.name = "patch_bucketize", .reason = "No kernel; boundaries that come before are counted instead."});
  register_patch("executorch", {"aten::cummax.default"}, typed_op_patch<at::_ops::cummax::schema>(patch_cummax),
                 {.name = "patch_cummax", .reason = "No kernel; each element takes the maximum of a masked row."});
  register_patch("executorch", {"aten::cummin.default"}, typed_op_patch<at::_ops::cummin::schema>(patch_cummin),
                 {.name = "patch_cummin", .reason = "No kernel; each element takes the minimum of a masked row."});
  register_patch("executorch", {"aten::histc.default"}, typed_op_patch<at::_ops::histc::schema>(patch_histc),
                 {.name = "patch_histc", .reason = "No kernel; ones are added up in the bins instead."});
  register_patch("executorch", {"aten::adaptive_avg_pool1d.default"},
                 typed_op_patch<at::_ops::adaptive_avg_pool1d::schema>(patch_adaptive_avg_pool1d),
                 {.name = "patch_adaptive_avg_pool1d", .reason = "The kernel is one of two axes."});
  register_patch("executorch", {"aten::bernoulli.default"},
                 typed_op_patch<at::_ops::bernoulli::schema>(patch_bernoulli),
                 {.name = "patch_bernoulli", .reason = "No kernel; a uniform number below the probability is a 1."});
}

Stage torch_patches_stage() {
  return {2, "Torch patches",
          "While the forward is traced, these torch ops are swapped: what they do is traced as other ops, which have a "
          "kernel.",
          "`register_patch(\"executorch\", {\"aten::op.overload\"}, typed_op_patch<…>(factory), {name, reason, "
          "link})`; see "
          "docs/adding_a_patch.md.",
          op_patch_entries("executorch")};
}

}  // namespace exporters::executorch
