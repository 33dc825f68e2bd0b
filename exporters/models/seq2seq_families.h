#pragma once

#include "exporters/models/bart_like.h"
#include "exporters/models/seq2seq.h"

#include <memory>

namespace exporters::models {

// The encoder-decoder families: what the reference calls their parts, and how they are made from a config.

Seq2SeqTraits t5_traits(const ModelConfig& config);
std::unique_ptr<EncoderStack> make_t5_encoder(Scope scope, const ModelConfig& config);
std::unique_ptr<DecoderStack> make_t5_decoder(Scope scope, const ModelConfig& config, bool with_encoder);
KeyRules t5_key_rules();

inline constexpr Seq2SeqFamily kT5{.prefix = "T5",
                                   .base = "transformer",
                                   .is_flat = true,
                                   .traits = t5_traits,
                                   .make_encoder = make_t5_encoder,
                                   .make_decoder = make_t5_decoder,
                                   .key_rules = t5_key_rules,
                                   .shift_right = shift_right_from_start};

Seq2SeqTraits mt5_traits(const ModelConfig& config);
std::unique_ptr<EncoderStack> make_mt5_encoder(Scope scope, const ModelConfig& config);
std::unique_ptr<DecoderStack> make_mt5_decoder(Scope scope, const ModelConfig& config, bool with_encoder);

inline constexpr Seq2SeqFamily kMt5{.prefix = "MT5",
                                    .base = "transformer",
                                    .is_flat = true,
                                    .traits = mt5_traits,
                                    .make_encoder = make_mt5_encoder,
                                    .make_decoder = make_mt5_decoder,
                                    .key_rules = t5_key_rules,
                                    .shift_right = shift_right_from_start};

BartLikeSpec bart_spec(const ModelConfig& config);
Seq2SeqTraits bart_traits(const ModelConfig& config);
KeyRules bart_key_rules();

inline constexpr Seq2SeqFamily kBart{.prefix = "Bart",
                                     .has_logits_bias = true,
                                     .model_shifts_inputs = true,
                                     .traits = bart_traits,
                                     .make_encoder = make_bart_like_encoder<bart_spec>,
                                     .make_decoder = make_bart_like_decoder<bart_spec>,
                                     .key_rules = bart_key_rules,
                                     .shift_right = shift_right_from_start};

BartLikeSpec mbart_spec(const ModelConfig& config);
Seq2SeqTraits mbart_traits(const ModelConfig& config);

inline constexpr Seq2SeqFamily kMBart{.prefix = "MBart",
                                      .has_logits_bias = true,
                                      .model_shifts_inputs = true,
                                      .traits = mbart_traits,
                                      .make_encoder = make_bart_like_encoder<mbart_spec>,
                                      .make_decoder = make_bart_like_decoder<mbart_spec>,
                                      .shift_right = shift_right_from_last};

BartLikeSpec marian_spec(const ModelConfig& config);
Seq2SeqTraits marian_traits(const ModelConfig& config);

inline constexpr Seq2SeqFamily kMarian{.prefix = "Marian",
                                       .conditional_generation_class = "MTModel",
                                       .has_logits_bias = true,
                                       .traits = marian_traits,
                                       .make_encoder = make_bart_like_encoder<marian_spec>,
                                       .make_decoder = make_bart_like_decoder<marian_spec>};

BartLikeSpec m2m_100_spec(const ModelConfig& config);
Seq2SeqTraits m2m_100_traits(const ModelConfig& config);

inline constexpr Seq2SeqFamily kM2M100{.prefix = "M2M100",
                                       .traits = m2m_100_traits,
                                       .make_encoder = make_bart_like_encoder<m2m_100_spec>,
                                       .make_decoder = make_bart_like_decoder<m2m_100_spec>};

BartLikeSpec nllb_moe_spec(const ModelConfig& config);
Seq2SeqTraits nllb_moe_traits(const ModelConfig& config);

inline constexpr Seq2SeqFamily kNllbMoe{.prefix = "NllbMoe",
                                        .model_output = "Seq2SeqMoEModelOutput",
                                        .lm_output = "Seq2SeqMoEOutput",
                                        .traits = nllb_moe_traits,
                                        .make_encoder = make_bart_like_encoder<nllb_moe_spec>,
                                        .make_decoder = make_bart_like_decoder<nllb_moe_spec>};

Seq2SeqTraits whisper_traits(const ModelConfig& config);
std::unique_ptr<EncoderStack> make_whisper_encoder(Scope scope, const ModelConfig& config);
std::unique_ptr<DecoderStack> make_whisper_decoder(Scope scope, const ModelConfig& config, bool with_encoder);

inline constexpr Seq2SeqFamily kWhisper{.prefix = "Whisper",
                                        .lm_head = "proj_out",
                                        .decoder_takes_outputs = true,
                                        .traits = whisper_traits,
                                        .make_encoder = make_whisper_encoder,
                                        .make_decoder = make_whisper_decoder};

}  // namespace exporters::models
