#pragma once

#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/layers.h"
#include "exporters/models/layers/projected_attention.h"
#include "exporters/models/seq2seq.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exporters::models {

// Encoder-decoder models that are built like BART (Lewis et al., 2019): attention, attention to the encoder and a
// feed-forward network with residuals around them and layer norms before or after, absolute positions, and the
// checkpoint's names "layers.N.self_attn.q_proj", "fc1", … A family fills in a BartLikeSpec from its config.

/// Where positions come from.
enum class BartLikePositions {
  kLearned,        ///< a table whose first two rows belong to none
  kLearnedFirst,   ///< a table from row 0 on
  kStoredSines,    ///< a table from row 0 on that a checkpoint need not hold: sinusoids()
  kSinesAfterPad,  ///< a buffer: tokens that are not padding count from pad_token_id + 1
};

/// What becomes of values that leave the range of float16.
enum class Float16Range { kLeft, kLimitedIfNotFinite, kLimitedIfInfinite, kLimited };

/// The middle of a layer that is a module of its own.
class FeedForward : public Module {
 public:
  using Module::Module;
  struct Result {
    at::Tensor hidden;
    at::Tensor router_logits;  ///< undefined where no router chose
  };
  /// @param mask that of the layer's attention to itself
  virtual Result operator()(const at::Tensor& hidden, const at::Tensor& mask) const = 0;
};

struct BartLikeSide {
  int64_t layers = 12;
  int64_t heads = 16;
  int64_t ffn_dim = 4096;
};

struct BartLikeSpec {
  std::string prefix;  ///< of the classes
  int64_t vocab_size = 0;
  int64_t decoder_vocab_size = 0;
  int64_t d_model = 0;
  BartLikeSide encoder;
  BartLikeSide decoder;
  int64_t max_positions = 0;
  std::optional<int64_t> pad_token_id;
  Activation activation = nullptr;

  bool norm_before = false;  ///< attention and feed-forward, instead of after
  bool embedding_norm = false;
  bool final_norm = false;
  double embed_scale = 1.0;
  bool scales_given_embeddings = false;  ///< of the decoder
  BartLikePositions positions = BartLikePositions::kLearned;
  std::string positions_class;  ///< after the prefix
  Float16Range encoder_range = Float16Range::kLeft;
  Float16Range decoder_range = Float16Range::kLeft;

  std::string cross_attention = "encoder_attn";
  std::string feed_forward_norm = "final_layer_norm";
  bool key_bias = true;
  bool scales_query = false;
  bool needs_eager_attention = false;

  /// Makes the module "ffn" of a layer; empty: fc1 and fc2 are the layer's own.
  std::function<std::unique_ptr<FeedForward>(Scope scope, const BartLikeSpec& spec, int64_t layer, bool is_decoder)>
      make_feed_forward = {};
  std::string_view encoder_output = "BaseModelOutput";
  std::string_view decoder_output = "BaseModelOutputWithPastAndCrossAttentions";
  bool has_routers = false;

  const BartLikeSide& side(bool is_decoder) const { return is_decoder ? decoder : encoder; }
};

/// Fields that all families call the same, with the defaults that differ given.
struct BartLikeDefaults {
  int64_t vocab_size = 50265;
  int64_t d_model = 1024;
  BartLikeSide side = {};
  int64_t max_positions = 1024;
  std::string_view activation = "gelu";
  std::optional<int64_t> pad_token_id = 1;
  bool scale_embedding = false;
  const char* max_positions_field = "max_position_embeddings";
};

/// Reads those fields. Throws Error for values that contradict each other.
BartLikeSpec read_bart_like(std::string prefix, const ModelConfig& config, const BartLikeDefaults& defaults);

struct BartLikeTokens {
  std::optional<int64_t> decoder_start_token_id = 2;
  std::optional<int64_t> eos_token_id = 2;
  int64_t num_labels = 2;
};
/// What the shared code needs to know of it.
Seq2SeqTraits bart_like_traits(const BartLikeSpec& spec, const ModelConfig& config, const BartLikeTokens& defaults);

/// Positions of a stack, by the spec's kind: parameter or buffer of its own.
class BartLikePositionTable : public Module {
 public:
  BartLikePositionTable(Scope scope, const BartLikeSpec& spec, int64_t count);
  /// [batch or 1, length, d_model]
  /// @param position_ids given ones; undefined: those after the cache's
  at::Tensor operator()(const at::Tensor& input_ids, const at::Tensor& embeddings, const at::Tensor& position_ids,
                        const CacheSpan& span) const;

 private:
  at::Tensor after_padding(const at::Tensor& input_ids, const at::Tensor& embeddings, const CacheSpan& span) const;

  BartLikePositions kind_;
  int64_t count_;
  int64_t width_;
  std::optional<int64_t> pad_token_id_;
  at::Tensor table_;
};

