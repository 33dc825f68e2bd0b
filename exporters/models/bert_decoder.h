#pragma once

#include "exporters/models/bert_like.h"
#include "exporters/models/decoder.h"

#include <memory>
#include <optional>

namespace exporters::models {

// Encoders that are built like BERT as decoders (config field "is_decoder"): the same layers with causal attention and
// a cache. Attention to the states of an encoder ("add_cross_attention") is not implemented.

class BertLikeDecoder : public DecoderModel {
 public:
  BertLikeDecoder(Scope scope, const EncoderFamily& family, const ModelConfig& config, BertLikeSpec spec);
  const at::Tensor& word_embeddings() const { return embeddings_.words(); }
  std::vector<ArgumentSpec> arguments() const override;

 protected:
  at::Tensor embed(const at::Tensor& input_ids) const override;
  at::Tensor positions(const ForwardArgs& args, const CacheSpan& span, const c10::SymInt& queries) const override;
  at::Tensor begin(const at::Tensor& embeddings, Pass& pass) const override;
  AttentionResult run_layer(size_t index, const at::Tensor& hidden, const LayerInputs& inputs) const override;
  at::Tensor finish(const at::Tensor& hidden) const override { return hidden; }

 private:
  BertLikeSpec spec_;
  TextEmbeddings embeddings_;
  std::optional<Linear> projection_;
  ModuleList<BertLayer> layers_;
};

/// Scores of the next token for each position, or for those that `logits_to_keep` names, by the head of the family's
/// masked language model.
class BertLikeForCausalLM : public PreTrainedModel {
 public:
  /// Throws Error for a config that makes it no decoder.
  BertLikeForCausalLM(std::string_view class_name, const EncoderFamily& family, const ModelConfig& config,
                      BertLikeSpec spec);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override { return model_->sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return model_->axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return family_.base; }
  KeyRules key_rules() const override { return model_->key_rules(); }
  std::vector<TiedWeights> tied_weights() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  const EncoderFamily& family_;
  std::optional<BertLikeDecoder> model_;
  std::optional<HeadLayers> head_;
};

// The classes of the families.
std::unique_ptr<PreTrainedModel> make_bert_lm(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_roberta_lm(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_xlm_roberta_lm(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_camembert_lm(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_electra_lm(const ModelConfig& config);

}  // namespace exporters::models
