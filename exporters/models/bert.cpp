// BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2018), as an
// encoder.
#include "exporters/models/bert_decoder.h"
#include "exporters/models/encoder_families.h"

namespace exporters::models {
namespace {

BertLikeSpec spec_of(const ModelConfig& config) {
  BertLikeDefaults defaults;
  defaults.can_be_decoder = true;
  BertLikeSpec spec = read_bert_like(config, defaults);
  spec.embeddings.class_name = "BertEmbeddings";
  return spec;
}

HeadSpec words(const BertLikeSpec& spec) {
  return language_model_head(spec.hidden_size, spec.hidden_size, spec.embeddings.vocab_size,
                             {.dense = "cls.predictions.transform.dense",
                              .norm = "cls.predictions.transform.LayerNorm",
                              .decoder = "cls.predictions.decoder",
                              .bias = "cls.predictions"},
                             spec.activation, spec.eps);
}

}  // namespace

std::unique_ptr<EncoderModel> make_bert(Scope scope, const ModelConfig& config, bool with_pooler) {
  return std::make_unique<BertLikeModel>(std::move(scope), kBert, config, spec_of(config), with_pooler);
}

std::vector<HeadSpec> bert_heads(EncoderTask task, const ModelConfig& config) {
  const BertLikeSpec spec = spec_of(config);
  return bert_task_heads(task, config, spec, words(spec),
                         {.name = "cls.seq_relationship", .field = "seq_relationship_logits"});
}

std::unique_ptr<PreTrainedModel> make_bert_lm(const ModelConfig& config) {
  return std::make_unique<BertLikeForCausalLM>("LMHeadModel", kBert, config, spec_of(config));
}

}  // namespace exporters::models
