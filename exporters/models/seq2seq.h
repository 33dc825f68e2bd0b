#pragma once

#include "exporters/models/cache.h"
#include "exporters/models/layers/layers.h"
#include "exporters/models/layers/projected_attention.h"
#include "exporters/models/masks.h"
#include "exporters/models/pretrained.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters::models {

// What all encoder-decoder models share: their inputs, the two caches, recorded layers, output classes, and the heads.
// A family brings an EncoderStack and a DecoderStack, and a Seq2SeqFamily that says what the reference calls its parts.

/// What the shared code needs to know of a family's model.
struct Seq2SeqTraits {
  int64_t vocab_size = 0;          ///< of the encoder's ids
  int64_t decoder_vocab_size = 0;  ///< of the decoder's ids and of the scores
  int64_t hidden_size = 0;
  std::optional<int64_t> pad_token_id;
  std::optional<int64_t> decoder_start_token_id;
  std::optional<int64_t> eos_token_id;
  int64_t num_labels = 2;
  bool tie_word_embeddings = true;
  /// Encoder and decoder embed with one table, the module "shared".
  bool has_shared_embedding = true;
  /// The last hidden state is multiplied by this before it is scored.
  double output_scale = 1.0;
};

/// An encoder or a decoder, within a model or by itself.
class TransformerStack : public PreTrainedModel {
 public:
  struct Output {
    at::Tensor last_hidden_state;  ///< [batch, length, hidden]
    PyTree cache;                  ///< or None
    PyTree hidden_states;          ///< a tuple, or None; so are those below
    PyTree attentions;
    PyTree cross_attentions;
    PyTree router_logits;
  };

  virtual Output operator()(const ForwardArgs& args, const Flags& flags) const = 0;
  using PreTrainedModel::operator();

  /// The reference's output class with these values.
  PyTree to_tree(const Output& output) const;
  c10::ScalarType sample_dtype() const { return parameter_dtype(); }
  std::string_view base_model_prefix() const override { return "model"; }

 protected:
  /// What the layers of one forward share.
  struct Pass {
    AttentionKind kind;
    CausalMask mask;
    at::Tensor encoder_hidden_states;  ///< [batch, source, hidden]; undefined: no cross-attention
    at::Tensor cross_mask;
    CacheSpan span;                   ///< of the queries of a decoder
    std::vector<LayerCaches> caches;  ///< of each layer of a decoder
  };
  struct LayerOutput {
    at::Tensor hidden;
    at::Tensor probabilities;  ///< undefined where none were computed; so are those below
    at::Tensor cross_probabilities;
    at::Tensor router_logits;
  };
  struct Options {
    std::string class_name;
    std::string_view output_class;  ///< in transformers.modeling_outputs
    size_t num_layers = 0;
    int64_t hidden_size = 0;
    int64_t vocab_size = 0;
    std::optional<int64_t> max_positions;
    std::optional<int64_t> pad_token_id;
    bool needs_eager_attention = false;
    bool has_routers = false;
    /// Outputs list cross-attentions with attentions, also where there are none.
    bool lists_cross_attentions = false;
  };

  TransformerStack(Scope scope, const ModelConfig& config, Options options);

  virtual at::Tensor embed(const at::Tensor& input_ids) const = 0;
  /// Of input_ids, or inputs_embeds: [batch, length, hidden].
  virtual at::Tensor embeddings_of(const ForwardArgs& args) const;
  /// Called once before the layers: adds positions to the embeddings, and the masks to the pass.
  virtual at::Tensor begin(const at::Tensor& embeddings, const ForwardArgs& args, Pass& pass) const = 0;
  virtual LayerOutput run_layer(size_t index, const at::Tensor& hidden, const Pass& pass) const = 0;
  virtual at::Tensor finish(const at::Tensor& hidden) const = 0;

  PyTree run(const ForwardArgs& args, const Flags& flags) const override;
  Output run_layers(at::Tensor hidden, const Pass& pass, const Flags& flags) const;
  AttentionKind kind_of(const Flags& flags) const;
  /// Fails when positions from `past` on, `count` of them, are more than there are.
  void require_positions(const c10::SymInt& past, const c10::SymInt& count) const;
  /// Fails when states that were given are not as wide as the model's.
  void require_width(const at::Tensor& states, std::string_view name) const;
  std::vector<ArgumentSpec> flag_arguments() const;
  const Options& options() const { return options_; }

