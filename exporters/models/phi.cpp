// Phi-1, Phi-1.5 and Phi-2 (Microsoft, 2023): attention and MLP beside each other, heads rotated in part.
#include "exporters/models/decoder_families.h"
#include "exporters/models/layers/cached_attention.h"
#include "exporters/models/layers/mlp.h"
#include "exporters/models/llama_like.h"
#include "exporters/models/operators.h"
#include "exporters/models/rotary_decoder.h"

#include <fmt/format.h>

namespace exporters::models {
namespace {

LlamaLikeSpec read_phi(const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 51200;
  defaults.hidden_size = 2048;
  defaults.intermediate_size = 8192;
  defaults.num_hidden_layers = 24;
  defaults.norm_eps_field = "layer_norm_eps";
  defaults.norm_eps = 1e-5;
  defaults.activation = "gelu_new";
  LlamaLikeSpec spec = read_llama_like(config, defaults);
  RopeDefaults rope = rope_defaults(spec);
  rope.partial = true;
  rope.partial_rotary_factor = 0.5;
  spec.ropes = {{"", read_rope_parameters(config, rope)}};
  return spec;
}

class PhiAttention : public Module {
 public:
  PhiAttention(Scope scope, const LlamaLikeSpec& spec, bool norms)
      : Module(std::move(scope), "PhiAttention"),
        heads_(spec.num_attention_heads),
        key_value_heads_(spec.num_key_value_heads),
        head_dim_(spec.head_dim),
        q_proj_(child("q_proj"), spec.hidden_size, heads_ * head_dim_),
        k_proj_(child("k_proj"), spec.hidden_size, key_value_heads_ * head_dim_),
        v_proj_(child("v_proj"), spec.hidden_size, key_value_heads_ * head_dim_),
        dense_(child("dense"), heads_ * head_dim_, spec.hidden_size) {
    options_.scale = spec.attention_scale;
    options_.softmax_in_float32 = true;
    if (norms) {
      q_layernorm_.emplace(child("q_layernorm"), head_dim_, spec.norm_eps);
      k_layernorm_.emplace(child("k_layernorm"), head_dim_, spec.norm_eps);
    }
  }

  AttentionResult operator()(const at::Tensor& hidden, const RotaryPositions& rotary, const CausalMask& mask,
                             CacheLayer* cache, AttentionKind kind) const {
    const auto scope = enter();
    const auto rotated = [&](const at::Tensor& heads, const std::optional<LayerNorm>& norm) {
      return apply_rotary(norm ? (*norm)(heads) : heads, rotary);
    };
    const at::Tensor query = rotated(split_heads(q_proj_(hidden), heads_, head_dim_), q_layernorm_);
    const at::Tensor key = rotated(split_heads(k_proj_(hidden), key_value_heads_, head_dim_), k_layernorm_);
    const at::Tensor value = split_heads(v_proj_(hidden), key_value_heads_, head_dim_);
    AttentionResult result = cached_attention(kind, query, key, value, mask, cache, options_);
    return {dense_(result.output), std::move(result.probabilities)};
  }

 private:
  int64_t heads_;
  int64_t key_value_heads_;
  int64_t head_dim_;
  AttentionOptions options_;
  Linear q_proj_;
  Linear k_proj_;
  Linear v_proj_;
  Linear dense_;
  std::optional<LayerNorm> q_layernorm_;
  std::optional<LayerNorm> k_layernorm_;
};

class PhiDecoderLayer : public Module {
 public:
  PhiDecoderLayer(Scope scope, const LlamaLikeSpec& spec, bool norms)
      : Module(std::move(scope), "PhiDecoderLayer"),
        self_attn_(child("self_attn"), spec, norms),
        mlp_(child("mlp"), {"PhiMLP", spec.hidden_size, spec.intermediate_size, spec.activation, /*bias=*/true}, "fc1",
             "fc2"),
        input_layernorm_(child("input_layernorm"), spec.hidden_size, spec.norm_eps) {}

  AttentionResult operator()(const at::Tensor& hidden, const RotaryPositions& rotary, const CausalMask& mask,
                             CacheLayer* cache, AttentionKind kind) const {
    const auto scope = enter();
    const at::Tensor normed = input_layernorm_(hidden);
    AttentionResult attended = self_attn_(normed, rotary, mask, cache, kind);
    return {attended.output + mlp_(normed) + hidden, std::move(attended.probabilities)};
  }

 private:
  PhiAttention self_attn_;
  PlainMlp mlp_;
  LayerNorm input_layernorm_;
};

class PhiModel : public RotaryDecoder<PhiDecoderLayer> {
 public:
  PhiModel(Scope scope, const ModelConfig& config, const LlamaLikeSpec& spec)
      : RotaryDecoder(std::move(scope), kPhi, config, decoder_traits(spec)) {
    embeddings_.emplace(child("embed_tokens"), spec.vocab_size, spec.hidden_size, spec.pad_token_id);
    const bool norms = config.flag("qk_layernorm", false);
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      layers_.emplace_back(child(fmt::format("layers.{}", i)), spec, norms);
    }
    rotary_.emplace(child("rotary_emb"), "PhiRotaryEmbedding", spec.ropes.front().second);
    final_norm_.emplace(child("final_layernorm"), spec.hidden_size, spec.norm_eps);
  }
};

}  // namespace

std::unique_ptr<DecoderModel> make_phi(Scope scope, const ModelConfig& config) {
  return std::make_unique<PhiModel>(std::move(scope), config, read_phi(config));
}

}  // namespace exporters::models
