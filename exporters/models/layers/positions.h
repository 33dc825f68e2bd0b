#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace exporters::models {

// Tables of sinusoidal positions (Vaswani et al., 2017), as different families of transformers compute them.

/// sin, then cos, of position / 10000^(2i / width): float32 [count, width]. In float64 until the end (marian).
at::Tensor sinusoids(int64_t count, int64_t width);

/// The same with the exponents of tensor2tensor, i / (width / 2 - 1), in float32: [count, width] (m2m_100).
/// @param zero_row a row that is all zeros: that of padding
at::Tensor tensor2tensor_sinusoids(int64_t count, int64_t width, std::optional<int64_t> zero_row);

}  // namespace exporters::models
