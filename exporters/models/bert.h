#pragma once

#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/layers.h"
#include "exporters/models/masks.h"
#include "exporters/models/pretrained.h"

namespace exporters::models {

/// BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2018), as an
/// encoder, with every head that transformers has for it.

struct BertConfig {
  /// Throws Error for values that change the computation in a way that is not implemented.
  explicit BertConfig(const ModelConfig& config);

  int64_t vocab_size;
  int64_t hidden_size;
  int64_t num_hidden_layers;
  int64_t num_attention_heads;
  int64_t intermediate_size;
  Activation hidden_act;
  int64_t max_position_embeddings;
  int64_t type_vocab_size;
  double layer_norm_eps;
  std::optional<int64_t> pad_token_id;
  bool tie_word_embeddings;

  int64_t head_size() const { return hidden_size / num_attention_heads; }
};

/// Tensors that are not given are undefined; exactly one of input_ids and inputs_embeds is.
struct BertInputs {
  explicit BertInputs(const ForwardArgs& args);

  at::Tensor input_ids;       ///< [batch, sequence]
  at::Tensor attention_mask;  ///< [batch, sequence], 0 for padding, or a prepared mask of four dimensions
  at::Tensor token_type_ids;  ///< [batch or 1, sequence]
  at::Tensor position_ids;    ///< [batch or 1, sequence]
  at::Tensor inputs_embeds;   ///< [batch, sequence, hidden]
};

class BertEmbeddings : public Module {
 public:
  BertEmbeddings(Scope scope, const BertConfig& config);
  at::Tensor operator()(const BertInputs& inputs) const;

 private:
  at::Tensor first_positions(const c10::SymInt& length) const;

  int64_t max_position_embeddings_;
  Embedding word_embeddings_;
  Embedding position_embeddings_;
  Embedding token_type_embeddings_;
  LayerNorm layer_norm_;
  at::Tensor position_ids_;    // [1, max_position_embeddings]: 0, 1, 2, …
  at::Tensor token_type_ids_;  // [1, max_position_embeddings]: zeros
};

class BertSelfAttention : public Module {
 public:
  BertSelfAttention(Scope scope, const BertConfig& config);
  AttentionResult operator()(const at::Tensor& hidden, const at::Tensor& mask, AttentionKind kind) const;

 private:
  int64_t heads_;
  int64_t head_size_;
  double scale_;
  Linear query_;
  Linear key_;
  Linear value_;
};

/// The end of both halves of a layer: LayerNorm(dense(x) + residual).
class BertResidualOutput : public Module {
 public:
  BertResidualOutput(Scope scope, std::string class_name, int64_t in_features, const BertConfig& config);
  at::Tensor operator()(const at::Tensor& hidden, const at::Tensor& residual) const;

 private:
  Linear dense_;
  LayerNorm layer_norm_;
};

class BertAttention : public Module {
 public:
  BertAttention(Scope scope, const BertConfig& config);
  AttentionResult operator()(const at::Tensor& hidden, const at::Tensor& mask, AttentionKind kind) const;

 private:
  BertSelfAttention self_;
  BertResidualOutput output_;
};

class BertIntermediate : public Module {
 public:
  BertIntermediate(Scope scope, const BertConfig& config);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  Linear dense_;
  Activation activation_;
};

class BertLayer : public Module {
 public:
  BertLayer(Scope scope, const BertConfig& config);
  AttentionResult operator()(const at::Tensor& hidden, const at::Tensor& mask, AttentionKind kind) const;

 private:
  BertAttention attention_;
  BertIntermediate intermediate_;
  BertResidualOutput output_;
};

struct BertEncoderOutput {
  at::Tensor last_hidden_state;           ///< [batch, sequence, hidden]
  std::vector<at::Tensor> hidden_states;  ///< the embeddings, then each layer's output
  std::vector<at::Tensor> attentions;     ///< [batch, heads, sequence, sequence] of each layer; kEager only
};

class BertEncoder : public Module {
 public:
  BertEncoder(Scope scope, const BertConfig& config);
  BertEncoderOutput operator()(at::Tensor hidden, const at::Tensor& mask, AttentionKind kind) const;

