#include "exporters/models/layers/convolution.h"

#include "exporters/support/error.h"

#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>

namespace exporters::models {
namespace {

std::vector<int64_t> or_each(std::vector<int64_t> values, size_t count, int64_t value) {
  return values.empty() ? std::vector<int64_t>(count, value) : std::move(values);
}

}  // namespace

Convolution::Convolution(Scope scope, const ConvolutionOptions& options)
    : Module(std::move(scope), options.kernel.size() == 1 ? "Conv1d" : "Conv2d"), options_(options) {
  const size_t axes = options_.kernel.size();
  ensure(axes == 1 || axes == 2, "a convolution over {} axes is not supported", axes);
  options_.stride = or_each(std::move(options_.stride), axes, 1);
  options_.padding = or_each(std::move(options_.padding), axes, 0);
  std::vector<int64_t> shape = {options_.out_channels, options_.in_channels / options_.groups};
  shape.insert(shape.end(), options_.kernel.begin(), options_.kernel.end());
  parameter("weight", weight_, std::move(shape));
  if (options_.bias) {
    parameter("bias", bias_, {options_.out_channels});
  }
}

at::Tensor Convolution::operator()(const at::Tensor& input) const {
  const auto scope = enter();
  const auto bias = bias_.defined() ? std::optional(bias_) : std::nullopt;
  const std::vector<int64_t> dilation(options_.kernel.size(), 1);
  if (options_.kernel.size() == 1) {
    return at::conv1d(input, weight_, bias, options_.stride, options_.padding, dilation, options_.groups);
  }
  return at::conv2d(input, weight_, bias, options_.stride, options_.padding, dilation, options_.groups);
}

}  // namespace exporters::models
