// Qwen2 and Qwen3 (Qwen Team, 2024 and 2025).
#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"

namespace exporters::models {
namespace {

LlamaLikeSpec read_qwen(const ModelConfig& config, std::optional<int64_t> head_dim) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 151936;
  defaults.intermediate_size = 22016;
  defaults.num_key_value_heads = 32;
  defaults.head_dim = head_dim;
  defaults.max_position_embeddings = 32768;
  LlamaLikeSpec spec = read_llama_like(config, defaults);
  spec.returns_given_cache = false;
  std::optional<int64_t> window;
  if (config.flag("use_sliding_window", false)) {
    window = config.optional_integer("sliding_window", 4096);
  }
  const int64_t first = config.integer("max_window_layers", 28);
  read_layer_types(spec, config, window,
                   [&](size_t i) { return window.has_value() && static_cast<int64_t>(i) >= first; });
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  return spec;
}

}  // namespace

std::unique_ptr<DecoderModel> make_qwen2(Scope scope, const ModelConfig& config) {
  LlamaLikeSpec spec = read_qwen(config, {});
  spec.query_key_value_bias = true;
  return std::make_unique<LlamaLikeModel>(std::move(scope), kQwen2, config, std::move(spec));
}

std::unique_ptr<DecoderModel> make_qwen3(Scope scope, const ModelConfig& config) {
  LlamaLikeSpec spec = read_qwen(config, 128);
  spec.query_key_value_bias = config.flag("attention_bias", false);
  spec.attention_output_bias = spec.query_key_value_bias;
  spec.query_key_norm = QueryKeyNorm::kPerHead;
  return std::make_unique<LlamaLikeModel>(std::move(scope), kQwen3, config, std::move(spec));
}

}  // namespace exporters::models
