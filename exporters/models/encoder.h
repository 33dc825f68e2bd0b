#pragma once

#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/layers.h"
#include "exporters/models/masks.h"
#include "exporters/models/pretrained.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters::models {

// What all text encoders share: their inputs, recorded layers, arguments, and the heads. A family brings an
// EncoderModel, an EncoderFamily that says what the reference calls its parts, and a description of its heads.

/// Tensors that are not given are undefined; exactly one of input_ids and inputs_embeds is.
struct EncoderInputs {
  explicit EncoderInputs(const ForwardArgs& args);

  at::Tensor input_ids;       ///< [batch, sequence]
  at::Tensor attention_mask;  ///< [batch, sequence], 0 for padding, or a prepared mask of four dimensions
  at::Tensor token_type_ids;  ///< [batch or 1, sequence]
  at::Tensor position_ids;    ///< [batch or 1, sequence]
  at::Tensor inputs_embeds;   ///< [batch, sequence, embedding]
};

/// What the shared code needs to know of a family's model.
struct EncoderTraits {
  int64_t vocab_size = 0;
  /// 0: token_type_ids change nothing.
  int64_t type_vocab_size = 0;
  /// Whether the family's tokenizers give token_type_ids.
  bool samples_token_types = false;
  /// The longest sequence; nothing: any.
  std::optional<int64_t> max_sequence;
  /// Rows of the table of positions: position_ids lie in [0, position_limit). 0: any.
  int64_t position_limit = 0;
  /// Numbers of dimensions that attention_mask may have.
  std::vector<int64_t> mask_ranks = {2, 4};
  std::optional<int64_t> pad_token_id;
  bool tie_word_embeddings = false;
  /// The reference computes attention step by step only.
  bool needs_eager_attention = false;
};

class EncoderModel;
struct HeadSpec;
enum class EncoderTask {
  kMaskedLM,
  kPreTraining,
  kNextSentencePrediction,
  kSequenceClassification,
  kTokenClassification,
  kQuestionAnswering,
  kMultipleChoice,
};

/// Makes the bare model of a family at a place. Throws Error for values of the config that change the computation in a
/// way that is not implemented. @param with_pooler for families that have a pooling layer
using MakeEncoder = std::unique_ptr<EncoderModel> (*)(Scope scope, const ModelConfig& config, bool with_pooler);
/// The head for a task; several for tasks with several outputs.
using DescribeHeads = std::vector<HeadSpec> (*)(EncoderTask task, const ModelConfig& config);

/// What the reference calls the parts of a family.
struct EncoderFamily {
  std::string_view prefix;  ///< of its classes: "Bert"
  std::string_view base;    ///< the attribute that holds the bare model in the heads: "bert"
  MakeEncoder make;
  DescribeHeads heads;
  std::string_view base_output = "BaseModelOutput";
  std::string_view pooler = {};  ///< the dense layer within the bare model; empty: it has none
  std::string_view word_embeddings = "embeddings.word_embeddings";  ///< within the bare model
  /// The heads declare their own layers before the bare model.
  bool heads_first = false;
  /// The reference can make it a decoder: its output lists cross-attentions with attentions, and an encoder has none.
  bool can_be_decoder = false;
  std::string_view former_buffer = {};  ///< see KeyRules
};

/// What layers leave behind.
struct EncoderStates {
  at::Tensor last_hidden_state;           ///< [batch, sequence, hidden]
  std::vector<at::Tensor> hidden_states;  ///< the first layer's input, then each layer's output
  std::vector<at::Tensor> attentions;     ///< [batch, heads, sequence, sequence] of each layer; kEager only
};

/// Calls `layer(index, hidden)` for each index below `count`, on what the one before gave.
EncoderStates run_layers(size_t count, at::Tensor hidden,
                         const std::function<AttentionResult(size_t, const at::Tensor&)>& layer);

/// The bare model of a family, by itself or within a head.
class EncoderModel : public PreTrainedModel {
 public:
  struct Output {
    at::Tensor last_hidden_state;  ///< [batch, sequence, hidden]
    at::Tensor pooler_output;      ///< [batch, hidden]; undefined without pooling layer
    PyTree hidden_states;          ///< a tuple, or None
    PyTree attentions;             ///< a tuple, or None
  };

  Output operator()(const EncoderInputs& inputs, const Flags& flags) const;
  using PreTrainedModel::operator();

