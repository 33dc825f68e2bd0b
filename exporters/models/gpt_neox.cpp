// GPT-NeoX-20B (Black et al., 2022), also Pythia: attention and MLP beside each other, heads rotated in part.
#include "exporters/models/decoder_families.h"
#include "exporters/models/layers/cached_attention.h"
#include "exporters/models/layers/mlp.h"
#include "exporters/models/operators.h"
#include "exporters/models/rotary_decoder.h"
#include "exporters/support/error.h"

#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

struct NeoXConfig {
  explicit NeoXConfig(const ModelConfig& config)
      : vocab_size(config.size("vocab_size", 50432)),
        hidden_size(config.size("hidden_size", 6144)),
        num_layers(config.size("num_hidden_layers", 44, 1, kMaxLayers)),
        num_heads(config.size("num_attention_heads", 64)),
        intermediate_size(config.size("intermediate_size", 24576)),
        activation(models::activation(config.string("hidden_act", "gelu"))),
        layer_norm_eps(config.number("layer_norm_eps", 1e-5)),
        attention_bias(config.flag("attention_bias", true)),
        parallel_residual(config.flag("use_parallel_residual", true)) {
    if (hidden_size % num_heads != 0) {
      throw Error(fmt::format("config field \"hidden_size\" is {}, not a multiple of \"num_attention_heads\", {}",
                              hidden_size, num_heads),
                  config.where());
    }
    RopeDefaults defaults;
    defaults.head_dim = hidden_size / num_heads;
    defaults.max_position_embeddings = config.size("max_position_embeddings", 2048);
    defaults.theta = config.number("rotary_emb_base", 10000.0);
    defaults.partial = true;
    defaults.partial_rotary_factor = config.number("rotary_pct", 0.25);
    rope = read_rope_parameters(config, defaults);
  }

  int64_t vocab_size;
  int64_t hidden_size;
  int64_t num_layers;
  int64_t num_heads;
  int64_t intermediate_size;
  Activation activation;
  double layer_norm_eps;
  bool attention_bias;
  bool parallel_residual;
  RopeParameters rope;
};

DecoderTraits traits_of(const NeoXConfig& neox, const ModelConfig& config) {
  DecoderTraits traits;
  traits.vocab_size = neox.vocab_size;
  traits.hidden_size = neox.hidden_size;
  traits.num_key_value_heads = neox.num_heads;
  traits.head_dim = neox.hidden_size / neox.num_heads;
  traits.sliding_windows.resize(static_cast<size_t>(neox.num_layers));
  traits.pad_token_id = config.optional_integer("pad_token_id", std::nullopt);
  traits.tie_word_embeddings = config.flag("tie_word_embeddings", false);
  traits.returns_given_cache = true;
  return traits;
}

// query_key_value holds query, key and value of one head, then those of the next.
class NeoXAttention : public Module {
 public:
  NeoXAttention(Scope scope, const NeoXConfig& config)
      : Module(std::move(scope), "GPTNeoXAttention"),
        heads_(config.num_heads),
        head_dim_(config.hidden_size / config.num_heads),
        query_key_value_(child("query_key_value"), config.hidden_size, 3 * config.hidden_size, config.attention_bias),
        dense_(child("dense"), config.hidden_size, config.hidden_size, config.attention_bias) {
    options_.scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
    options_.softmax_in_float32 = true;
  }

  AttentionResult operator()(const at::Tensor& hidden, const RotaryPositions& rotary, const CausalMask& mask,
                             CacheLayer* cache, AttentionKind kind) const {
    const auto scope = enter();
    const at::Tensor all = split_heads(query_key_value_(hidden), heads_, 3 * head_dim_);
    const at::Tensor query = apply_rotary(all.slice(-1, 0, head_dim_), rotary);
    const at::Tensor key = apply_rotary(all.slice(-1, head_dim_, 2 * head_dim_), rotary);
    const at::Tensor value = all.slice(-1, 2 * head_dim_, 3 * head_dim_);
    AttentionResult result = cached_attention(kind, query, key, value, mask, cache, options_);
    return {dense_(result.output), std::move(result.probabilities)};
  }

 private:
  int64_t heads_;
  int64_t head_dim_;
  AttentionOptions options_;
  Linear query_key_value_;
  Linear dense_;
};

class NeoXLayer : public Module {
 public:
  NeoXLayer(Scope scope, const NeoXConfig& config)
      : Module(std::move(scope), "GPTNeoXLayer"),
        parallel_(config.parallel_residual),
        input_layernorm_(child("input_layernorm"), config.hidden_size, config.layer_norm_eps),
        post_attention_layernorm_(child("post_attention_layernorm"), config.hidden_size, config.layer_norm_eps),
        attention_(child("attention"), config),
        mlp_(child("mlp"),
             {"GPTNeoXMLP", config.hidden_size, config.intermediate_size, config.activation, /*bias=*/true},
             "dense_h_to_4h", "dense_4h_to_h") {}

  AttentionResult operator()(const at::Tensor& hidden, const RotaryPositions& rotary, const CausalMask& mask,
                             CacheLayer* cache, AttentionKind kind) const {
    const auto scope = enter();
    AttentionResult attended = attention_(input_layernorm_(hidden), rotary, mask, cache, kind);
    at::Tensor output;
    if (parallel_) {
      output = mlp_(post_attention_layernorm_(hidden)) + attended.output + hidden;
    } else {
      const at::Tensor middle = attended.output + hidden;
      output = mlp_(post_attention_layernorm_(middle)) + middle;
    }
    return {output, std::move(attended.probabilities)};
  }

 private:
  bool parallel_;
  LayerNorm input_layernorm_;
  LayerNorm post_attention_layernorm_;
  NeoXAttention attention_;
  PlainMlp mlp_;
};

class NeoXModel : public RotaryDecoder<NeoXLayer> {
 public:
  NeoXModel(Scope scope, const ModelConfig& config, const NeoXConfig& neox)
      : RotaryDecoder(std::move(scope), kGptNeoX, config, traits_of(neox, config)) {
    embeddings_.emplace(child("embed_in"), neox.vocab_size, neox.hidden_size);
    for (int64_t i = 0; i < neox.num_layers; ++i) {
      layers_.emplace_back(child(fmt::format("layers.{}", i)), neox);
    }
    final_norm_.emplace(child("final_layer_norm"), neox.hidden_size, neox.layer_norm_eps);
    rotary_.emplace(child("rotary_emb"), "GPTNeoXRotaryEmbedding", neox.rope);
  }
};

}  // namespace

std::unique_ptr<DecoderModel> make_gpt_neox(Scope scope, const ModelConfig& config) {
  return std::make_unique<NeoXModel>(std::move(scope), config, NeoXConfig(config));
}

}  // namespace exporters::models
