#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace exporters {

// Torch ops in terms of simpler ones, for patches of formats that have no such ops. Sizes may be symbolic; results are
// ATen's, for NaN and equal elements too.

/// aten::cummax and aten::cummin over an axis: values, and where they come from, int64. Needs the axis' length squared.
std::tuple<at::Tensor, at::Tensor> cumulative_maximum(const at::Tensor& self, int64_t dim);
std::tuple<at::Tensor, at::Tensor> cumulative_minimum(const at::Tensor& self, int64_t dim);

/// aten::histc, by scatter_add.
at::Tensor histogram(const at::Tensor& self, int64_t bins, const at::Scalar& min, const at::Scalar& max);

/// aten::sort in a stable order: each element goes where as many others come before it. Needs the axis' length squared.
std::tuple<at::Tensor, at::Tensor> stable_sort(const at::Tensor& self, int64_t dim, bool descending);

/// aten::searchsorted: how many elements of the last axis of `sorted` are less than each of `values`, or with `right`
/// not greater. Axes before the last are the same, or `sorted` has none.
at::Tensor positions_in_sorted(const at::Tensor& sorted, const at::Tensor& values, bool right, bool int32);

}  // namespace exporters
