#pragma once

#include "exporters/passes/decompose.h"

#include <ATen/core/Tensor.h>

#include <array>

namespace exporters::decompositions {

/// float for float16 and bfloat16, else the dtype itself: what kernels compute in.
c10::ScalarType opmath_dtype(c10::ScalarType dtype);
at::Tensor cast(const at::Tensor& tensor, c10::ScalarType dtype);
/// Integers in the default dtype; floating tensors as they are.
at::Tensor as_floating(const at::Tensor& tensor);

/// f(x) computed in opmath_dtype and given back in the dtype of x.
template <typename Function>
Results in_opmath(const at::Tensor& x, Function&& f) {
  return {cast(f(cast(x, opmath_dtype(x.scalar_type()))), x.scalar_type())};
}

/// A tensor without axes, of the dtype of `like` or another one.
at::Tensor scalar_like(const at::Tensor& like, const at::Scalar& value);
at::Tensor scalar_of(const at::Tensor& like, const at::Scalar& value, c10::ScalarType dtype);
at::Tensor zero_like(const at::Tensor& like);

/// 0, 1, … up to `end` as int64, on the device of `like`.
at::Tensor arange_like(const at::Tensor& like, const c10::SymInt& end);

/// Whether a scalar is 1 or 0: factors that need no multiplication.
bool is_one(const at::Scalar& scalar);
bool is_zero(const at::Scalar& scalar);

}  // namespace exporters::decompositions
