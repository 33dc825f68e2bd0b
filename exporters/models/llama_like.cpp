#include "exporters/models/llama_like.h"

#include "exporters/models/layer_types.h"
#include "exporters/models/layers/cached_attention.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/scalar_tensor.h>

#include <nlohmann/json.hpp>

#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

MlpOptions mlp_options(const std::string& prefix, const LlamaLikeSpec& spec) {
  return {prefix + "MLP", spec.hidden_size, spec.intermediate_size, spec.activation, spec.mlp_bias};
}

void check_heads(const LlamaLikeSpec& spec, const ModelConfig& config) {
  if (spec.num_attention_heads % spec.num_key_value_heads != 0) {
    throw Error(fmt::format("config field \"num_attention_heads\" is {}, not a multiple of \"num_key_value_heads\", {}",
                            spec.num_attention_heads, spec.num_key_value_heads),
                config.where());
  }
}

}  // namespace

LlamaLikeSpec read_llama_like(const ModelConfig& config, const LlamaLikeDefaults& defaults,
                              std::span<const FieldRule> rules) {
  config.check(rules);
  LlamaLikeSpec spec;
  spec.vocab_size = config.size("vocab_size", defaults.vocab_size);
  spec.hidden_size = config.size("hidden_size", defaults.hidden_size);
  spec.intermediate_size = config.size("intermediate_size", defaults.intermediate_size);
  spec.num_attention_heads = config.size("num_attention_heads", defaults.num_attention_heads);
  // A null in the config means the same as what the reference's class does without a default.
  const bool is_null = config.json().contains("num_key_value_heads") && !config.has("num_key_value_heads");
  const int64_t shared =
      is_null ? spec.num_attention_heads : defaults.num_key_value_heads.value_or(spec.num_attention_heads);
  spec.num_key_value_heads = config.size("num_key_value_heads", shared);
  const int64_t head_dim = defaults.head_dim.value_or(spec.hidden_size / spec.num_attention_heads);
  spec.head_dim = config.size("head_dim", head_dim);
  spec.max_position_embeddings = config.size("max_position_embeddings", defaults.max_position_embeddings);
  const int64_t layers = config.size("num_hidden_layers", defaults.num_hidden_layers, 1, kMaxLayers);
  spec.layers.resize(static_cast<size_t>(layers));
  spec.pad_token_id = config.optional_integer("pad_token_id", defaults.pad_token_id);
  spec.tie_word_embeddings = config.flag("tie_word_embeddings", defaults.tie_word_embeddings);
  spec.norm_eps = config.number(defaults.norm_eps_field, defaults.norm_eps);
  spec.activation = activation(config.string(defaults.activation_field, defaults.activation));
  spec.attention_scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  check_heads(spec, config);
  return spec;
}

DecoderTraits decoder_traits(const LlamaLikeSpec& spec) {
  DecoderTraits traits;
  traits.vocab_size = spec.vocab_size;
  traits.hidden_size = spec.hidden_size;
  traits.num_key_value_heads = spec.num_key_value_heads;
  traits.head_dim = spec.head_dim;
  for (const LlamaLikeLayer& layer : spec.layers) {
    traits.sliding_windows.push_back(layer.sliding_window);
  }
  traits.pad_token_id = spec.pad_token_id;
  traits.tie_word_embeddings = spec.tie_word_embeddings;
  traits.returns_given_cache = spec.returns_given_cache;
  traits.packs_sequences = spec.packs_sequences;
  traits.needs_eager_attention = spec.attention_softcap.has_value() || spec.attention_sinks;
  traits.logits_scaling = spec.logits_scaling;
  traits.final_logit_softcap = spec.final_logit_softcap;
  return traits;
}

RopeDefaults rope_defaults(const LlamaLikeSpec& spec, double theta) {
  RopeDefaults defaults;
  defaults.head_dim = spec.head_dim;
  defaults.max_position_embeddings = spec.max_position_embeddings;
  defaults.theta = theta;
  return defaults;
}

