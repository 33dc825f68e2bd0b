#include "exporters/models/layers/cached_attention.h"

#include <tuple>

namespace exporters::models {

AttentionResult cached_attention(AttentionKind kind, const at::Tensor& query, at::Tensor key, at::Tensor value,
                                 const CausalMask& mask, CacheLayer* cache, AttentionOptions options) {
  if (cache != nullptr) {
    std::tie(key, value) = cache->update(key, value);
  }
  options.is_causal = mask.is_causal;
  return attention(kind, query, key, value, mask.mask, options);
}

}  // namespace exporters::models
