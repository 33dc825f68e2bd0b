#include "exporters/onnx/cache_buffer.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>
#include <c10/util/strides.h>

#include <vector>

namespace exporters::onnx {
namespace {

constexpr int64_t kRank = 4;
constexpr int64_t kHeadsAxis = 1;
constexpr int64_t kLengthAxis = 2;

std::vector<int64_t> with_length(const at::Tensor& states, int64_t length) {
  std::vector<int64_t> sizes = states.sizes().vec();
  sizes[kLengthAxis] = length;
  return sizes;
}

// Not a view as operators make them: outside of inference mode these hold on to their base, and so to its memory.
at::Tensor in_memory_of(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::empty({0}, tensor.options()).set_(tensor.storage(), /*storage_offset=*/0, sizes, strides);
}

}  // namespace

at::Tensor with_room(const at::Tensor& states, int64_t capacity) {
  const at::Tensor buffer = at::empty(with_length(states, capacity), states.options().device(at::kCPU));
  first_places(buffer, states.size(kLengthAxis)).copy_(states);
  return buffer;
}

at::Tensor first_places(const at::Tensor& buffer, int64_t length) {
  return in_memory_of(buffer, with_length(buffer, length), buffer.strides());
}

at::Tensor buffer_of(const at::Tensor& states) {
  const bool may_be = states.is_cpu() && states.layout() == c10::kStrided && states.dim() == kRank &&
                      states.numel() > 0 && states.storage_offset() == 0 && states.storage().use_count() == 1;
  if (!may_be) {
    return {};
  }
  const int64_t capacity = states.stride(kHeadsAxis) / states.size(kRank - 1);
  const std::vector<int64_t> sizes = with_length(states, capacity);
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * states.itemsize();
  if (states.strides() != c10::contiguous_strides(sizes) || states.storage().nbytes() != bytes) {
    return {};
  }
  return in_memory_of(states, sizes, states.strides());
}

}  // namespace exporters::onnx