void read_layer_types(LlamaLikeSpec& spec, const ModelConfig& config, std::optional<int64_t> sliding_window,
                      const std::function<bool(size_t)>& is_sliding) {
  const std::vector<bool> sliding = sliding_layers(config, spec.layers.size(), is_sliding);
  for (size_t i = 0; i < sliding.size(); ++i) {
    if (sliding[i] && (!sliding_window || *sliding_window < 1)) {
      throw Error(fmt::format("layer {} has sliding attention, but config field \"sliding_window\" is not set", i),
                  config.where());
    }
    spec.layers[i].sliding_window = sliding[i] ? sliding_window : std::nullopt;
  }
}

void slide_all(LlamaLikeSpec& spec, const ModelConfig& config, std::optional<int64_t> sliding_window) {
  if (sliding_window && *sliding_window < 1) {
    throw Error(fmt::format("config field \"sliding_window\" is {}, expected a positive number", *sliding_window),
                config.where());
  }
  for (LlamaLikeLayer& layer : spec.layers) {
    layer.sliding_window = sliding_window;
  }
}

// ── Attention ──

LlamaLikeAttention::LlamaLikeAttention(Scope scope, const std::string& prefix, const LlamaLikeSpec& spec)
    : Module(std::move(scope), prefix + "Attention"),
      heads_(spec.num_attention_heads),
      key_value_heads_(spec.num_key_value_heads),
      head_dim_(spec.head_dim),
      query_key_norm_(spec.query_key_norm) {
  options_.scale = spec.attention_scale;
  options_.softcap = spec.attention_softcap;
  options_.softmax_in_float32 = true;
  if (spec.attention_sinks) {
    parameter("sinks", sinks_, {heads_});
  }
  const int64_t query_size = heads_ * head_dim_;
  const int64_t key_size = key_value_heads_ * head_dim_;
  if (spec.fused_query_key_value) {
    o_proj_.emplace(child("o_proj"), query_size, spec.hidden_size, spec.attention_output_bias);
    qkv_proj_.emplace(child("qkv_proj"), spec.hidden_size, query_size + 2 * key_size, spec.query_key_value_bias);
  } else {
    q_proj_.emplace(child("q_proj"), spec.hidden_size, query_size, spec.query_key_value_bias);
    k_proj_.emplace(child("k_proj"), spec.hidden_size, key_size, spec.query_key_value_bias);
    v_proj_.emplace(child("v_proj"), spec.hidden_size, key_size, spec.query_key_value_bias);
    o_proj_.emplace(child("o_proj"), query_size, spec.hidden_size, spec.attention_output_bias);
  }
  if (query_key_norm_ != QueryKeyNorm::kNone) {
    const bool per_head = query_key_norm_ == QueryKeyNorm::kPerHead;
    const RmsNormKind kind = spec.norm.value_or(RmsNormKind::kWeightInDtype);
    q_norm_.emplace(child("q_norm"), prefix + "RMSNorm", per_head ? head_dim_ : query_size, spec.norm_eps, kind);
    k_norm_.emplace(child("k_norm"), prefix + "RMSNorm", per_head ? head_dim_ : key_size, spec.norm_eps, kind);
  }
}

LlamaLikeAttention::Projected LlamaLikeAttention::project(const at::Tensor& hidden) const {
  if (!qkv_proj_) {
    return {(*q_proj_)(hidden), (*k_proj_)(hidden), (*v_proj_)(hidden)};
  }
  const at::Tensor all = (*qkv_proj_)(hidden);
  const int64_t query_end = heads_ * head_dim_;
  const int64_t key_end = query_end + key_value_heads_ * head_dim_;
  return {all.slice(-1, 0, query_end), all.slice(-1, query_end, key_end),
          all.slice(-1, key_end, key_end + key_value_heads_ * head_dim_)};
}

at::Tensor LlamaLikeAttention::heads_of(const at::Tensor& projected, int64_t heads,
                                        const std::optional<RmsNorm>& norm) const {
  if (query_key_norm_ == QueryKeyNorm::kPerHead) {
    return (*norm)(projected.unflatten(-1, {heads, head_dim_})).transpose(1, 2);
  }
  return split_heads(norm ? (*norm)(projected) : projected, heads, head_dim_);
}

