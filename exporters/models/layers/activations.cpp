#include "exporters/models/layers/activations.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <array>
#include <numbers>

namespace exporters::models {
namespace {

using at::Tensor;
using std::numbers::sqrt2;

const double kSqrtTwoOverPi = sqrt2 * std::numbers::inv_sqrtpi;

Tensor gelu(const Tensor& x) { return at::gelu(x); }
Tensor gelu_tanh(const Tensor& x) { return at::gelu(x, "tanh"); }
Tensor gelu_clipped(const Tensor& x) { return at::clamp(at::gelu(x), -10, 10); }
// The spelled-out forms keep the reference's order of operations: in half precision the order shows.
Tensor gelu_erf_spelled(const Tensor& x) { return x * 0.5 * (at::erf(x / sqrt2) + 1.0); }
Tensor gelu_new(const Tensor& x) {
  return x * 0.5 * (at::tanh((x + at::pow(x, 3.0) * 0.044715) * kSqrtTwoOverPi) + 1.0);
}
Tensor gelu_fast(const Tensor& x) { return x * 0.5 * (at::tanh(x * 0.7978845608 * ((x * 0.044715) * x + 1.0)) + 1.0); }
Tensor gelu_accurate(const Tensor& x) {
  return x * 0.5 * (at::tanh((x + at::pow(x, 3) * 0.044715) * kSqrtTwoOverPi) + 1);
}
Tensor gelu_quick(const Tensor& x) { return x * at::sigmoid(x * 1.702); }
Tensor hardswish(const Tensor& x) { return at::hardswish(x); }
Tensor laplace(const Tensor& x) { return (at::erf((x - 0.707107) / (0.282095 * sqrt2)) + 1.0) * 0.5; }
Tensor leaky_relu(const Tensor& x) { return at::leaky_relu(x, 0.01); }
Tensor identity(const Tensor& x) { return x; }
Tensor mish(const Tensor& x) { return at::mish(x); }
Tensor relu(const Tensor& x) { return at::relu(x); }
Tensor relu_squared(const Tensor& x) { return at::square(at::relu(x)); }
Tensor relu6(const Tensor& x) { return at::relu6(x); }
Tensor sigmoid(const Tensor& x) { return at::sigmoid(x); }
Tensor silu(const Tensor& x) { return at::silu(x); }
Tensor sqrt_softplus(const Tensor& x) { return at::sqrt(at::softplus(x)); }
Tensor tanh(const Tensor& x) { return at::tanh(x); }

constexpr std::array<std::pair<std::string_view, Activation>, 22> kActivations{{
    {"gelu", gelu},
    {"gelu_10", gelu_clipped},
    {"gelu_accurate", gelu_accurate},
    {"gelu_fast", gelu_fast},
    {"gelu_new", gelu_new},
    {"gelu_python", gelu_erf_spelled},
    {"gelu_python_tanh", gelu_new},
    {"gelu_pytorch_tanh", gelu_tanh},
    {"hardswish", hardswish},
    {"laplace", laplace},
    {"leaky_relu", leaky_relu},
    {"linear", identity},
    {"mish", mish},
    {"quick_gelu", gelu_quick},
    {"relu", relu},
    {"relu2", relu_squared},
    {"relu6", relu6},
    {"sigmoid", sigmoid},
    {"silu", silu},
    {"sqrtsoftplus", sqrt_softplus},
    {"swish", silu},
    {"tanh", tanh},
}};

constexpr auto kNames = [] {
  std::array<std::string_view, kActivations.size()> names;
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = kActivations[i].first;
  }
  return names;
}();

}  // namespace

Activation activation(std::string_view name) {
  for (const auto& [known, function] : kActivations) {
    if (known == name) {
      return function;
    }
  }
  if (name == "prelu" || name == "xielu") {
    fail("activation \"{}\" has parameters of its own and is not supported", name);
  }
  throw Error(fmt::format("unknown activation \"{}\"", name), {}, suggest(name, kNames));
}

std::span<const std::string_view> activation_names() { return kNames; }

}  // namespace exporters::models