 private:
  ModuleList<BertLayer> layer_;
};

/// tanh(dense(first token)): [batch, sequence, hidden] → [batch, hidden].
class BertPooler : public Module {
 public:
  BertPooler(Scope scope, const BertConfig& config);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  Linear dense_;
};

class BertPredictionHeadTransform : public Module {
 public:
  BertPredictionHeadTransform(Scope scope, const BertConfig& config);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  Linear dense_;
  Activation activation_;
  LayerNorm layer_norm_;
};

class BertLMPredictionHead : public Module {
 public:
  BertLMPredictionHead(Scope scope, const BertConfig& config);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  at::Tensor bias_;  // the decoder's, when the config ties weights; else unused
  BertPredictionHeadTransform transform_;
  Linear decoder_;
};

/// The heads' "cls": word predictions.
class BertOnlyMLMHead : public Module {
 public:
  BertOnlyMLMHead(Scope scope, const BertConfig& config);
  at::Tensor operator()(const at::Tensor& sequence_output) const;

 private:
  BertLMPredictionHead predictions_;
};

/// The heads' "cls": whether the second sentence follows the first.
class BertOnlyNSPHead : public Module {
 public:
  BertOnlyNSPHead(Scope scope, const BertConfig& config);
  at::Tensor operator()(const at::Tensor& pooled_output) const;

 private:
  Linear seq_relationship_;
};

/// The heads' "cls": both.
class BertPreTrainingHeads : public Module {
 public:
  BertPreTrainingHeads(Scope scope, const BertConfig& config);
  std::pair<at::Tensor, at::Tensor> operator()(const at::Tensor& sequence_output,
                                               const at::Tensor& pooled_output) const;

 private:
  BertLMPredictionHead predictions_;
  Linear seq_relationship_;
};

/// What all of the family share.
class BertPreTrainedModel : public PreTrainedModel {
 public:
  std::string_view base_model_prefix() const override { return "bert"; }
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;

 protected:
  BertPreTrainedModel(Scope scope, std::string class_name, const ModelConfig& config);
  const BertConfig& bert_config() const { return bert_config_; }
  /// The two pairs of the word prediction head, when the config ties them.
  std::vector<TiedWeights> tied_prediction_head() const;

 private:
  BertConfig bert_config_;
};

class BertModel : public BertPreTrainedModel {
 public:
  struct Output {
    at::Tensor last_hidden_state;  ///< [batch, sequence, hidden]
    at::Tensor pooler_output;      ///< [batch, hidden]; undefined without pooling layer
    PyTree hidden_states;          ///< a tuple, or None
    PyTree attentions;             ///< a tuple, or None
  };

  explicit BertModel(const ModelConfig& config);
  BertModel(Scope scope, const ModelConfig& config, bool add_pooling_layer);
  Output operator()(const BertInputs& inputs, const Flags& flags) const;
  using PreTrainedModel::operator();

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  BertEmbeddings embeddings_;
  BertEncoder encoder_;
  std::optional<BertPooler> pooler_;
};

class BertForPreTraining : public BertPreTrainedModel {
 public:
  explicit BertForPreTraining(const ModelConfig& config);
  std::vector<TiedWeights> tied_weights() const override { return tied_prediction_head(); }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  BertModel bert_;
  BertPreTrainingHeads cls_;
};

class BertForMaskedLM : public BertPreTrainedModel {
 public:
  explicit BertForMaskedLM(const ModelConfig& config);
  std::vector<TiedWeights> tied_weights() const override { return tied_prediction_head(); }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  BertModel bert_;
  BertOnlyMLMHead cls_;
};

class BertForNextSentencePrediction : public BertPreTrainedModel {
 public:
  explicit BertForNextSentencePrediction(const ModelConfig& config);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  BertModel bert_;
  BertOnlyNSPHead cls_;
};

class BertForSequenceClassification : public BertPreTrainedModel {
 public:
  explicit BertForSequenceClassification(const ModelConfig& config);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  BertModel bert_;
  Linear classifier_;
};

/// Inputs are [batch, choices, sequence]; the logits are [batch, choices].
class BertForMultipleChoice : public BertPreTrainedModel {
 public:
  explicit BertForMultipleChoice(const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  BertModel bert_;
  Linear classifier_;
};

class BertForTokenClassification : public BertPreTrainedModel {
 public:
  explicit BertForTokenClassification(const ModelConfig& config);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  BertModel bert_;
  Linear classifier_;
};

class BertForQuestionAnswering : public BertPreTrainedModel {
 public:
  explicit BertForQuestionAnswering(const ModelConfig& config);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  BertModel bert_;
  Linear qa_outputs_;
};

}  // namespace exporters::models