 private:
  Options options_;
};

/// Takes input_ids or inputs_embeds, and attention_mask.
class EncoderStack : public TransformerStack {
 public:
  Output operator()(const ForwardArgs& args, const Flags& flags) const override;
  using PreTrainedModel::operator();

  std::vector<ArgumentSpec> arguments() const override;
  /// `size.source` rows, or as many as SampleSize says.
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  /// How many positions the output has for a sample of that size.
  virtual int64_t output_length(const SampleSize& size) const { return source_length(size); }
  static int64_t source_length(const SampleSize& size);

 protected:
  EncoderStack(Scope scope, const ModelConfig& config, Options options)
      : TransformerStack(std::move(scope), config, std::move(options)) {}
};

/// Takes input_ids or inputs_embeds, attention_mask, encoder_hidden_states, encoder_attention_mask and a cache.
class DecoderStack : public TransformerStack {
 public:
  struct CacheTraits {
    int64_t heads = 0;
    int64_t head_dim = 0;
    /// Layers of a cache that this decoder makes.
    size_t new_layers = 0;
    /// Part of a model with an encoder: a new cache has room for its keys.
    bool has_encoder = true;
    /// A cache that is given with use_cache=false is an error.
    bool needs_use_cache = false;
  };

  Output operator()(const ForwardArgs& args, const Flags& flags) const override;
  using PreTrainedModel::operator();

  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;

  /// A cache of `past` tokens and, where `source` is not 0, of so many of an encoder.
  PyTree sample_cache(int64_t batch, int64_t past, int64_t source) const;
  /// Names of the axes of a cache's leaves, as inputs of a model that calls it `name`.
  void name_cache_axes(AxisNames& names, bool with_encoder) const;
  std::optional<int64_t> max_positions() const { return options().max_positions; }
  /// Whether encoder_attention_mask is among the arguments.
  virtual bool masks_encoder() const { return true; }
  /// Whether position_ids is.
  virtual bool takes_positions() const { return false; }

 protected:
  DecoderStack(Scope scope, const ModelConfig& config, Options options, CacheTraits cache)
      : TransformerStack(std::move(scope), config, std::move(options)), cache_(cache) {}
  /// [1, queries]: those that follow the cache's, or the given ones.
  static at::Tensor positions(const ForwardArgs& args, const CacheSpan& span, const c10::SymInt& queries);

 private:
  std::unique_ptr<Cache> cache_for(const ForwardArgs& args, bool use_cache) const;
  void fill_caches(Cache* cache, Pass& pass) const;
  void check_states(const CacheLayer& layer, size_t index) const;

  CacheTraits cache_;
};

/// What the reference calls the parts of a family, and how they are made from a config. make_… throw Error for values
/// that change the computation in a way that is not implemented.
struct Seq2SeqFamily {
  std::string_view prefix;          ///< of its classes: "Bart"
  std::string_view base = "model";  ///< the attribute that holds the bare model in the heads
  std::string_view lm_head = "lm_head";
  std::string_view conditional_generation_class = "ForConditionalGeneration";  ///< after the prefix
  /// The language model holds encoder and decoder itself, and so does question answering.
  bool is_flat = false;
  /// The language model adds a buffer to its scores, final_logits_bias.
  bool has_logits_bias = false;
  /// The bare model makes the decoder's ids of the encoder's where none are given (shift_right), not only the heads
  /// that classify or answer.
  bool model_shifts_inputs = false;
  /// The decoder alone takes encoder_outputs instead of encoder_hidden_states.
  bool decoder_takes_outputs = false;
  std::string_view model_output = "Seq2SeqModelOutput";  ///< in transformers.modeling_outputs
  std::string_view lm_output = "Seq2SeqLMOutput";

  Seq2SeqTraits (*traits)(const ModelConfig& config) = nullptr;
  std::unique_ptr<EncoderStack> (*make_encoder)(Scope scope, const ModelConfig& config) = nullptr;
  /// @param with_encoder whether the decoder is part of a model with an encoder
  std::unique_ptr<DecoderStack> (*make_decoder)(Scope scope, const ModelConfig& config, bool with_encoder) = nullptr;
  KeyRules (*key_rules)() = nullptr;
  /// Ids for the decoder from those of the encoder: one place to the right. Null: none are made.
  at::Tensor (*shift_right)(const at::Tensor& input_ids, const Seq2SeqTraits& traits,
                            const ModelConfig& config) = nullptr;
};

