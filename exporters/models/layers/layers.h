#pragma once

#include "exporters/models/module.h"

#include <optional>

namespace exporters::models {

/// x Wᵀ + b over the last axis: [..., in] → [..., out].
class Linear : public Module {
 public:
  Linear(Scope scope, int64_t in_features, int64_t out_features, bool bias = true);
  at::Tensor operator()(const at::Tensor& input) const;
  const at::Tensor& weight() const { return weight_; }  ///< [out, in]
  const at::Tensor& bias() const { return bias_; }      ///< [out]; undefined: none

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

/// x W + b over the last axis, with the weight the other way round: [..., in] → [..., out].
class Conv1D : public Module {
 public:
  Conv1D(Scope scope, int64_t in_features, int64_t out_features);
  at::Tensor operator()(const at::Tensor& input) const;

 private:
  int64_t in_features_;
  int64_t out_features_;
  at::Tensor weight_;  // [in, out]
  at::Tensor bias_;
};

/// Rows of a table: integer indices [...] → [..., width].
class Embedding : public Module {
 public:
  /// `padding_idx` matters for training only, but traced programs carry it.
  Embedding(Scope scope, int64_t count, int64_t width, std::optional<int64_t> padding_idx = {});
  at::Tensor operator()(const at::Tensor& indices) const;
  const at::Tensor& weight() const { return weight_; }  ///< [count, width]

 private:
  int64_t padding_idx_;
  at::Tensor weight_;
};

/// Normalises the last axis, of extent `width`.
class LayerNorm : public Module {
 public:
  LayerNorm(Scope scope, int64_t width, double eps, bool bias = true);
  at::Tensor operator()(const at::Tensor& input) const;

 private:
  int64_t width_;
  double eps_;
  at::Tensor weight_;
  at::Tensor bias_;
};

}  // namespace exporters::models
