#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace exporters::models {

/// How attention is computed, as the reference's `attn_implementation`: by one fused op, or step by step, which also
/// yields the probabilities. The two want different masks (masks.h).
enum class AttentionKind { kSdpa, kEager };
/// "sdpa" or "eager". Throws Error for another name.
AttentionKind parse_attention_kind(std::string_view name);

struct AttentionResult {
  at::Tensor output;         ///< [batch, queries, heads * head_dim]
  at::Tensor probabilities;  ///< [batch, heads, queries, keys]; kEager only
};

/// [batch, length, heads * head_dim] → [batch, heads, length, head_dim].
at::Tensor split_heads(const at::Tensor& projected, int64_t heads, int64_t head_dim);

/// softmax(q kᵀ · scale + mask) v over heads.
/// @param query,key,value [batch, heads, length, head_dim]
/// @param mask of the kind that masks.h makes for `kind`; undefined: no mask
/// @param is_causal with kSdpa and without mask: query i sees keys 0 … i
AttentionResult attention(AttentionKind kind, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const at::Tensor& mask, double scale, bool is_causal = false);

}  // namespace exporters::models
