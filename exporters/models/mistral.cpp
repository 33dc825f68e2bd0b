// Mistral 7B (Jiang et al., 2023): LLaMA with a sliding window in every layer.
#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"

#include <array>

namespace exporters::models {
namespace {

constexpr std::array kRules{
    FieldRule{"layer_types", "", "layers with attention of different kinds are"},
};

}  // namespace

std::unique_ptr<DecoderModel> make_mistral(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.intermediate_size = 14336;
  defaults.num_key_value_heads = 8;
  defaults.max_position_embeddings = 4096 * 32;
  LlamaLikeSpec spec = read_llama_like(config, defaults, kRules);
  spec.returns_given_cache = false;
  slide_all(spec, config, config.optional_integer("sliding_window", 4096));
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  return std::make_unique<LlamaLikeModel>(std::move(scope), kMistral, config, std::move(spec));
}

}  // namespace exporters::models