/// decoder_start_token_id, then `input_ids` without the last. Throws Error when the config has no such id.
at::Tensor shift_right_from_start(const at::Tensor& input_ids, const Seq2SeqTraits& traits, const ModelConfig& config);
/// The last token that is no padding, then `input_ids` without the last (mbart). Throws Error without pad_token_id.
at::Tensor shift_right_from_last(const at::Tensor& input_ids, const Seq2SeqTraits& traits, const ModelConfig& config);

/// Encoder and decoder, run one after the other: what the bare model and the heads have in common. Not a module: its
/// parts hang where their scopes say.
class Seq2SeqParts {
 public:
  struct Scopes {
    Scope shared;
    Scope encoder;
    Scope decoder;
  };
  struct Output {
    TransformerStack::Output encoder;
    TransformerStack::Output decoder;
  };

  Seq2SeqParts(const Seq2SeqFamily& family, Scopes scopes, const ModelConfig& config);

  const Seq2SeqFamily& family() const { return family_; }
  const Seq2SeqTraits& traits() const { return traits_; }
  const EncoderStack& encoder() const { return *encoder_; }
  const DecoderStack& decoder() const { return *decoder_; }

  std::vector<ArgumentSpec> arguments() const;
  ForwardArgs sample_inputs(const SampleSize& size) const;
  AxisNames axis_names(bool with_cache) const;
  /// Those of the embeddings, below `prefix`.
  std::vector<TiedWeights> tied_embeddings(const std::string& prefix) const;

  /// What to run the encoder with, and the decoder once encoder_hidden_states are there.
  struct Inputs {
    ForwardArgs encoder;
    ForwardArgs decoder;
  };
  Inputs inputs(const ForwardArgs& args, bool shifts_inputs) const;
  /// The outputs that were given in place of the encoder's inputs. Throws Error when it has none.
  static TransformerStack::Output given_encoder_outputs(const PyTree& given);

 private:
  const Seq2SeqFamily& family_;
  Seq2SeqTraits traits_;
  std::unique_ptr<Embedding> shared_;
  std::unique_ptr<EncoderStack> encoder_;
  std::unique_ptr<DecoderStack> decoder_;
};

/// What the bare model and the heads with a decoder share.
class Seq2SeqBase : public PreTrainedModel {
 public:
  std::vector<ArgumentSpec> arguments() const override { return parts().arguments(); }
  ForwardArgs sample_inputs(const SampleSize& size) const override { return parts().sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return parts().axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return family_.base; }
  KeyRules key_rules() const override;
  const PreTrainedModel* encoder() const override { return &parts().encoder(); }

 protected:
  Seq2SeqBase(Scope scope, const Seq2SeqFamily& family, std::string_view class_name, const ModelConfig& config);
  virtual const Seq2SeqParts& parts() const = 0;
  const Seq2SeqFamily& family() const { return family_; }
  const Seq2SeqTraits& traits() const { return parts().traits(); }
  Seq2SeqParts::Scopes part_scopes() { return {child("shared"), child("encoder"), child("decoder")}; }
  Seq2SeqParts::Output run_parts(const ForwardArgs& args, const Flags& flags, bool shifts_inputs) const;
  /// An output of that class: the fields given, then those of encoder and decoder.
  PyTree output_of(std::string_view type, std::vector<std::pair<std::string, PyTree>> fields,
                   const Seq2SeqParts::Output& output) const;

 private:
  const Seq2SeqFamily& family_;
};

class Seq2SeqModel : public Seq2SeqBase {
 public:
  Seq2SeqModel(Scope scope, const Seq2SeqFamily& family, const ModelConfig& config);
  Seq2SeqParts::Output operator()(const ForwardArgs& args, const Flags& flags, bool shifts_inputs) const;
  using PreTrainedModel::operator();
  std::vector<TiedWeights> tied_weights() const override { return parts_.tied_embeddings(""); }
  const Seq2SeqParts& parts() const override { return parts_; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Seq2SeqParts parts_;
};

/// What the heads with a decoder share: they hold the bare model, or its parts where the family is flat.
class Seq2SeqHead : public Seq2SeqBase {
 public:
  std::vector<TiedWeights> tied_weights() const override;

