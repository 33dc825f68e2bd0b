#pragma once

#include "exporters/models/encoder.h"
#include "exporters/models/layers/relative_bias.h"
#include "exporters/models/text_embeddings.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::models {

// Encoders that are built like BERT (Devlin et al., 2018): embeddings that are summed and normalised, then layers of
// attention and a feed-forward network, each followed by a dense layer, a residual and a norm. A family fills in a
// BertLikeSpec from its config; the rest is here.

/// What a family calls the parts of a layer.
struct BertLayerNames {
  std::string_view attention = "attention.self";  ///< the module of class <prefix>SelfAttention; the next three in it
  std::string_view query = "query";
  std::string_view key = "key";
  std::string_view value = "value";
  std::string_view attention_output = "attention.output.dense";  ///< from here on, within the layer
  std::string_view attention_norm = "attention.output.LayerNorm";
  std::string_view intermediate = "intermediate.dense";
  std::string_view output = "output.dense";
  std::string_view output_norm = "output.LayerNorm";
  bool output_norm_first = false;          ///< declared before all others
  std::string_view layer_class = "Layer";  ///< after the prefix
  std::string_view attention_class = "SelfAttention";
};

struct BertLikeSpec {
  TextEmbeddingsOptions embeddings;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_attention_heads = 0;
  Activation activation = nullptr;
  double eps = 0;
  bool tie_word_embeddings = false;
  bool samples_token_types = true;
  /// The config makes it a decoder: bert_decoder.h.
  bool is_decoder = false;

  /// The dense layer from the embeddings to the layers; empty: none.
  std::string projection = {};
  /// Within the bare model; in the order of the checkpoint.
  std::vector<std::string> layers;
  /// Which of them runs, one after the other; empty: each once.
  std::vector<size_t> order = {};
  BertLayerNames names = {};

  /// A table of biases by relative position, shared by all layers: its name within the bare model.
  /// Attention is computed step by step then.
  std::string relative_bias = {};
  RelativeBuckets relative_buckets = {};
  int64_t relative_rows = 0;  ///< of the table; at least as many as there are buckets
};

/// What the config class of a family has where a field is not set.
struct BertLikeDefaults {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  std::string_view hidden_act = "gelu";
  double layer_norm_eps = 1e-12;
  std::optional<int64_t> pad_token_id = 0;
  /// The family has a class for what the config makes a decoder; others refuse such a config.
  bool can_be_decoder = false;
};

/// What transformers' configs of such families have in common. Layers are "encoder.layer.N". Throws Error for values
/// that make no sense, and for those that `rules`, and the rules that all of these families share, do not accept.
BertLikeSpec read_bert_like(const ModelConfig& config, const BertLikeDefaults& defaults,
                            std::span<const FieldRule> rules = {});
/// The checks of read_bert_like, for families that read their fields by other names.
void check_bert_like(const ModelConfig& config, const BertLikeSpec& spec, std::span<const FieldRule> rules = {});
/// What EncoderModel needs to know of it.
EncoderTraits traits_of(const BertLikeSpec& spec);
/// What predicts the order of two sentences in pre-training, from the pooled state.
struct OrderHead {
  std::string name;   ///< of the dense layer
  std::string field;  ///< of the output
  int64_t scores = 2;
};
/// The heads that BERT has, and those that follow it. @param words the head of the masked language model
std::vector<HeadSpec> bert_task_heads(EncoderTask task, const ModelConfig& config, const BertLikeSpec& spec,
                                      HeadSpec words, OrderHead order);
/// The heads that RoBERTa has, and those that follow it.
std::vector<HeadSpec> roberta_like_heads(EncoderTask task, const ModelConfig& config, const BertLikeSpec& spec);
/// "<before>0<after>", "<before>1<after>", …
std::vector<std::string> numbered(std::string_view before, int64_t count, std::string_view after = {});

/// What the layers of one forward share.
struct EncoderPass {
  AttentionKind kind = AttentionKind::kSdpa;
  at::Tensor mask;                ///< as masks.h makes them, or of the family's own kind
  at::Tensor relative_positions;  ///< of families whose attention reads them; else undefined
  at::Tensor relative_embeddings;
  /// Of a decoder, in place of `mask`; else null.
  const CausalMask* causal = nullptr;
  CacheLayer* cache = nullptr;  ///< of this layer; null: none
};

/// The attention of a layer without the dense layer after it: [batch, sequence, hidden] → the same.
class EncoderAttention : public Module {
 public:
  using Module::Module;
  virtual AttentionResult operator()(const at::Tensor& hidden, const EncoderPass& pass) const = 0;
};
using MakeEncoderAttention = std::function<std::unique_ptr<EncoderAttention>(Scope scope)>;

/// Multi-head attention that sees what pass.mask shows, or, in a decoder, what pass.causal does.
class BertSelfAttention : public EncoderAttention {
 public:
  BertSelfAttention(Scope scope, std::string class_name, const BertLikeSpec& spec);
  AttentionResult operator()(const at::Tensor& hidden, const EncoderPass& pass) const override;

 private:
  int64_t heads_;
  int64_t head_size_;
  Linear query_;
  Linear key_;
  Linear value_;
};

/// Attention and a feed-forward network, each with a dense layer, a residual and a norm at its end.
class BertLayer : public Module {
 public:
  BertLayer(Scope scope, std::string class_name, const BertLikeSpec& spec, const MakeEncoderAttention& make_attention);
  AttentionResult operator()(const at::Tensor& hidden, const EncoderPass& pass) const;

 private:
  Activation activation_;
  std::optional<LayerNorm> output_norm_;
  std::unique_ptr<EncoderAttention> attention_;
  std::optional<Linear> attention_output_;
  std::optional<LayerNorm> attention_norm_;
  std::optional<Linear> intermediate_;
  std::optional<Linear> output_;
};

/// Makes the attention of a layer of the family.
MakeEncoderAttention bert_self_attention(const EncoderFamily& family, const BertLikeSpec& spec);

class BertLikeModel : public EncoderModel {
 public:
  /// Throws Error for a config that makes it a decoder.
  BertLikeModel(Scope scope, const EncoderFamily& family, const ModelConfig& config, BertLikeSpec spec,
                bool with_pooler);
  const at::Tensor& word_embeddings() const override { return embeddings_.words(); }

 protected:
  EncoderStates encode(const EncoderInputs& inputs, AttentionKind kind) const override;

 private:
  at::Tensor mask(const at::Tensor& hidden, const EncoderInputs& inputs, AttentionKind kind) const;

  BertLikeSpec spec_;
  TextEmbeddings embeddings_;
  std::optional<Linear> projection_;
  ModuleList<BertLayer> layers_;
  std::optional<Embedding> relative_bias_;
};

}  // namespace exporters::models
