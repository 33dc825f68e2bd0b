#pragma once

#include "exporters/models/cache.h"
#include "exporters/models/layers/attention.h"
#include "exporters/models/masks.h"

namespace exporters::models {

/// attention() over the keys and values of a cache, which takes the new ones first.
/// @param cache null: the new ones alone
/// @param options all but is_causal, which the mask says
AttentionResult cached_attention(AttentionKind kind, const at::Tensor& query, at::Tensor key, at::Tensor value,
                                 const CausalMask& mask, CacheLayer* cache, AttentionOptions options);

}  // namespace exporters::models
