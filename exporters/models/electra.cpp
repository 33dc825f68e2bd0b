// ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators (Clark et al., 2020): BERT without
// pooling layer, with embeddings of a width of their own.
#include "exporters/models/bert_decoder.h"
#include "exporters/models/encoder_families.h"
#include "exporters/support/error.h"

#include <array>

namespace exporters::models {
namespace {

constexpr std::array kRules{
    FieldRule{"summary_proj_to_labels", "false", "a summary of the extent of the labels is"},
};

BertLikeSpec spec_of(const ModelConfig& config) {
  BertLikeDefaults defaults;
  defaults.hidden_size = 256;
  defaults.num_attention_heads = 4;
  defaults.intermediate_size = 1024;
  defaults.can_be_decoder = true;
  BertLikeSpec spec = read_bert_like(config, defaults, kRules);
  spec.embeddings.class_name = "ElectraEmbeddings";
  spec.embeddings.width = config.size("embedding_size", 128);
  if (spec.embeddings.width != spec.hidden_size) {
    spec.projection = "embeddings_project";
  }
  return spec;
}

HeadInput summary_input(const ModelConfig& config) {
  const std::string type = config.string("summary_type", "first");
  if (type == "first") {
    return HeadInput::kFirst;
  }
  if (type == "mean") {
    return HeadInput::kMean;
  }
  // Without an index, "cls_index" means the last token.
  if (type == "last" || type == "cls_index") {
    return HeadInput::kLast;
  }
  throw Error(fmt::format("config field \"summary_type\" is \"{}\", which is not supported", type), config.where(),
              "Known are: first, last, mean, cls_index");
}

HeadSpec choice_head(const ModelConfig& config, const BertLikeSpec& spec) {
  const std::string name = config.string("summary_activation", "gelu");
  const Activation after = name.empty() ? nullptr : activation(name);
  HeadSpec head = dense_head(summary_input(config), spec.hidden_size, "sequence_summary.summary", spec.hidden_size);
  if (!config.flag("summary_use_proj", true)) {
    head.layers.front().name.clear();
  }
  head.layers.front().activation = after;
  head.layers.push_back({.name = "classifier", .out_features = 1});
  return head;
}

}  // namespace

std::unique_ptr<EncoderModel> make_electra(Scope scope, const ModelConfig& config, bool with_pooler) {
  return std::make_unique<BertLikeModel>(std::move(scope), kElectra, config, spec_of(config), with_pooler);
}

std::vector<HeadSpec> electra_heads(EncoderTask task, const ModelConfig& config) {
  const BertLikeSpec spec = spec_of(config);
  const int64_t hidden = spec.hidden_size;
  switch (task) {
    case EncoderTask::kPreTraining: {
      HeadSpec head = dense_head(HeadInput::kEach, hidden, "discriminator_predictions.dense", hidden);
      head.layers.front().activation = spec.activation;
      head.layers.push_back({.name = "discriminator_predictions.dense_prediction", .out_features = 1});
      head.squeezes = true;
      return {std::move(head)};
    }
    case EncoderTask::kMaskedLM: {
      HeadSpec head = language_model_head(hidden, spec.embeddings.width, spec.embeddings.vocab_size,
                                          {.dense = "generator_predictions.dense",
                                           .norm = "generator_predictions.LayerNorm",
                                           .decoder = "generator_lm_head"},
                                          activation("gelu"), spec.eps);
      head.norms_first = true;
      return {std::move(head)};
    }
    case EncoderTask::kSequenceClassification:
      return {
          first_token_head(hidden, "classifier.dense", activation("gelu"), "classifier.out_proj", config.num_labels())};
    case EncoderTask::kMultipleChoice:
      return {choice_head(config, spec)};
    default:
      return {token_head(task, hidden, config)};
  }
}

std::unique_ptr<PreTrainedModel> make_electra_lm(const ModelConfig& config) {
  return std::make_unique<BertLikeForCausalLM>("ForCausalLM", kElectra, config, spec_of(config));
}

}  // namespace exporters::models
