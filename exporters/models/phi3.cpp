// Phi-3 (Microsoft, 2024): LLaMA with fused projections and LongRoPE.
#include "exporters/models/phi3.h"

#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

namespace exporters::models {
namespace {

LlamaLikeSpec phi3_spec(const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 32064;
  defaults.hidden_size = 3072;
  defaults.intermediate_size = 8192;
  defaults.max_position_embeddings = 4096;
  defaults.norm_eps = 1e-5;
  defaults.pad_token_id = 32000;
  LlamaLikeSpec spec = read_llama_like(config, defaults);
  spec.returns_given_cache = false;
  spec.fused_query_key_value = true;
  spec.mlp = MlpKind::kFusedGated;
  slide_all(spec, config, config.optional_integer("sliding_window", std::nullopt));

  RopeDefaults rope = rope_defaults(spec);
  rope.partial = true;
  rope.original_max_position_embeddings = 4096;
  rope.aliases = {{"su", "longrope"}, {"yarn", "longrope"}};
  spec.ropes = {{"", read_rope_parameters(config, rope)}};
  const std::string& type = spec.ropes.front().second.type;
  if (type != "default" && type != "longrope") {
    throw Error(fmt::format("rope type {} is not one of phi3's", quote(type)), config.where(),
                "They are: default, longrope");
  }
  return spec;
}

}  // namespace

std::unique_ptr<DecoderModel> make_phi3(Scope scope, const ModelConfig& config) {
  return std::make_unique<LlamaLikeModel>(std::move(scope), kPhi3, config, phi3_spec(config));
}

std::optional<int64_t> phi3_cache_boundary(const ModelConfig& config) {
  const RopeParameters rope = phi3_spec(config).ropes.front().second;
  return rope.type == "longrope" ? std::optional(rope.original_max_position_embeddings) : std::nullopt;
}

}  // namespace exporters::models