AttentionResult LlamaLikeAttention::operator()(const at::Tensor& hidden, const RotaryPositions* rotary,
                                               const CausalMask& mask, CacheLayer* cache, AttentionKind kind) const {
  const auto scope = enter();
  const Projected projected = project(hidden);
  at::Tensor query = heads_of(projected.query, heads_, q_norm_);
  at::Tensor key = heads_of(projected.key, key_value_heads_, k_norm_);
  const at::Tensor value = split_heads(projected.value, key_value_heads_, head_dim_);
  if (rotary != nullptr) {
    query = apply_rotary(query, *rotary);
    key = apply_rotary(key, *rotary);
  }
  AttentionOptions options = options_;
  options.sinks = sinks_;
  AttentionResult result = cached_attention(kind, query, key, value, mask, cache, options);
  return {(*o_proj_)(result.output), std::move(result.probabilities)};
}

// ── Layers ──

LlamaLikeNorm::LlamaLikeNorm(Scope scope, const std::string& prefix, const LlamaLikeSpec& spec) {
  if (spec.norm) {
    rms_.emplace(std::move(scope), prefix + "RMSNorm", spec.hidden_size, spec.norm_eps, *spec.norm);
  } else {
    layer_.emplace(std::move(scope), spec.hidden_size, spec.norm_eps);
  }
}

at::Tensor LlamaLikeNorm::operator()(const at::Tensor& hidden) const {
  return rms_ ? (*rms_)(hidden) : (*layer_)(hidden);
}

LlamaLikeDecoderLayer::LlamaLikeDecoderLayer(Scope scope, const std::string& prefix, const LlamaLikeSpec& spec,
                                             size_t index)
    : Module(std::move(scope), prefix + "DecoderLayer"),
      residual_multiplier_(spec.residual_multiplier),
      self_attn_(child("self_attn"), prefix, spec),
      placement_(spec.norm_placement) {
  own_mlp_ = spec.make_mlp ? spec.make_mlp(child("mlp"), index) : nullptr;
  switch (own_mlp_ ? MlpKind::kOwn : spec.mlp) {
    case MlpKind::kOwn:
      break;
    case MlpKind::kGated:
      mlp_.emplace<GatedMlp>(child("mlp"), mlp_options(prefix, spec));
      break;
    case MlpKind::kFusedGated:
      mlp_.emplace<FusedGatedMlp>(child("mlp"), mlp_options(prefix, spec));
      break;
    case MlpKind::kPlain:
      mlp_.emplace<PlainMlp>(child("mlp"), mlp_options(prefix, spec), "c_fc", "c_proj");
      break;
  }
  if (placement_ != NormPlacement::kAfter) {
    input_layernorm_.emplace(child("input_layernorm"), prefix, spec);
  }
  post_attention_layernorm_.emplace(child("post_attention_layernorm"), prefix, spec);
  if (placement_ == NormPlacement::kAround) {
    pre_feedforward_layernorm_.emplace(child("pre_feedforward_layernorm"), prefix, spec);
  }
  if (placement_ != NormPlacement::kBefore) {
    post_feedforward_layernorm_.emplace(child("post_feedforward_layernorm"), prefix, spec);
  }
}

at::Tensor LlamaLikeDecoderLayer::mlp(const at::Tensor& hidden) const {
  if (own_mlp_) {
    return (*own_mlp_)(hidden);
  }
  return std::visit(
      [&](const auto& mlp) -> at::Tensor {
        if constexpr (std::is_same_v<std::decay_t<decltype(mlp)>, std::monostate>) {
          return hidden;
        } else {
          return mlp(hidden);
        }
      },
      mlp_);
}

