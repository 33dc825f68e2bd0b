#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace exporters::models {

/// Token ids for a sample: int64 [batch, sequence] in [0, vocab_size), varied, the same for the same sizes, without
/// `pad_token_id` where the vocabulary has another one.
at::Tensor sample_ids(int64_t batch, int64_t sequence, int64_t vocab_size, std::optional<int64_t> pad_token_id = {});

/// Values for a sample: float32 of the given sizes in [-1, 1), varied; other ones for each `seed`.
at::Tensor sample_values(const std::vector<int64_t>& sizes, int64_t seed);

}  // namespace exporters::models
