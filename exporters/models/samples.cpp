#include "exporters/models/samples.h"

#include <ATen/ops/empty.h>

namespace exporters::models {
namespace {

// splitmix64: a fixed, well spread sequence without a generator's state.
uint64_t spread(uint64_t index) {
  uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

at::Tensor sample_ids(int64_t batch, int64_t sequence, int64_t vocab_size, std::optional<int64_t> pad_token_id) {
  at::Tensor ids = at::empty({batch, sequence}, at::TensorOptions().dtype(c10::ScalarType::Long));
  auto* values = ids.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    auto id = static_cast<int64_t>(spread(static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab_size));
    if (id == pad_token_id) {
      id = (id + 1) % vocab_size;
    }
    values[i] = id;
  }
  return ids;
}

at::Tensor sample_values(const std::vector<int64_t>& sizes, int64_t seed) {
  at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(c10::ScalarType::Float));
  auto* values = tensor.mutable_data_ptr<float>();
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const uint64_t bits = spread(spread(static_cast<uint64_t>(seed)) + static_cast<uint64_t>(i));
    values[i] = static_cast<float>(static_cast<int64_t>(bits >> 40) - (int64_t{1} << 23)) / float{1 << 23};
  }
  return tensor;
}

}  // namespace exporters::models