 protected:
  Seq2SeqHead(const Seq2SeqFamily& family, std::string_view class_name, const ModelConfig& config, bool is_flat);
  const Seq2SeqParts& parts() const override { return model_ ? model_->parts() : *parts_; }
  Seq2SeqParts::Output run_model(const ForwardArgs& args, const Flags& flags, bool shifts_inputs) const;
  /// "model.", or nothing.
  std::string prefix() const;

 private:
  std::unique_ptr<Seq2SeqModel> model_;
  std::optional<Seq2SeqParts> parts_;
};

/// Scores of the next token for each position of the decoder.
class Seq2SeqForConditionalGeneration : public Seq2SeqHead {
 public:
  Seq2SeqForConditionalGeneration(const Seq2SeqFamily& family, const ModelConfig& config);
  std::vector<TiedWeights> tied_weights() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  at::Tensor final_logits_bias_;  // [1, vocabulary]
  Linear lm_head_;
};

/// out_proj(tanh(dense(x))).
class Seq2SeqClassificationHead : public Module {
 public:
  Seq2SeqClassificationHead(Scope scope, std::string class_name, int64_t hidden_size, int64_t num_labels);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  Linear dense_;
  Linear out_proj_;
};

/// Scores from the decoder's state at each row's last end-of-sequence token.
class Seq2SeqForSequenceClassification : public Seq2SeqHead {
 public:
  Seq2SeqForSequenceClassification(const Seq2SeqFamily& family, const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;
  /// Every row has as many end-of-sequence tokens as the others, and at least one.
  void check_values(const ForwardArgs& args) const override;

 private:
  int64_t eos_token_id_;
  Seq2SeqClassificationHead classification_head_;
};

class Seq2SeqForQuestionAnswering : public Seq2SeqHead {
 public:
  Seq2SeqForQuestionAnswering(const Seq2SeqFamily& family, const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Linear qa_outputs_;
};

/// The decoder alone with a language model's head; attends to encoder_hidden_states where they are given.
class Seq2SeqForCausalLM : public PreTrainedModel {
 public:
  Seq2SeqForCausalLM(const Seq2SeqFamily& family, const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return decoder_->axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return family_.base; }
  std::vector<TiedWeights> tied_weights() const override;
  KeyRules key_rules() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  const Seq2SeqFamily& family_;
  Seq2SeqTraits traits_;
  std::unique_ptr<DecoderStack> decoder_;
  Linear lm_head_;
};

/// The encoder alone, with the shared embedding where there is one.
class Seq2SeqEncoderModel : public PreTrainedModel {
 public:
  Seq2SeqEncoderModel(Scope scope, const Seq2SeqFamily& family, const ModelConfig& config);
  TransformerStack::Output operator()(const ForwardArgs& args, const Flags& flags) const;
  using PreTrainedModel::operator();
  std::vector<ArgumentSpec> arguments() const override { return encoder_->arguments(); }
  ForwardArgs sample_inputs(const SampleSize& size) const override { return encoder_->sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return encoder_->axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return family_.base; }
  std::vector<TiedWeights> tied_weights() const override;
  KeyRules key_rules() const override;
  const PreTrainedModel* encoder() const override { return encoder_.get(); }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  const Seq2SeqFamily& family_;
  std::unique_ptr<Embedding> shared_;
  std::unique_ptr<EncoderStack> encoder_;
};

/// Scores of the labels for each position of the encoder.
class Seq2SeqForTokenClassification : public PreTrainedModel {
 public:
  Seq2SeqForTokenClassification(const Seq2SeqFamily& family, const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override { return transformer_.arguments(); }
  ForwardArgs sample_inputs(const SampleSize& size) const override { return transformer_.sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return transformer_.axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return transformer_.base_model_prefix(); }
  std::vector<TiedWeights> tied_weights() const override;
  KeyRules key_rules() const override { return transformer_.key_rules(); }
  const PreTrainedModel* encoder() const override { return transformer_.encoder(); }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Seq2SeqEncoderModel transformer_;
  Linear classifier_;
};

}  // namespace exporters::models
