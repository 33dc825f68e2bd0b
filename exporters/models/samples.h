#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace exporters::models {

/// Token ids for a sample: int64 [batch, sequence] in [0, vocab_size), varied, the same for the same sizes, without
/// `pad_token_id` where the vocabulary has another one.
at::Tensor sample_ids(int64_t batch, int64_t sequence, int64_t vocab_size, std::optional<int64_t> pad_token_id = {});

}  // namespace exporters::models
