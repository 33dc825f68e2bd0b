#include "exporters/models/layers/attention.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>

namespace exporters::models {
namespace {

// [batch, heads, length, head_dim] → [batch, length, heads * head_dim]
at::Tensor merge_heads(const at::Tensor& output) { return output.transpose(1, 2).flatten(2); }

// [batch, key/value heads, length, head_dim] → [batch, heads, length, head_dim]: each head `count` times in a row.
at::Tensor repeat_heads(const at::Tensor& states, int64_t count) {
  if (count == 1) {
    return states;
  }
  const auto heads = states.sym_size(1);
  return states.unsqueeze(2)
      .expand_symint({states.sym_size(0), heads, count, states.sym_size(2), states.sym_size(3)})
      .reshape_symint({states.sym_size(0), heads * count, states.sym_size(2), states.sym_size(3)});
}

// Query heads to each key/value head. Numbers of heads come from the config: they are never symbolic.
int64_t group_size(const at::Tensor& query, const at::Tensor& key) {
  const int64_t heads = query.sym_size(1).guard_int(__FILE__, __LINE__);
  const int64_t shared = key.sym_size(1).guard_int(__FILE__, __LINE__);
  ensure(shared > 0 && heads % shared == 0, "{} attention heads cannot share {} key/value heads", heads, shared);
  return heads / shared;
}

at::Tensor with_softcap(const at::Tensor& scores, std::optional<double> softcap) {
  return softcap ? at::tanh(scores / *softcap) * *softcap : scores;
}

// The largest score is taken away first, as the reference does: low precision shows it.
at::Tensor softmax_with_sinks(const at::Tensor& scores, const at::Tensor& sinks) {
  const at::Tensor column =
      sinks.reshape({1, -1, 1, 1}).expand_symint({scores.sym_size(0), scores.sym_size(1), scores.sym_size(2), 1});
  const at::Tensor all = at::cat({scores, column}, -1);
  const at::Tensor probabilities = at::softmax(all - at::amax(all, -1, /*keepdim=*/true), -1);
  return probabilities.slice_symint(-1, 0, scores.sym_size(-1));
}

at::Tensor probabilities_of(const at::Tensor& scores, const AttentionOptions& options) {
  if (options.sinks.defined()) {
    return softmax_with_sinks(scores, options.sinks);
  }
  const c10::ScalarType dtype = scores.scalar_type();
  if (!options.softmax_in_float32 || dtype == c10::ScalarType::Float) {
    return at::softmax(scores, -1);
  }
  return at::softmax(scores, -1, c10::ScalarType::Float).to(dtype);
}

AttentionResult eager_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& mask, const AttentionOptions& options) {
  const int64_t group = group_size(query, key);
  at::Tensor scores = at::matmul(query, repeat_heads(key, group).transpose(2, 3)) * options.scale;
  scores = with_softcap(scores, options.softcap);
  if (mask.defined()) {
    scores = scores + mask;
  }
  const at::Tensor probabilities = probabilities_of(scores, options);
  return {merge_heads(at::matmul(probabilities, repeat_heads(value, group))), probabilities};
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
                          const at::Tensor& mask, const AttentionOptions& options) {
  if (kind == AttentionKind::kEager) {
    ensure(!options.is_causal, "eager attention takes causality as a mask");
    return eager_attention(query, key, value, mask, options);
  }
  ensure(!options.softcap && !options.sinks.defined(), "sdpa attention has neither soft caps nor sinks");
  const auto optional_mask = mask.defined() ? std::optional(mask) : std::nullopt;
  const bool is_grouped = group_size(query, key) > 1;
  return {merge_heads(at::scaled_dot_product_attention(query, key, value, optional_mask, /*dropout_p=*/0.0,
                                                       options.is_causal, options.scale, is_grouped)),
          {}};
}

}  // namespace exporters::models
