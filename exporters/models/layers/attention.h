#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
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

struct AttentionOptions {
  double scale = 1.0;
  /// Scores s become softcap · tanh(s / softcap); kEager only.
  std::optional<double> softcap = {};
  /// [heads]: a score for each head that takes part in the softmax and attends to nothing; kEager only. Undefined: none
  at::Tensor sinks = {};
  /// The softmax is computed in float32 whatever the dtype is; kEager only, kSdpa always does so.
  bool softmax_in_float32 = false;
  /// Query i sees keys 0 … i; kSdpa without mask only.
  bool is_causal = false;
};

/// softmax(q kᵀ · scale + mask) v over heads.
/// @param query [batch, heads, queries, head_dim]
/// @param key,value [batch, key/value heads, keys, head_dim]: each of their heads serves heads / key/value heads of the
///        query's
/// @param mask of the kind that masks.h makes for `kind`; undefined: no mask
AttentionResult attention(AttentionKind kind, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const at::Tensor& mask, const AttentionOptions& options);

/// Without any of the options but these.
inline AttentionResult attention(AttentionKind kind, const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const at::Tensor& mask, double scale,
                                 bool is_causal = false) {
  return attention(kind, query, key, value, mask, AttentionOptions{.scale = scale, .is_causal = is_causal});
}

}  // namespace exporters::models
