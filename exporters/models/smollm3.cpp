// SmolLM3 (Hugging Face, 2025): LLaMA with layers that do not rotate.
#include "exporters/models/decoder_families.h"
#include "exporters/models/llama_like.h"
#include "exporters/support/json.h"

#include <fmt/format.h>

namespace exporters::models {
namespace {

/// Whether each layer rotates queries and keys: "no_rope_layers" holds 1 where it does.
std::vector<bool> rotating_layers(const ModelConfig& config, size_t count) {
  const auto interval = static_cast<size_t>(config.size("no_rope_layer_interval", 4));
  const auto field = JsonField(config.json(), config.where()).find("no_rope_layers");
  const std::vector<int64_t> given = field ? field->as_ints() : std::vector<int64_t>();
  if (field && given.size() < count) {
    field->fail_here(fmt::format("has {} entries, the model has {} layers", given.size(), count));
  }
  std::vector<bool> rotates(count);
  for (size_t i = 0; i < count; ++i) {
    rotates[i] = field ? given[i] != 0 : (i + 1) % interval != 0;
  }
  return rotates;
}

}  // namespace

std::unique_ptr<DecoderModel> make_smollm3(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 128256;
  defaults.hidden_size = 2048;
  defaults.num_hidden_layers = 36;
  defaults.num_attention_heads = 16;
  defaults.num_key_value_heads = 4;
  defaults.max_position_embeddings = 32768;
  defaults.pad_token_id = 128004;
  defaults.tie_word_embeddings = true;
  LlamaLikeSpec spec = read_llama_like(config, defaults);
  spec.returns_given_cache = false;
  spec.query_key_value_bias = config.flag("attention_bias", false);
  spec.attention_output_bias = spec.query_key_value_bias;
  spec.mlp_bias = config.flag("mlp_bias", false);

  const std::vector<bool> rotates = rotating_layers(config, spec.layers.size());
  const std::optional<int64_t> window = config.optional_integer("sliding_window", std::nullopt);
  const bool uses_window = config.flag("use_sliding_window", false) && window.has_value();
  read_layer_types(spec, config, window, [&](size_t i) { return uses_window && !rotates[i]; });
  for (size_t i = 0; i < rotates.size(); ++i) {
    spec.layers[i].rope = rotates[i] ? std::optional<size_t>(0) : std::nullopt;
  }
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec, 2'000'000.0))}};
  return std::make_unique<LlamaLikeModel>(std::move(scope), kSmolLm3, config, std::move(spec));
}

}  // namespace exporters::models
