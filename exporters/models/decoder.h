#pragma once

#include "exporters/models/cache.h"
#include "exporters/models/layers/layers.h"
#include "exporters/models/layers/rotary.h"
#include "exporters/models/masks.h"
#include "exporters/models/pretrained.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::models {

// What all decoder-only models share: their inputs, the cache, masks, position ids, recorded layers, and the heads. A
// family brings a DecoderModel, and a DecoderFamily that says what the reference calls its parts.

/// What the shared code needs to know of a family's model.
struct DecoderTraits {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  /// For each layer, how many positions a query sees, itself among them; nothing: all.
  std::vector<std::optional<int64_t>> sliding_windows;
  /// Learned positions there are; nothing: positions are computed.
  std::optional<int64_t> max_positions;
  std::optional<int64_t> pad_token_id;
  bool tie_word_embeddings = false;
  /// A cache that was given is returned also when use_cache is false.
  bool returns_given_cache = false;
  /// Without cache and mask, jumps in position_ids tell packed sequences apart.
  bool packs_sequences = true;
  /// Attention that only kEager computes (soft caps, sinks).
  bool needs_eager_attention = false;
  /// Logits are divided by this.
  double logits_scaling = 1.0;
  /// Logits x become softcap · tanh(x / softcap).
  std::optional<double> final_logit_softcap;
};

/// What the reference calls the parts of a family.
struct DecoderFamily {
  std::string_view prefix;          ///< of its classes: "Llama"
  std::string_view base = "model";  ///< the attribute that holds the bare model in the heads
  std::string_view base_in_question_answering = "model";
  std::string_view embeddings = "embed_tokens";  ///< within the bare model
  std::string_view lm_head = "lm_head";
  bool lm_head_bias = false;
  std::string_view former_lm_head = {};                 ///< what checkpoints call it
  std::array<std::string_view, 2> former_buffers = {};  ///< see KeyRules
  std::string_view model_class = "Model";               ///< after the prefix
  std::string_view causal_lm_class = "ForCausalLM";
  std::string_view base_output = "BaseModelOutputWithPast";
  std::string_view causal_lm_output = "CausalLMOutputWithPast";
  /// The outputs of the bare model and the language model list cross-attentions with attentions; a decoder has none.
  bool lists_cross_attentions = false;
};

/// The bare model of a family, by itself or within a head.
class DecoderModel : public PreTrainedModel {
 public:
  struct Output {
    at::Tensor last_hidden_state;  ///< [batch, queries, hidden]
    PyTree cache;                  ///< or None
    PyTree hidden_states;          ///< a tuple, or None
    PyTree attentions;             ///< a tuple, or None
    PyTree cross_attentions;       ///< an empty tuple, or None
  };

  Output operator()(const ForwardArgs& args, const Flags& flags) const;
  using PreTrainedModel::operator();

  const DecoderTraits& traits() const { return traits_; }
  const DecoderFamily& family() const { return family_; }
  /// What stands for tokens before the layers: int64 [batch, sequence] → [batch, sequence, embedding].
  at::Tensor embeddings_of(const at::Tensor& input_ids) const;
  /// The module that holds their table.
  const Module& embedding() const;

  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return family_.base; }
  KeyRules key_rules() const override;

 protected:
  /// What the layers of one forward share.
  struct Pass {
    AttentionKind kind;
    at::Tensor position_ids;  ///< [batch or 1, queries]
    const ForwardArgs* args;
    std::vector<RotaryPositions> rotary;
  };
  /// What one layer gets besides.
  struct LayerInputs {
    const Pass* pass;
    CausalMask mask;
    CacheLayer* cache;  ///< null: none
  };

  DecoderModel(Scope scope, const DecoderFamily& family, const ModelConfig& config, DecoderTraits traits);

  virtual at::Tensor embed(const at::Tensor& input_ids) const = 0;
  /// Positions of the queries where none are given. @param span of the first layer's cache
  virtual at::Tensor positions(const ForwardArgs& args, const CacheSpan& span, const c10::SymInt& queries) const;
  /// Called once before the layers: adds what follows from the positions to the pass, or to the embeddings.
  virtual at::Tensor begin(const at::Tensor& embeddings, Pass& pass) const = 0;
  virtual AttentionResult run_layer(size_t index, const at::Tensor& hidden, const LayerInputs& inputs) const = 0;
  virtual at::Tensor finish(const at::Tensor& hidden) const = 0;

  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  std::unique_ptr<LayeredCache> cache_for(const ForwardArgs& args, bool use_cache) const;
  void check_cache(LayeredCache& cache) const;
  void require_positions(const CacheSpan& span, const c10::SymInt& queries) const;
  std::vector<CausalMask> masks(AttentionKind kind, const at::Tensor& embeddings, const ForwardArgs& args,
                                LayeredCache* cache) const;
  void run_layers(at::Tensor hidden, const Pass& pass, const std::vector<CausalMask>& masks, LayeredCache* cache,
                  const Flags& flags, Output& output) const;

  DecoderFamily family_;
  DecoderTraits traits_;
};

/// The positions that `logits_to_keep` asks for; null or None: all.
/// @param hidden [batch, length, hidden]
at::Tensor kept_positions(const at::Tensor& hidden, const PyTree* logits_to_keep);

/// Makes the bare model of a family at a place.
using MakeDecoder = std::unique_ptr<DecoderModel> (*)(Scope scope, const ModelConfig& config);

/// What the heads share: they take what the bare model takes.
class DecoderHead : public PreTrainedModel {
 public:
  std::vector<ArgumentSpec> arguments() const override { return model_->arguments(); }
  ForwardArgs sample_inputs(const SampleSize& size) const override { return model_->sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return model_->axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return base_; }
  KeyRules key_rules() const override { return model_->key_rules(); }

 protected:
  DecoderHead(const DecoderFamily& family, std::string_view class_name, std::string_view base, MakeDecoder make,
              const ModelConfig& config);

  std::string base_;
  std::unique_ptr<DecoderModel> model_;
};

/// Scores of the next token for each position, or for those that `logits_to_keep` names: the last ones when it is a
/// number (0: all), else those at its indices, [positions] or [batch, positions].
class DecoderForCausalLM : public DecoderHead {
 public:
  DecoderForCausalLM(const DecoderFamily& family, MakeDecoder make, const ModelConfig& config);
  std::vector<ArgumentSpec> arguments() const override;
  std::vector<TiedWeights> tied_weights() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Linear lm_head_;
};

/// The scores at the last token of each row that is not padding.
class DecoderForSequenceClassification : public DecoderHead {
 public:
  DecoderForSequenceClassification(const DecoderFamily& family, std::string_view class_name, MakeDecoder make,
                                   const ModelConfig& config);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  at::Tensor pool(const at::Tensor& logits, const ForwardArgs& args) const;

  Linear score_;
};

class DecoderForTokenClassification : public DecoderHead {
 public:
  DecoderForTokenClassification(const DecoderFamily& family, MakeDecoder make, const ModelConfig& config,
                                std::string_view classifier = "score");

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Linear score_;
};

class DecoderForQuestionAnswering : public DecoderHead {
 public:
  DecoderForQuestionAnswering(const DecoderFamily& family, MakeDecoder make, const ModelConfig& config);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Linear qa_outputs_;
};

}  // namespace exporters::models
