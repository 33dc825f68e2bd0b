#include "exporters/models/layers/layers.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>

namespace exporters::models {

Linear::Linear(Scope scope, int64_t in_features, int64_t out_features, bool bias) : Module(std::move(scope), "Linear") {
  parameter("weight", weight_, {out_features, in_features});
  if (bias) {
    parameter("bias", bias_, {out_features});
  }
}

at::Tensor Linear::operator()(const at::Tensor& input) const {
  const auto scope = enter();
  return at::linear(input, weight_, bias_.defined() ? std::optional(bias_) : std::nullopt);
}

Conv1D::Conv1D(Scope scope, int64_t in_features, int64_t out_features)
    : Module(std::move(scope), "Conv1D"), in_features_(in_features), out_features_(out_features) {
  parameter("weight", weight_, {in_features, out_features});
  parameter("bias", bias_, {out_features});
}

at::Tensor Conv1D::operator()(const at::Tensor& input) const {
  const auto scope = enter();
  std::vector<c10::SymInt> sizes = input.sym_sizes().vec();
  sizes.back() = out_features_;
  return at::addmm(bias_, input.reshape({-1, in_features_}), weight_).reshape_symint(sizes);
}

Embedding::Embedding(Scope scope, int64_t count, int64_t width, std::optional<int64_t> padding_idx)
    : Module(std::move(scope), "Embedding"), padding_idx_(padding_idx.value_or(-1)) {
  parameter("weight", weight_, {count, width});
}

at::Tensor Embedding::operator()(const at::Tensor& indices) const {
  const auto scope = enter();
  return at::embedding(weight_, indices, padding_idx_);
}

LayerNorm::LayerNorm(Scope scope, int64_t width, double eps, bool bias)
    : Module(std::move(scope), "LayerNorm"), width_(width), eps_(eps) {
  parameter("weight", weight_, {width});
  if (bias) {
    parameter("bias", bias_, {width});
  }
}

at::Tensor LayerNorm::operator()(const at::Tensor& input) const {
  const auto scope = enter();
  return at::layer_norm(input, {width_}, weight_, bias_.defined() ? std::optional(bias_) : std::nullopt, eps_);
}

}  // namespace exporters::models
