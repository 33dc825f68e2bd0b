#pragma once

#include <ATen/core/Tensor.h>

namespace exporters::models {

// Sums of residuals may leave the range of float16 (65504). The reference brings them back, in float16 only; whether a
// value did leave it is computed, not asked, so that one graph serves both cases.

/// `hidden`, its values limited to ±(65504 - 1000) where one of them is infinite, else to ±65504 (t5).
at::Tensor limit_float16(const at::Tensor& hidden);
/// `hidden`, its values limited to ±(65504 - 1000) where one of them is not finite (bart).
at::Tensor limit_float16_if_not_finite(const at::Tensor& hidden);
/// `hidden`, its values limited to ±(65504 - 1000) always (mbart).
at::Tensor limit_float16_always(const at::Tensor& hidden);

}  // namespace exporters::models
