#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

namespace exporters::testing {

/// A libtorch module that computes other things in training mode than in evaluation; [n, 4] → [n, 4].
struct NormalizedNet : torch::nn::Module {
  torch::nn::Linear fc{4, 4};
  torch::nn::BatchNorm1d norm{4};
  torch::nn::Dropout dropout{0.5};

  NormalizedNet() {
    register_module("fc", fc);
    register_module("norm", norm);
    register_module("dropout", dropout);
  }
  at::Tensor forward(const at::Tensor& x) { return dropout(norm(fc(x))); }
};

}  // namespace exporters::testing