  const EncoderTraits& traits() const { return traits_; }

  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return family_.base; }
  KeyRules key_rules() const override;

  /// [vocab, embedding]
  virtual const at::Tensor& word_embeddings() const = 0;

 protected:
  EncoderModel(Scope scope, const EncoderFamily& family, const ModelConfig& config, EncoderTraits traits);
  /// To be called by constructors after all other layers have been declared.
  void declare_pooler(int64_t hidden_size);

  virtual EncoderStates encode(const EncoderInputs& inputs, AttentionKind kind) const = 0;
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  const EncoderFamily& family_;
  EncoderTraits traits_;
  std::optional<Linear> pooler_;
};

// ── Heads ──

/// What a head reads of the bare model's output.
enum class HeadInput {
  kEach,          ///< every token
  kFirst,         ///< the first token
  kFirstVisible,  ///< the first token that is not padding
  kLast,          ///< the last token, padding or not
  kMean,          ///< the mean of all tokens, padding included
  kVisibleMean,   ///< the mean of the tokens that are not padding
  kPooled,        ///< what the bare model's pooling layer made
};

/// A layer of a head with the activation after it.
struct HeadLayer {
  std::string name;                 ///< within the model: "classifier.dense"; empty: the activation alone
  int64_t out_features = 0;         ///< of a dense layer; 0: a layer norm
  Activation activation = nullptr;  ///< nullptr: none
  double eps = 0;                   ///< of a layer norm
  bool bias = true;
};

/// Scores from the bare model's output: [batch, sequence, …] for kEach, else [batch, …].
struct HeadSpec {
  HeadInput input = HeadInput::kEach;
  int64_t in_features = 0;
  std::vector<HeadLayer> layers;
  /// Layer norms are declared before dense layers.
  bool norms_first = false;
  /// Of a language model: the last dense layer is tied to the word embeddings when the config says so.
  bool is_tied = false;
  /// The module of a parameter "bias" besides the layers: tied to the last layer's bias, else unused. Empty: none
  std::string bias = {};
  int64_t bias_extent = 0;
  /// The last layer is the table of the word embeddings itself, with that bias.
  bool reuses_word_embeddings = false;
  /// The field of the output that holds the scores.
  std::string field = "logits";
  /// Scores of one column lose their last axis.
  bool squeezes = false;
};

/// The layers of a head, declared as children of a model.
class HeadLayers {
 public:
  HeadLayers(Module& model, HeadSpec spec);
  /// @param word_embeddings of the bare model, for heads that use them
  at::Tensor operator()(const EncoderModel::Output& output, const EncoderInputs& inputs,
                        const at::Tensor& word_embeddings) const;
  const HeadSpec& spec() const { return spec_; }

 private:
  struct Layer {
    std::optional<Linear> dense;
    std::optional<LayerNorm> norm;
  };
  /// A parameter that is a module's only one.
  class Bias : public Module {
   public:
    Bias(Scope scope, int64_t extent);
    at::Tensor value;
  };
  void declare(Module& model, bool dense, bool norms);

  HeadSpec spec_;
  std::optional<Bias> bias_;
  std::deque<Layer> layers_;  // as spec_.layers
};

/// The parameters of a head that is tied to the word embeddings; none for another one.
std::vector<TiedWeights> tied_to_words(const HeadSpec& head, const EncoderFamily& family);

/// A bare model with a head on top.
class EncoderWithHead : public PreTrainedModel {
 public:
  EncoderWithHead(const EncoderFamily& family, EncoderTask task, const ModelConfig& config);

  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return family_.base; }
  KeyRules key_rules() const override { return model_->key_rules(); }
  std::vector<TiedWeights> tied_weights() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  const EncoderFamily& family_;
  EncoderTask task_;
  std::unique_ptr<EncoderModel> model_;
  std::deque<HeadLayers> heads_;
};

// The usual heads.

struct LanguageModelNames {
  std::string dense = {};
  std::string norm = {};
  std::string decoder = {};
  std::string bias = {};  ///< see HeadSpec
};

/// One dense layer.
HeadSpec dense_head(HeadInput input, int64_t hidden_size, std::string name, int64_t out_features);
/// Two dense layers on the first token, with an activation between them.
HeadSpec first_token_head(int64_t hidden_size, std::string first, Activation activation, std::string second,
                          int64_t out_features);
/// Words for each token: dense, activation and norm, of the width of the embeddings, then a tied dense layer.
HeadSpec language_model_head(int64_t hidden_size, int64_t embedding_size, int64_t vocab_size,
                             const LanguageModelNames& names, Activation activation, double eps);
/// "qa_outputs". Throws Error unless the config has two labels: the start and the end of the answer.
HeadSpec question_answering_head(int64_t hidden_size, const ModelConfig& config);
/// Of kTokenClassification ("classifier") and kQuestionAnswering. Throws Error for other tasks: the family has no
/// class.
HeadSpec token_head(EncoderTask task, int64_t hidden_size, const ModelConfig& config);

}  // namespace exporters::models
