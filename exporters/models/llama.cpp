// LLaMA: Open and Efficient Foundation Language Models (Touvron et al., 2023), also LLaMA 2 and 3.
#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"

#include <array>

namespace exporters::models {
namespace {

// `pretraining_tp` splits the same products differently and has not been read since version 4.
constexpr std::array kRules{
    FieldRule{"is_causal", "true", "attention without causality is"},
};

}  // namespace

std::unique_ptr<DecoderModel> make_llama(Scope scope, const ModelConfig& config) {
  LlamaLikeSpec spec = read_llama_like(config, {}, kRules);
  spec.query_key_value_bias = config.flag("attention_bias", false);
  spec.attention_output_bias = spec.query_key_value_bias;
  spec.mlp_bias = config.flag("mlp_bias", false);
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  return std::make_unique<LlamaLikeModel>(std::move(scope), kLlama, config, std::move(spec));
}

}  // namespace exporters::models
