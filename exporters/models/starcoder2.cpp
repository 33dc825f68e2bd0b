// StarCoder 2 (Lozhkov et al., 2024): layer norms and a plain MLP.
#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"

namespace exporters::models {

std::unique_ptr<DecoderModel> make_starcoder2(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 49152;
  defaults.hidden_size = 3072;
  defaults.intermediate_size = 12288;
  defaults.num_hidden_layers = 30;
  defaults.num_attention_heads = 24;
  defaults.num_key_value_heads = 2;
  defaults.max_position_embeddings = 4096;
  defaults.norm_eps_field = "norm_epsilon";
  defaults.norm_eps = 1e-5;
  defaults.activation = "gelu_pytorch_tanh";
  defaults.tie_word_embeddings = true;
  LlamaLikeSpec spec = read_llama_like(config, defaults);
  spec.returns_given_cache = false;
  spec.norm.reset();
  spec.mlp = MlpKind::kPlain;
  spec.mlp_bias = config.flag("use_bias", true);
  spec.query_key_value_bias = spec.mlp_bias;
  spec.attention_output_bias = spec.mlp_bias;
  slide_all(spec, config, config.optional_integer("sliding_window", std::nullopt));
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  return std::make_unique<LlamaLikeModel>(std::move(scope), kStarcoder2, config, std::move(spec));
}

}  // namespace exporters::models
