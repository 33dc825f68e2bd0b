#pragma once

#include "exporters/models/encoder.h"

#include <memory>
#include <vector>

namespace exporters::models {

// The text encoders: what the reference calls their parts, how their bare model is made from a config, and their heads.

std::unique_ptr<EncoderModel> make_bert(Scope scope, const ModelConfig& config, bool with_pooler);
std::vector<HeadSpec> bert_heads(EncoderTask task, const ModelConfig& config);
inline constexpr EncoderFamily kBert{.prefix = "Bert",
                                     .base = "bert",
                                     .make = make_bert,
                                     .heads = bert_heads,
                                     .base_output = "BaseModelOutputWithPoolingAndCrossAttentions",
                                     .pooler = "pooler.dense",
                                     .can_be_decoder = true};

std::unique_ptr<EncoderModel> make_roberta(Scope scope, const ModelConfig& config, bool with_pooler);
std::vector<HeadSpec> roberta_heads(EncoderTask task, const ModelConfig& config);
inline constexpr EncoderFamily kRoberta{.prefix = "Roberta",
                                        .base = "roberta",
                                        .make = make_roberta,
                                        .heads = roberta_heads,
                                        .base_output = "BaseModelOutputWithPoolingAndCrossAttentions",
                                        .pooler = "pooler.dense",
                                        .can_be_decoder = true};

std::unique_ptr<EncoderModel> make_xlm_roberta(Scope scope, const ModelConfig& config, bool with_pooler);
inline constexpr EncoderFamily kXlmRoberta{.prefix = "XLMRoberta",
                                           .base = "roberta",
                                           .make = make_xlm_roberta,
                                           .heads = roberta_heads,
                                           .base_output = "BaseModelOutputWithPoolingAndCrossAttentions",
                                           .pooler = "pooler.dense",
                                           .heads_first = true,
                                           .can_be_decoder = true};

std::unique_ptr<EncoderModel> make_camembert(Scope scope, const ModelConfig& config, bool with_pooler);
inline constexpr EncoderFamily kCamembert{.prefix = "Camembert",
                                          .base = "roberta",
                                          .make = make_camembert,
                                          .heads = roberta_heads,
                                          .base_output = "BaseModelOutputWithPoolingAndCrossAttentions",
                                          .pooler = "pooler.dense",
                                          .heads_first = true,
                                          .can_be_decoder = true};

std::unique_ptr<EncoderModel> make_distilbert(Scope scope, const ModelConfig& config, bool with_pooler);
std::vector<HeadSpec> distilbert_heads(EncoderTask task, const ModelConfig& config);
inline constexpr EncoderFamily kDistilBert{
    .prefix = "DistilBert", .base = "distilbert", .make = make_distilbert, .heads = distilbert_heads};

std::unique_ptr<EncoderModel> make_electra(Scope scope, const ModelConfig& config, bool with_pooler);
std::vector<HeadSpec> electra_heads(EncoderTask task, const ModelConfig& config);
inline constexpr EncoderFamily kElectra{.prefix = "Electra",
                                        .base = "electra",
                                        .make = make_electra,
                                        .heads = electra_heads,
                                        .base_output = "BaseModelOutputWithPastAndCrossAttentions",
                                        .can_be_decoder = true};

std::unique_ptr<EncoderModel> make_mpnet(Scope scope, const ModelConfig& config, bool with_pooler);
std::vector<HeadSpec> mpnet_heads(EncoderTask task, const ModelConfig& config);
inline constexpr EncoderFamily kMpnet{.prefix = "MPNet",
                                      .base = "mpnet",
                                      .make = make_mpnet,
                                      .heads = mpnet_heads,
                                      .base_output = "BaseModelOutputWithPooling",
                                      .pooler = "pooler.dense"};

std::unique_ptr<EncoderModel> make_albert(Scope scope, const ModelConfig& config, bool with_pooler);
std::vector<HeadSpec> albert_heads(EncoderTask task, const ModelConfig& config);
inline constexpr EncoderFamily kAlbert{.prefix = "Albert",
                                       .base = "albert",
                                       .make = make_albert,
                                       .heads = albert_heads,
                                       .base_output = "BaseModelOutputWithPooling",
                                       .pooler = "pooler"};

std::unique_ptr<EncoderModel> make_deberta_v2(Scope scope, const ModelConfig& config, bool with_pooler);
std::vector<HeadSpec> deberta_v2_heads(EncoderTask task, const ModelConfig& config);
inline constexpr EncoderFamily kDebertaV2{.prefix = "DebertaV2",
                                          .base = "deberta",
                                          .make = make_deberta_v2,
                                          .heads = deberta_v2_heads,
                                          .former_buffer = "position_embeddings.weight"};

std::unique_ptr<EncoderModel> make_modernbert(Scope scope, const ModelConfig& config, bool with_pooler);
std::vector<HeadSpec> modernbert_heads(EncoderTask task, const ModelConfig& config);
inline constexpr EncoderFamily kModernBert{.prefix = "ModernBert",
                                           .base = "model",
                                           .make = make_modernbert,
                                           .heads = modernbert_heads,
                                           .word_embeddings = "embeddings.tok_embeddings"};

}  // namespace exporters::models
