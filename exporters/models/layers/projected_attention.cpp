#include "exporters/models/layers/projected_attention.h"

#include "exporters/models/operators.h"

#include <tuple>

namespace exporters::models {
namespace {

enum : size_t { kQuery, kKey, kValue, kOutput };

}  // namespace

ProjectedAttention::ProjectedAttention(Scope scope, const ProjectedAttentionOptions& options)
    : Module(std::move(scope), options.class_name),
      heads_(options.heads),
      head_dim_(options.head_dim),
      scale_(options.scale),
      scales_query_(options.scales_query) {
  const int64_t inner = options.heads * options.head_dim;
  for (const size_t which : options.order) {
    const bool is_output = which == kOutput;
    const bool bias = which == kKey ? options.key_bias
                      : is_output   ? options.output_bias.value_or(options.bias)
                                    : options.bias;
    place_[which] = projections_.size();
    projections_.emplace_back(child(options.names[which]), is_output ? inner : options.hidden_size,
                              is_output ? options.hidden_size : inner, bias);
  }
}

std::pair<at::Tensor, at::Tensor> ProjectedAttention::keys_and_values(const at::Tensor& hidden,
                                                                      const at::Tensor& encoder_hidden,
                                                                      const LayerCaches& caches) const {
  const bool is_cross = encoder_hidden.defined();
  if (is_cross && caches.cross_is_filled) {
    return {caches.cross->keys(), caches.cross->values()};
  }
  const at::Tensor& source = is_cross ? encoder_hidden : hidden;
  const at::Tensor key = split_heads(projection(kKey)(source), heads_, head_dim_);
  const at::Tensor value = split_heads(projection(kValue)(source), heads_, head_dim_);
  CacheLayer* cache = is_cross ? caches.cross : caches.self;
  return cache != nullptr ? cache->update(key, value) : std::pair{key, value};
}

AttentionResult ProjectedAttention::operator()(const at::Tensor& hidden, const at::Tensor& encoder_hidden,
                                               const at::Tensor& mask, bool is_causal, AttentionKind kind,
                                               const LayerCaches& caches) const {
  const auto scope = enter();
  at::Tensor query = projection(kQuery)(hidden);
  if (scales_query_) {
    query = query * scale_;
  }
  query = split_heads(query, heads_, head_dim_);
  const auto [key, value] = keys_and_values(hidden, encoder_hidden, caches);
  AttentionResult result = attention(kind, query, key, value, mask, scales_query_ ? 1.0 : scale_, is_causal);
  return {projection(kOutput)(result.output), std::move(result.probabilities)};
}

}  // namespace exporters::models
