#pragma once

#include "exporters/models/module.h"

#include <cstdint>
#include <vector>

namespace exporters::models {

struct ConvolutionOptions {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  std::vector<int64_t> kernel;        ///< one or two extents: a convolution over as many axes
  std::vector<int64_t> stride = {};   ///< of each axis; empty: 1
  std::vector<int64_t> padding = {};  ///< zeros on both sides of each axis; empty: none
  int64_t groups = 1;
  bool bias = true;
};

/// [batch, in_channels, length] → [batch, out_channels, …], or the same with height and width.
class Convolution : public Module {
 public:
  Convolution(Scope scope, const ConvolutionOptions& options);
  at::Tensor operator()(const at::Tensor& input) const;
  c10::ScalarType dtype() const { return weight_.scalar_type(); }

 private:
  ConvolutionOptions options_;
  at::Tensor weight_;  // [out_channels, in_channels / groups, kernel…]
  at::Tensor bias_;
};

}  // namespace exporters::models
