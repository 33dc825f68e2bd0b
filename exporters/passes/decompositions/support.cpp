#include "exporters/passes/decompositions/support.h"

#include "exporters/passes/decompositions/families.h"

#include <ATen/ops/_to_copy.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

namespace exporters::decompositions {

std::span<Table (*const)()> all() {
  static constexpr std::array kFamilies = {activations, arithmetic,    reductions, layouts, joins,     indexing,
                                           factories,   normalization, products,   losses,  resampling};
  return kFamilies;
}

c10::ScalarType opmath_dtype(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16 ? c10::ScalarType::Float : dtype;
}

at::Tensor cast(const at::Tensor& tensor, c10::ScalarType dtype) {
  return tensor.scalar_type() == dtype ? tensor : at::_to_copy(tensor, at::TensorOptions(dtype));
}

at::Tensor as_floating(const at::Tensor& tensor) { return cast(tensor, to_floating(tensor.scalar_type())); }

at::Tensor scalar_of(const at::Tensor& like, const at::Scalar& value, c10::ScalarType dtype) {
  return at::full({}, value, at::TensorOptions(dtype).device(like.device()));
}

at::Tensor scalar_like(const at::Tensor& like, const at::Scalar& value) {
  return scalar_of(like, value, like.scalar_type());
}

at::Tensor zero_like(const at::Tensor& like) { return scalar_like(like, 0); }

at::Tensor arange_like(const at::Tensor& like, const c10::SymInt& end) {
  return at::arange(0, end, 1, at::TensorOptions(at::kLong).device(like.device()));
}

bool is_one(const at::Scalar& scalar) { return !scalar.isSymbolic() && scalar.equal(1); }
bool is_zero(const at::Scalar& scalar) { return !scalar.isSymbolic() && scalar.equal(0); }

}  // namespace exporters::decompositions
