// OLMo 2 (OLMo Team, 2024): norms after attention and MLP, and of all queries and keys of a token.
#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"

namespace exporters::models {

std::unique_ptr<DecoderModel> make_olmo2(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 50304;
  defaults.norm_eps = 1e-5;
  defaults.pad_token_id = 1;
  LlamaLikeSpec spec = read_llama_like(config, defaults);
  spec.norm = RmsNormKind::kWeightInFloat32;
  spec.norm_placement = NormPlacement::kAfter;
  spec.query_key_norm = QueryKeyNorm::kProjection;
  spec.query_key_value_bias = config.flag("attention_bias", false);
  spec.attention_output_bias = spec.query_key_value_bias;
  spec.rotates_in_float32 = true;
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  return std::make_unique<LlamaLikeModel>(std::move(scope), kOlmo2, config, std::move(spec));
}

}  // namespace exporters::models
