#pragma once

#include "exporters/models/decoder.h"
#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/mlp.h"
#include "exporters/models/layers/norms.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace exporters::models {

// Decoders that are built like LLaMA (Touvron et al., 2023): rotary positions, root-mean-square norms, attention and
// MLP one after the other with residuals around them, and the checkpoint's names "layers.N.self_attn.q_proj", "mlp", …
// A family fills in a LlamaLikeSpec from its config; the rest is here.

/// Where a layer normalises.
enum class NormPlacement {
  kBefore,  ///< before attention and before the MLP (llama)
  kAfter,   ///< after each of them, before the residual is added (olmo2)
  kAround,  ///< before and after each (gemma2)
};

/// Norms of queries and keys before they are rotated.
enum class QueryKeyNorm {
  kNone,
  kPerHead,     ///< over each head
  kProjection,  ///< over all heads of a token at once
};

/// kOwn: what LlamaLikeSpec::make_mlp makes.
enum class MlpKind { kGated, kFusedGated, kPlain, kOwn };

/// What stands for the MLP of a layer.
class LlamaLikeMlp : public Module {
 public:
  using Module::Module;
  virtual at::Tensor operator()(const at::Tensor& hidden) const = 0;
};

struct LlamaLikeLayer {
  std::optional<int64_t> sliding_window;
  /// Index into LlamaLikeSpec::ropes; nothing: queries and keys are not rotated.
  std::optional<size_t> rope = 0;
};

struct LlamaLikeSpec {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  std::vector<LlamaLikeLayer> layers;
  std::optional<int64_t> pad_token_id;
  bool tie_word_embeddings = false;
  bool returns_given_cache = true;
  bool packs_sequences = true;  ///< see DecoderTraits

  /// Nothing: layer norms with bias.
  std::optional<RmsNormKind> norm = RmsNormKind::kWeightInDtype;
  double norm_eps = 1e-6;
  NormPlacement norm_placement = NormPlacement::kBefore;

  bool query_key_value_bias = false;
  bool attention_output_bias = false;
  bool fused_query_key_value = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  double attention_scale = 1.0;
  std::optional<double> attention_softcap;
  bool attention_sinks = false;  ///< a learned score for each head that attends to nothing

  /// Prefixes of the rotary embedding's buffers are names; one without a name has none.
  std::vector<std::pair<std::string, RopeParameters>> ropes;
  /// Queries and keys are rotated in float32 also in models of lower precision.
  bool rotates_in_float32 = false;

  MlpKind mlp = MlpKind::kGated;
  bool mlp_bias = false;
  Activation activation = nullptr;
  /// Makes the module "mlp" of a layer, where it is none of the above; null: it is one.
  std::function<std::unique_ptr<LlamaLikeMlp>(Scope scope, size_t layer)> make_mlp = {};

  /// Of embedded tokens only; with this, the embedding is a module with a buffer (gemma).
  std::optional<double> embedding_scale;
  /// Of tokens and of inputs_embeds.
  double embedding_multiplier = 1.0;
  double residual_multiplier = 1.0;
  double logits_scaling = 1.0;
  std::optional<double> final_logit_softcap;
};

/// Fields that all families call the same, with the defaults that differ given.
struct LlamaLikeDefaults {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  ///< nothing: as many as attention heads
  std::optional<int64_t> head_dim = {};             ///< nothing: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  double norm_eps = 1e-6;
  std::optional<int64_t> pad_token_id = {};
  bool tie_word_embeddings = false;
  const char* norm_eps_field = "rms_norm_eps";
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
};

/// Reads those fields; layers see everything. No rope yet. Throws Error for values that contradict each other, and for
/// fields of `rules` with other values.
LlamaLikeSpec read_llama_like(const ModelConfig& config, const LlamaLikeDefaults& defaults,
                              std::span<const FieldRule> rules = {});

/// What the shared code needs to know of it.
DecoderTraits decoder_traits(const LlamaLikeSpec& spec);

/// Rope parameters for the heads of `spec`.
RopeDefaults rope_defaults(const LlamaLikeSpec& spec, double theta = 10000.0);

/// Sliding windows by "layer_types" of the config: "sliding_attention" or "full_attention" for each layer. Without the
/// field, `is_sliding` says. Throws Error for other types.
void read_layer_types(LlamaLikeSpec& spec, const ModelConfig& config, std::optional<int64_t> sliding_window,
                      const std::function<bool(size_t)>& is_sliding);

