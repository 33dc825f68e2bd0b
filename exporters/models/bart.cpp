// BART: Denoising Sequence-to-Sequence Pre-training (Lewis et al., 2019), and mBART (Liu et al., 2020), which
// normalises before attention instead of after it.
#include "exporters/models/seq2seq_families.h"

namespace exporters::models {
BartLikeSpec bart_spec(const ModelConfig& config) {
  BartLikeSpec spec = read_bart_like("Bart", config, {});
  spec.embedding_norm = true;
  spec.positions_class = "LearnedPositionalEmbedding";
  spec.encoder_range = Float16Range::kLimitedIfNotFinite;
  return spec;
}

BartLikeSpec mbart_spec(const ModelConfig& config) {
  BartLikeSpec spec = read_bart_like("MBart", config, {});
  spec.norm_before = true;
  spec.embedding_norm = true;
  spec.final_norm = true;
  spec.positions_class = "LearnedPositionalEmbedding";
  spec.encoder_range = Float16Range::kLimited;
  return spec;
}

Seq2SeqTraits bart_traits(const ModelConfig& config) {
  return bart_like_traits(bart_spec(config), config, {.num_labels = 3});
}

KeyRules bart_key_rules() {
  KeyRules rules;
  rules.former_buffers = {"encoder.version", "decoder.version"};
  return rules;
}

Seq2SeqTraits mbart_traits(const ModelConfig& config) {
  return bart_like_traits(mbart_spec(config), config, {.decoder_start_token_id = {}});
}

}  // namespace exporters::models