AttentionResult LlamaLikeDecoderLayer::operator()(const at::Tensor& hidden, const RotaryPositions* rotary,
                                                  const CausalMask& mask, CacheLayer* cache, AttentionKind kind) const {
  const auto scope = enter();
  const auto add = [this](const at::Tensor& residual, const at::Tensor& x) {
    return residual + (residual_multiplier_ == 1.0 ? x : x * residual_multiplier_);
  };
  const bool norms_before = placement_ != NormPlacement::kAfter;
  const bool norms_after = placement_ != NormPlacement::kBefore;
  AttentionResult attended = self_attn_(norms_before ? (*input_layernorm_)(hidden) : hidden, rotary, mask, cache, kind);
  const at::Tensor middle = add(hidden, norms_after ? (*post_attention_layernorm_)(attended.output) : attended.output);
  at::Tensor forward = middle;
  if (placement_ == NormPlacement::kBefore) {
    forward = (*post_attention_layernorm_)(middle);
  } else if (placement_ == NormPlacement::kAround) {
    forward = (*pre_feedforward_layernorm_)(middle);
  }
  forward = mlp(forward);
  return {add(middle, norms_after ? (*post_feedforward_layernorm_)(forward) : forward),
          std::move(attended.probabilities)};
}

// ── The model ──

ScaledEmbedding::ScaledEmbedding(Scope scope, std::string class_name, int64_t count, int64_t width,
                                 std::optional<int64_t> padding_idx, double scale)
    : Module(std::move(scope), std::move(class_name)), padding_idx_(padding_idx.value_or(-1)) {
  parameter("weight", weight_, {count, width});
  buffer("embed_scale", embed_scale_,
         [scale] { return at::scalar_tensor(scale, at::TensorOptions().dtype(c10::ScalarType::Float)); });
}

at::Tensor ScaledEmbedding::operator()(const at::Tensor& indices) const {
  const auto scope = enter();
  return at::embedding(weight_, indices, padding_idx_) * embed_scale_.to(weight_.scalar_type());
}

LlamaLikeModel::LlamaLikeModel(Scope scope, const DecoderFamily& family, const ModelConfig& config, LlamaLikeSpec spec)
    : DecoderModel(std::move(scope), family, config, decoder_traits(spec)), spec_(std::move(spec)) {
  const std::string prefix(family.prefix);
  if (spec_.embedding_scale) {
    scaled_embed_tokens_.emplace(child("embed_tokens"), prefix + "TextScaledWordEmbedding", spec_.vocab_size,
                                 spec_.hidden_size, spec_.pad_token_id, *spec_.embedding_scale);
  } else {
    embed_tokens_.emplace(child("embed_tokens"), spec_.vocab_size, spec_.hidden_size, spec_.pad_token_id);
  }
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    layers_.emplace_back(child(fmt::format("layers.{}", i)), prefix, spec_, i);
  }
  norm_.emplace(child("norm"), prefix, spec_);
  if (spec_.ropes.size() == 1 && spec_.ropes.front().first.empty()) {
    rotary_emb_.emplace(child("rotary_emb"), prefix + "RotaryEmbedding", spec_.ropes.front().second);
  } else {
    rotary_emb_.emplace(child("rotary_emb"), prefix + "RotaryEmbedding", spec_.ropes);
  }
}

at::Tensor LlamaLikeModel::embed(const at::Tensor& input_ids) const {
  return scaled_embed_tokens_ ? (*scaled_embed_tokens_)(input_ids) : (*embed_tokens_)(input_ids);
}

at::Tensor LlamaLikeModel::begin(const at::Tensor& embeddings, Pass& pass) const {
  const c10::ScalarType dtype = spec_.rotates_in_float32 ? c10::ScalarType::Float : embeddings.scalar_type();
  for (size_t i = 0; i < spec_.ropes.size(); ++i) {
    pass.rotary.push_back((*rotary_emb_)(pass.position_ids, dtype, i));
  }
  return spec_.embedding_multiplier == 1.0 ? embeddings : embeddings * spec_.embedding_multiplier;
}

AttentionResult LlamaLikeModel::run_layer(size_t index, const at::Tensor& hidden, const LayerInputs& inputs) const {
  const std::optional<size_t> rope = spec_.layers[index].rope;
  const RotaryPositions* rotary = rope ? &inputs.pass->rotary[*rope] : nullptr;
  return layers_[index](hidden, rotary, inputs.mask, inputs.cache, inputs.pass->kind);
}

at::Tensor LlamaLikeModel::finish(const at::Tensor& hidden) const { return (*norm_)(hidden); }

}  // namespace exporters::models
