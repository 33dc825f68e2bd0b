// Gemma (2024), Gemma 2 (2024) and the text models of Gemma 3 (2025), Google DeepMind.
#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>

namespace exporters::models {
namespace {

constexpr std::array kRules{
    FieldRule{"use_bidirectional_attention", "false", "attention without causality is"},
};

// What the three have in common.
LlamaLikeSpec read_gemma(const ModelConfig& config, LlamaLikeDefaults defaults) {
  defaults.head_dim = 256;
  defaults.pad_token_id = 0;
  defaults.tie_word_embeddings = true;
  defaults.activation = "gelu_pytorch_tanh";
  LlamaLikeSpec spec = read_llama_like(config, defaults, kRules);
  spec.norm = RmsNormKind::kOnePlusWeight;
  spec.query_key_value_bias = config.flag("attention_bias", false);
  spec.attention_output_bias = spec.query_key_value_bias;
  spec.embedding_scale = std::sqrt(static_cast<double>(spec.hidden_size));
  return spec;
}

// What Gemma 2 and 3 have in common.
LlamaLikeSpec read_later_gemma(const ModelConfig& config, int64_t vocab_size, int64_t max_position_embeddings,
                               int64_t sliding_window_pattern) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = vocab_size;
  defaults.hidden_size = 2304;
  defaults.intermediate_size = 9216;
  defaults.num_hidden_layers = 26;
  defaults.num_attention_heads = 8;
  defaults.num_key_value_heads = 4;
  defaults.max_position_embeddings = max_position_embeddings;
  defaults.activation_field = "hidden_activation";
  LlamaLikeSpec spec = read_gemma(config, defaults);
  spec.norm_placement = NormPlacement::kAround;
  spec.attention_scale = 1.0 / std::sqrt(static_cast<double>(config.size("query_pre_attn_scalar", 256)));
  const auto pattern = static_cast<size_t>(sliding_window_pattern);
  read_layer_types(spec, config, config.optional_integer("sliding_window", 4096),
                   [&](size_t i) { return (i + 1) % pattern != 0; });
  return spec;
}

// Gemma 3 has a rope for each kind of layer; older configs say so with rope_theta, rope_scaling (both of the layers
// that see everything) and rope_local_base_freq.
RopeParameters full_rope(const ModelConfig& config, const LlamaLikeSpec& spec) {
  const RopeDefaults defaults = rope_defaults(spec, config.number("rope_theta", 1'000'000.0));
  if (!config.has("rope_parameters")) {
    return read_rope_parameters(config, defaults);
  }
  const JsonField by_type = JsonField(config.json(), config.where()).at("rope_parameters");
  if (config.has("rope_scaling") || by_type.has("rope_type") || by_type.has("rope_theta")) {
    by_type.fail_here(
        "is not one object for each of full_attention and sliding_attention, or stands beside rope_scaling");
  }
  return read_rope_parameters(config, "full_attention", defaults);
}

RopeParameters sliding_rope(const ModelConfig& config, const LlamaLikeSpec& spec) {
  return read_rope_parameters(config, "sliding_attention",
                              rope_defaults(spec, config.number("rope_local_base_freq", 10'000.0)));
}

void add_ropes(LlamaLikeSpec& spec, const ModelConfig& config) {
  std::optional<size_t> full;
  std::optional<size_t> sliding;
  const auto add = [&](const char* type, RopeParameters parameters) {
    spec.ropes.emplace_back(type, std::move(parameters));
    return spec.ropes.size() - 1;
  };
  const auto any = [&](bool is_sliding) {
    return std::any_of(spec.layers.begin(), spec.layers.end(),
                       [&](const LlamaLikeLayer& layer) { return layer.sliding_window.has_value() == is_sliding; });
  };
  if (any(false)) {
    full = add("full_attention", full_rope(config, spec));
  }
  if (any(true)) {
    sliding = add("sliding_attention", sliding_rope(config, spec));
  }
  for (LlamaLikeLayer& layer : spec.layers) {
    layer.rope = layer.sliding_window ? sliding : full;
  }
}

}  // namespace

std::unique_ptr<DecoderModel> make_gemma(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 256000;
  defaults.hidden_size = 3072;
  defaults.intermediate_size = 24576;
  defaults.num_hidden_layers = 28;
  defaults.num_attention_heads = 16;
  defaults.num_key_value_heads = 16;
  defaults.max_position_embeddings = 8192;
  LlamaLikeSpec spec = read_gemma(config, defaults);
  if (config.string("hidden_act", "") == "gelu") {
    spec.activation = activation("gelu_pytorch_tanh");  // what the first checkpoints mean by it
  }
  spec.returns_given_cache = false;
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  return std::make_unique<LlamaLikeModel>(std::move(scope), kGemma, config, std::move(spec));
}

std::unique_ptr<DecoderModel> make_gemma2(Scope scope, const ModelConfig& config) {
  LlamaLikeSpec spec = read_later_gemma(config, 256000, 8192, 2);
  spec.attention_softcap = config.optional_number("attn_logit_softcapping", 50.0);
  spec.final_logit_softcap = config.optional_number("final_logit_softcapping", 30.0);
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  return std::make_unique<LlamaLikeModel>(std::move(scope), kGemma2, config, std::move(spec));
}

// attn_logit_softcapping is a field of Gemma 3's config that its attention does not read.
std::unique_ptr<DecoderModel> make_gemma3_text(Scope scope, const ModelConfig& config) {
  LlamaLikeSpec spec = read_later_gemma(config, 262'208, 131'072, config.size("sliding_window_pattern", 6));
  spec.query_key_norm = QueryKeyNorm::kPerHead;
  spec.final_logit_softcap = config.optional_number("final_logit_softcapping", std::nullopt);
  add_ropes(spec, config);
  return std::make_unique<LlamaLikeModel>(std::move(scope), kGemma3, config, std::move(spec));
}

}  // namespace exporters::models
