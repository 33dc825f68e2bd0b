#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string_view>

namespace exporters::models {

/// Elementwise; the result has the input's shape and dtype.
using Activation = at::Tensor (*)(const at::Tensor&);

/// The function behind a name in a config ("gelu", "silu", …), as transformers' ACT2FN has it. Throws Error that lists
/// near names for an unknown one, and for those with parameters of their own ("prelu", "xielu").
Activation activation(std::string_view name);
std::span<const std::string_view> activation_names();

}  // namespace exporters::models