/// The same sliding window in every layer; nothing: none has one. Throws Error when it is not positive.
void slide_all(LlamaLikeSpec& spec, const ModelConfig& config, std::optional<int64_t> sliding_window);

class LlamaLikeAttention : public Module {
 public:
  LlamaLikeAttention(Scope scope, const std::string& prefix, const LlamaLikeSpec& spec);
  /// @param rotary null: queries and keys are not rotated
  AttentionResult operator()(const at::Tensor& hidden, const RotaryPositions* rotary, const CausalMask& mask,
                             CacheLayer* cache, AttentionKind kind) const;

 private:
  struct Projected {
    at::Tensor query;
    at::Tensor key;
    at::Tensor value;
  };
  Projected project(const at::Tensor& hidden) const;
  at::Tensor heads_of(const at::Tensor& projected, int64_t heads, const std::optional<RmsNorm>& norm) const;

  int64_t heads_;
  int64_t key_value_heads_;
  int64_t head_dim_;
  QueryKeyNorm query_key_norm_;
  AttentionOptions options_;
  at::Tensor sinks_;  // [heads]
  std::optional<Linear> q_proj_;
  std::optional<Linear> k_proj_;
  std::optional<Linear> v_proj_;
  std::optional<Linear> o_proj_;
  std::optional<Linear> qkv_proj_;
  std::optional<RmsNorm> q_norm_;
  std::optional<RmsNorm> k_norm_;
};

/// A norm of either kind.
class LlamaLikeNorm {
 public:
  LlamaLikeNorm(Scope scope, const std::string& prefix, const LlamaLikeSpec& spec);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  std::optional<RmsNorm> rms_;
  std::optional<LayerNorm> layer_;
};

class LlamaLikeDecoderLayer : public Module {
 public:
  LlamaLikeDecoderLayer(Scope scope, const std::string& prefix, const LlamaLikeSpec& spec, size_t index);
  AttentionResult operator()(const at::Tensor& hidden, const RotaryPositions* rotary, const CausalMask& mask,
                             CacheLayer* cache, AttentionKind kind) const;

 private:
  at::Tensor mlp(const at::Tensor& hidden) const;

  double residual_multiplier_;
  LlamaLikeAttention self_attn_;
  std::unique_ptr<LlamaLikeMlp> own_mlp_;
  std::variant<std::monostate, GatedMlp, FusedGatedMlp, PlainMlp> mlp_;
  std::optional<LlamaLikeNorm> input_layernorm_;
  std::optional<LlamaLikeNorm> post_attention_layernorm_;
  std::optional<LlamaLikeNorm> pre_feedforward_layernorm_;
  std::optional<LlamaLikeNorm> post_feedforward_layernorm_;
  NormPlacement placement_;
};

/// An embedding whose rows are scaled by a number that stands as a buffer beside them.
class ScaledEmbedding : public Module {
 public:
  ScaledEmbedding(Scope scope, std::string class_name, int64_t count, int64_t width, std::optional<int64_t> padding_idx,
                  double scale);
  at::Tensor operator()(const at::Tensor& indices) const;

 private:
  int64_t padding_idx_;
  at::Tensor weight_;
  at::Tensor embed_scale_;  // 0-d float32
};

class LlamaLikeModel : public DecoderModel {
 public:
  LlamaLikeModel(Scope scope, const DecoderFamily& family, const ModelConfig& config, LlamaLikeSpec spec);

 protected:
  at::Tensor embed(const at::Tensor& input_ids) const override;
  at::Tensor begin(const at::Tensor& embeddings, Pass& pass) const override;
  AttentionResult run_layer(size_t index, const at::Tensor& hidden, const LayerInputs& inputs) const override;
  at::Tensor finish(const at::Tensor& hidden) const override;

 private:
  LlamaLikeSpec spec_;
  std::optional<Embedding> embed_tokens_;
  std::optional<ScaledEmbedding> scaled_embed_tokens_;
  ModuleList<LlamaLikeDecoderLayer> layers_;
  std::optional<LlamaLikeNorm> norm_;
  std::optional<RotaryEmbedding> rotary_emb_;
};

}  // namespace exporters::models
