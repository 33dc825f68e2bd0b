#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace exporters::onnx {

// Keys or values of a cache, [batch, heads, length, features], as the first places of a buffer [batch, heads, capacity,
// features] with room for more.

/// A new buffer that begins with a copy of `states`.
at::Tensor with_room(const at::Tensor& states, int64_t capacity);

/// The first places of a buffer, in its memory.
at::Tensor first_places(const at::Tensor& buffer, int64_t length);

/// The buffer of which `states` are the first places, where no other tensor reaches its memory: what is behind them is
/// then free to be written, and whoever kept an older part of the buffer loses nothing. Undefined where there is none.
at::Tensor buffer_of(const at::Tensor& states);

}  // namespace exporters::onnx
