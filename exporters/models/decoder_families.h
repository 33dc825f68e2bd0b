#pragma once

#include "exporters/models/decoder.h"

#include <memory>

namespace exporters::models {

// The decoder-only families: what the reference calls their parts, and how their bare model is made from a config.
// make_… throws Error for values that change the computation in a way that is not implemented.

inline constexpr DecoderFamily kLlama{.prefix = "Llama", .base_in_question_answering = "transformer"};
std::unique_ptr<DecoderModel> make_llama(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kMistral{.prefix = "Mistral"};
std::unique_ptr<DecoderModel> make_mistral(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kQwen2{.prefix = "Qwen2", .base_in_question_answering = "transformer"};
std::unique_ptr<DecoderModel> make_qwen2(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kQwen3{.prefix = "Qwen3", .base_in_question_answering = "transformer"};
std::unique_ptr<DecoderModel> make_qwen3(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kPhi3{.prefix = "Phi3"};
std::unique_ptr<DecoderModel> make_phi3(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kGemma{.prefix = "Gemma"};
std::unique_ptr<DecoderModel> make_gemma(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kGemma2{.prefix = "Gemma2"};
std::unique_ptr<DecoderModel> make_gemma2(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kGemma3{.prefix = "Gemma3", .model_class = "TextModel"};
std::unique_ptr<DecoderModel> make_gemma3_text(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kOlmo2{.prefix = "Olmo2"};
std::unique_ptr<DecoderModel> make_olmo2(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kGranite{.prefix = "Granite"};
std::unique_ptr<DecoderModel> make_granite(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kSmolLm3{.prefix = "SmolLM3", .base_in_question_answering = "transformer"};
std::unique_ptr<DecoderModel> make_smollm3(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kStarcoder2{.prefix = "Starcoder2"};
std::unique_ptr<DecoderModel> make_starcoder2(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kGpt2{.prefix = "GPT2",
                                     .base = "transformer",
                                     .base_in_question_answering = "transformer",
                                     .embeddings = "wte",
                                     .former_buffers = {"attn.bias", "attn.masked_bias"},
                                     .causal_lm_class = "LMHeadModel",
                                     .base_output = "BaseModelOutputWithPastAndCrossAttentions",
                                     .causal_lm_output = "CausalLMOutputWithCrossAttentions",
                                     .lists_cross_attentions = true};
std::unique_ptr<DecoderModel> make_gpt2(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kGptNeoX{.prefix = "GPTNeoX",
                                        .base = "gpt_neox",
                                        .base_in_question_answering = "gpt_neox",
                                        .embeddings = "embed_in",
                                        .former_lm_head = "embed_out",
                                        .former_buffers = {"attention.bias", "attention.masked_bias"}};
std::unique_ptr<DecoderModel> make_gpt_neox(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kOpt{.prefix = "OPT", .embeddings = "decoder.embed_tokens"};
std::unique_ptr<DecoderModel> make_opt(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kPhi{.prefix = "Phi", .lm_head_bias = true};
std::unique_ptr<DecoderModel> make_phi(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kMixtral{
    .prefix = "Mixtral", .base_output = "MoeModelOutputWithPast", .causal_lm_output = "MoeCausalLMOutputWithPast"};
std::unique_ptr<DecoderModel> make_mixtral(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kQwen2Moe{
    .prefix = "Qwen2Moe", .base_output = "MoeModelOutputWithPast", .causal_lm_output = "MoeCausalLMOutputWithPast"};
std::unique_ptr<DecoderModel> make_qwen2_moe(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kQwen3Moe{.prefix = "Qwen3Moe",
                                         .base_in_question_answering = "transformer",
                                         .base_output = "MoeModelOutputWithPast",
                                         .causal_lm_output = "MoeCausalLMOutputWithPast"};
std::unique_ptr<DecoderModel> make_qwen3_moe(Scope scope, const ModelConfig& config);

inline constexpr DecoderFamily kGptOss{
    .prefix = "GptOss", .base_output = "MoeModelOutputWithPast", .causal_lm_output = "MoeCausalLMOutputWithPast"};
std::unique_ptr<DecoderModel> make_gpt_oss(Scope scope, const ModelConfig& config);

// A recurrent one.
std::unique_ptr<PreTrainedModel> make_mamba(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_mamba_lm(const ModelConfig& config);

}  // namespace exporters::models
