#include "exporters/models/layers/half_range.h"

#include <ATen/ops/all.h>
#include <ATen/ops/any.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/where.h>

namespace exporters::models {
namespace {

constexpr double kLargest = 65504;
constexpr double kLimit = kLargest - 1000;

bool is_float16(const at::Tensor& hidden) { return hidden.scalar_type() == c10::ScalarType::Half; }

}  // namespace

at::Tensor limit_float16(const at::Tensor& hidden) {
  if (!is_float16(hidden)) {
    return hidden;
  }
  return at::where(at::any(at::isinf(hidden)), at::clamp(hidden, -kLimit, kLimit), hidden);
}

at::Tensor limit_float16_if_not_finite(const at::Tensor& hidden) {
  if (!is_float16(hidden)) {
    return hidden;
  }
  return at::where(at::all(at::isfinite(hidden)), hidden, at::clamp(hidden, -kLimit, kLimit));
}

at::Tensor limit_float16_always(const at::Tensor& hidden) {
  return is_float16(hidden) ? at::clamp(hidden, -kLimit, kLimit) : hidden;
}

}  // namespace exporters::models
