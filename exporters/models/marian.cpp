// Marian (Junczys-Dowmunt et al., 2018) as OPUS-MT trains it, and M2M-100 (Fan et al., 2020), which NLLB-200 is too.
#include "exporters/models/seq2seq_families.h"

namespace exporters::models {
BartLikeSpec marian_spec(const ModelConfig& config) {
  BartLikeDefaults defaults;
  defaults.vocab_size = 58101;
  defaults.pad_token_id = 58100;
  BartLikeSpec spec = read_bart_like("Marian", config, defaults);
  spec.decoder_vocab_size = config.size("decoder_vocab_size", spec.vocab_size);
  spec.scales_given_embeddings = true;
  spec.positions = BartLikePositions::kStoredSines;
  spec.positions_class = "SinusoidalPositionalEmbedding";
  spec.encoder_range = Float16Range::kLimitedIfNotFinite;
  return spec;
}

BartLikeSpec m2m_100_spec(const ModelConfig& config) {
  BartLikeDefaults defaults;
  defaults.vocab_size = 128112;
  defaults.activation = "relu";
  defaults.scale_embedding = true;
  BartLikeSpec spec = read_bart_like("M2M100", config, defaults);
  spec.norm_before = true;
  spec.final_norm = true;
  spec.positions = BartLikePositions::kSinesAfterPad;
  spec.positions_class = "SinusoidalPositionalEmbedding";
  spec.encoder_range = Float16Range::kLimited;
  return spec;
}

Seq2SeqTraits marian_traits(const ModelConfig& config) {
  Seq2SeqTraits traits =
      bart_like_traits(marian_spec(config), config, {.decoder_start_token_id = 58100, .eos_token_id = 0});
  traits.has_shared_embedding = config.flag("share_encoder_decoder_embeddings", true);
  return traits;
}

Seq2SeqTraits m2m_100_traits(const ModelConfig& config) { return bart_like_traits(m2m_100_spec(config), config, {}); }

}  // namespace exporters::models
