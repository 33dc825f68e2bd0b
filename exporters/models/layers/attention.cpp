#include "exporters/models/layers/attention.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

namespace exporters::models {
namespace {

// [batch, heads, length, head_dim] → [batch, length, heads * head_dim]
at::Tensor merge_heads(const at::Tensor& output) { return output.transpose(1, 2).flatten(2); }

AttentionResult eager_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& mask, double scale) {
  at::Tensor scores = at::matmul(query, key.transpose(2, 3)) * scale;
  if (mask.defined()) {
    scores = scores + mask;
  }
  const at::Tensor probabilities = at::softmax(scores, -1);
  return {merge_heads(at::matmul(probabilities, value)), probabilities};
}

}  // namespace

AttentionKind parse_attention_kind(std::string_view name) {
  if (name == "sdpa") {
    return AttentionKind::kSdpa;
  }
  if (name == "eager") {
    return AttentionKind::kEager;
  }
  throw Error(fmt::format("unknown attention implementation \"{}\"", name), {}, "Known are: sdpa, eager");
}

at::Tensor split_heads(const at::Tensor& projected, int64_t heads, int64_t head_dim) {
  return projected.unflatten(-1, {heads, head_dim}).transpose(1, 2);
}

AttentionResult attention(AttentionKind kind, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const at::Tensor& mask, double scale, bool is_causal) {
  if (kind == AttentionKind::kEager) {
    ensure(!is_causal, "eager attention takes causality as a mask");
    return eager_attention(query, key, value, mask, scale);
  }
  const auto optional_mask = mask.defined() ? std::optional(mask) : std::nullopt;
  return {merge_heads(
              at::scaled_dot_product_attention(query, key, value, optional_mask, /*dropout_p=*/0.0, is_causal, scale)),
          {}};
}

}  // namespace exporters::models
