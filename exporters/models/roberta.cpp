// RoBERTa (Liu et al., 2019), and XLM-RoBERTa (Conneau et al., 2019) and CamemBERT (Martin et al., 2019), which differ
// from it in their vocabulary: BERT whose positions count on from the id of the padding.
#include "exporters/models/bert_decoder.h"
#include "exporters/models/encoder_families.h"
#include "exporters/support/error.h"

namespace exporters::models {
namespace {

BertLikeSpec spec_of(const ModelConfig& config, const EncoderFamily& family) {
  BertLikeDefaults defaults;
  defaults.vocab_size = family.prefix == kRoberta.prefix ? 50265 : 30522;
  defaults.pad_token_id = 1;
  defaults.can_be_decoder = true;
  BertLikeSpec spec = read_bert_like(config, defaults);
  if (!spec.embeddings.padding_idx) {
    throw Error("config field \"pad_token_id\" is null: positions count on from it", config.where());
  }
  spec.embeddings.class_name = fmt::format("{}Embeddings", family.prefix);
  spec.embeddings.positions = PositionKind::kNonPadding;
  spec.embeddings.positions_declared_last = true;
  spec.samples_token_types = false;
  return spec;
}

std::unique_ptr<EncoderModel> make(Scope scope, const EncoderFamily& family, const ModelConfig& config,
                                   bool with_pooler) {
  return std::make_unique<BertLikeModel>(std::move(scope), family, config, spec_of(config, family), with_pooler);
}

std::unique_ptr<PreTrainedModel> make_lm(const EncoderFamily& family, const ModelConfig& config) {
  return std::make_unique<BertLikeForCausalLM>("ForCausalLM", family, config, spec_of(config, family));
}

}  // namespace

std::unique_ptr<EncoderModel> make_roberta(Scope scope, const ModelConfig& config, bool with_pooler) {
  return make(std::move(scope), kRoberta, config, with_pooler);
}

std::unique_ptr<EncoderModel> make_xlm_roberta(Scope scope, const ModelConfig& config, bool with_pooler) {
  return make(std::move(scope), kXlmRoberta, config, with_pooler);
}

std::unique_ptr<EncoderModel> make_camembert(Scope scope, const ModelConfig& config, bool with_pooler) {
  return make(std::move(scope), kCamembert, config, with_pooler);
}

std::vector<HeadSpec> roberta_heads(EncoderTask task, const ModelConfig& config) {
  return roberta_like_heads(task, config, spec_of(config, config.model_type() == "roberta" ? kRoberta : kXlmRoberta));
}

std::unique_ptr<PreTrainedModel> make_roberta_lm(const ModelConfig& config) { return make_lm(kRoberta, config); }

std::unique_ptr<PreTrainedModel> make_xlm_roberta_lm(const ModelConfig& config) { return make_lm(kXlmRoberta, config); }

std::unique_ptr<PreTrainedModel> make_camembert_lm(const ModelConfig& config) { return make_lm(kCamembert, config); }

}  // namespace exporters::models
