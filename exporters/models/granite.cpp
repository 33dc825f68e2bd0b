// Granite 3 (IBM, 2024): LLaMA with multipliers of embeddings, attention, residuals and logits.
#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"

namespace exporters::models {

std::unique_ptr<DecoderModel> make_granite(Scope scope, const ModelConfig& config) {
  LlamaLikeSpec spec = read_llama_like(config, {});
  spec.query_key_value_bias = config.flag("attention_bias", false);
  spec.attention_output_bias = spec.query_key_value_bias;
  spec.mlp_bias = config.flag("mlp_bias", false);
  spec.embedding_multiplier = config.number("embedding_multiplier", 1.0);
  spec.attention_scale = config.number("attention_multiplier", 1.0);
  spec.residual_multiplier = config.number("residual_multiplier", 1.0);
  spec.logits_scaling = config.number("logits_scaling", 1.0);
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  return std::make_unique<LlamaLikeModel>(std::move(scope), kGranite, config, std::move(spec));
}

}  // namespace exporters::models
