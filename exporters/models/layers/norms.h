#pragma once

#include "exporters/models/module.h"

namespace exporters::models {

/// How a root-mean-square norm treats its weight. All of them normalise in float32.
enum class RmsNormKind {
  kWeightInDtype,    ///< rounded to the input's dtype, then times weight (llama)
  kWeightInFloat32,  ///< times weight, then rounded (olmo2)
  kOnePlusWeight,    ///< times (1 + weight) in float32, then rounded (gemma)
  kInWeightDtype,    ///< rounded to the weight's dtype, then times weight; the result has the weight's dtype (t5)
};

/// x / sqrt(mean(x²) + eps) · weight over the last axis, of extent `width`. The result has the input's dtype.
class RmsNorm : public Module {
 public:
  RmsNorm(Scope scope, std::string class_name, int64_t width, double eps, RmsNormKind kind);
  at::Tensor operator()(const at::Tensor& input) const;
  c10::ScalarType dtype() const { return weight_.scalar_type(); }

 private:
  int64_t width_;
  double eps_;
  RmsNormKind kind_;
  at::Tensor weight_;
};

}  // namespace exporters::models
