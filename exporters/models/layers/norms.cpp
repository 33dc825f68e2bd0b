#include "exporters/models/layers/norms.h"

#include "exporters/models/operators.h"

#include <ATen/ops/rms_norm.h>

namespace exporters::models {

RmsNorm::RmsNorm(Scope scope, std::string class_name, int64_t width, double eps, RmsNormKind kind)
    : Module(std::move(scope), std::move(class_name)), width_(width), eps_(eps), kind_(kind) {
  parameter("weight", weight_, {width});
}

at::Tensor RmsNorm::operator()(const at::Tensor& input) const {
  const auto scope = enter();
  const c10::ScalarType dtype = input.scalar_type();
  const bool is_float = dtype == c10::ScalarType::Float && weight_.scalar_type() == dtype;
  if (is_float && kind_ != RmsNormKind::kOnePlusWeight) {
    return at::rms_norm(input, {width_}, weight_, eps_);
  }
  const at::Tensor normed = at::rms_norm(input.to(c10::ScalarType::Float), {width_}, {}, eps_);
  switch (kind_) {
    case RmsNormKind::kWeightInDtype:
      return weight_ * normed.to(dtype);
    case RmsNormKind::kWeightInFloat32:
      return (weight_ * normed).to(dtype);
    case RmsNormKind::kInWeightDtype:
      return weight_ * normed.to(weight_.scalar_type());
    default:
      return (normed * (weight_.to(c10::ScalarType::Float) + 1.0)).to(dtype);
  }
}

}  // namespace exporters::models