class BartLikeLayer : public Module {
 public:
  BartLikeLayer(Scope scope, const BartLikeSpec& spec, int64_t index, bool is_decoder);

  struct Result {
    at::Tensor hidden;
    at::Tensor probabilities;
    at::Tensor cross_probabilities;
    at::Tensor router_logits;
  };
  /// @param encoder_hidden undefined: no cross-attention
  Result operator()(const at::Tensor& hidden, const CausalMask& mask, const at::Tensor& encoder_hidden,
                    const at::Tensor& cross_mask, AttentionKind kind, const LayerCaches& caches) const;

 private:
  at::Tensor attend(const ProjectedAttention& attention, const LayerNorm& norm, const at::Tensor& hidden,
                    const at::Tensor& encoder_hidden, const CausalMask& mask, AttentionKind kind,
                    const LayerCaches& caches, at::Tensor& probabilities) const;
  FeedForward::Result feed_forward(const at::Tensor& hidden, const at::Tensor& mask) const;
  at::Tensor limited(const at::Tensor& hidden) const;

  bool norm_before_;
  Float16Range range_;
  Activation activation_;
  ProjectedAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  std::optional<ProjectedAttention> cross_attention_;
  std::optional<LayerNorm> cross_attention_layer_norm_;
  std::optional<Linear> fc1_;
  std::optional<Linear> fc2_;
  std::unique_ptr<FeedForward> ffn_;
  std::optional<LayerNorm> final_layer_norm_;
};

/// The layers of either stack with the norms around them, declared as children of it.
class BartLikeLayers {
 public:
  /// @param child the scope of a child of the stack
  BartLikeLayers(const std::function<Scope(std::string)>& child, const BartLikeSpec& spec, bool is_decoder);

  at::Tensor begin(const at::Tensor& hidden) const { return embedding_norm_ ? (*embedding_norm_)(hidden) : hidden; }
  const BartLikeLayer& operator[](size_t index) const { return layers_[index]; }
  at::Tensor finish(const at::Tensor& hidden) const { return final_norm_ ? (*final_norm_)(hidden) : hidden; }

 private:
  ModuleList<BartLikeLayer> layers_;
  std::optional<LayerNorm> embedding_norm_;
  std::optional<LayerNorm> final_norm_;
};

class BartLikeEncoder : public EncoderStack {
 public:
  BartLikeEncoder(Scope scope, const ModelConfig& config, BartLikeSpec spec);

 protected:
  at::Tensor embed(const at::Tensor& input_ids) const override;
  at::Tensor begin(const at::Tensor& embeddings, const ForwardArgs& args, Pass& pass) const override;
  LayerOutput run_layer(size_t index, const at::Tensor& hidden, const Pass& pass) const override;
  at::Tensor finish(const at::Tensor& hidden) const override { return layers_.finish(hidden); }

 private:
  BartLikeSpec spec_;
  Embedding embed_tokens_;
  BartLikePositionTable embed_positions_;
  BartLikeLayers layers_;
};

class BartLikeDecoder : public DecoderStack {
 public:
  BartLikeDecoder(Scope scope, const ModelConfig& config, BartLikeSpec spec, CacheTraits cache);

 protected:
  at::Tensor embed(const at::Tensor& input_ids) const override;
  at::Tensor begin(const at::Tensor& embeddings, const ForwardArgs& args, Pass& pass) const override;
  LayerOutput run_layer(size_t index, const at::Tensor& hidden, const Pass& pass) const override;
  at::Tensor finish(const at::Tensor& hidden) const override { return layers_.finish(hidden); }

 private:
  BartLikeSpec spec_;
  Embedding embed_tokens_;
  BartLikePositionTable embed_positions_;
  BartLikeLayers layers_;
};

/// A decoder's caches. Alone, the reference makes as many layers as the encoder has; the decoder needs its own.
DecoderStack::CacheTraits bart_like_cache(const BartLikeSpec& spec, bool with_encoder);

/// A family's stacks, from the function that reads its spec.
template <BartLikeSpec (*read_spec)(const ModelConfig& config)>
std::unique_ptr<EncoderStack> make_bart_like_encoder(Scope scope, const ModelConfig& config) {
  return std::make_unique<BartLikeEncoder>(std::move(scope), config, read_spec(config));
}
template <BartLikeSpec (*read_spec)(const ModelConfig& config)>
std::unique_ptr<DecoderStack> make_bart_like_decoder(Scope scope, const ModelConfig& config, bool with_encoder) {
  BartLikeSpec spec = read_spec(config);
  const DecoderStack::CacheTraits cache = bart_like_cache(spec, with_encoder);
  return std::make_unique<BartLikeDecoder>(std::move(scope), config, std::move(spec), cache);
}

}  // namespace exporters::models
