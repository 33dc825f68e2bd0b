#pragma once

#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/layers.h"
#include "exporters/models/layers/mlp.h"
#include "exporters/models/layers/projected_attention.h"
#include "exporters/models/module.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace exporters::models {

struct FeedForwardOptions {
  std::string class_name;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  Activation activation = nullptr;
  bool is_gated = false;  ///< a FusedGatedMlp of the two names, else a PlainMlp
  std::string in_name = "fc1";
  std::string out_name = "fc2";
};

/// x · lambda1, over the last axis: Going deeper with Image Transformers
/// (Touvron et al., 2021).
class LayerScale : public Module {
 public:
  LayerScale(Scope scope, std::string class_name, int64_t width);
  at::Tensor operator()(const at::Tensor& input) const;

 private:
  at::Tensor lambda1_;
};

/// What a family calls the parts of a layer, and the order in which it declares
/// them.
struct PreNormLayerOptions {
  std::string class_name;
  ProjectedAttentionOptions attention;
  FeedForwardOptions feed_forward;
  double eps = 0;
  std::string_view attention_name = "self_attn";
  std::string_view feed_forward_name = "mlp";
  std::string_view attention_norm = "layer_norm1";
  std::string_view feed_forward_norm = "layer_norm2";
  /// Learned factors of both halves before the residual is added; empty: none.
  std::string_view attention_scale = {};
  std::string_view feed_forward_scale = {};
  /// a: attention, n: its norm, s: its scale; f: feed-forward network, m: its
  /// norm, t: its scale.
  std::string_view order = "anfm";
  /// The norms come after the residuals instead: norm(x + attention(x)), norm(x
  /// + feed_forward(x)).
  bool norms_last = false;
};

/// x + attention(norm(x)), then x + feed_forward(norm(x)).
class PreNormLayer : public Module {
 public:
  PreNormLayer(Scope scope, const PreNormLayerOptions& options);
  AttentionResult operator()(const at::Tensor& hidden, const at::Tensor& mask, AttentionKind kind,
                             bool is_causal = false) const;

 private:
  void declare(char part, const PreNormLayerOptions& options);
  at::Tensor feed_forward(const at::Tensor& hidden) const;

  bool norms_last_;
  std::optional<ProjectedAttention> attention_;
  std::optional<PlainMlp> plain_;
  std::optional<FusedGatedMlp> gated_;
  std::optional<LayerNorm> attention_norm_;
  std::optional<LayerNorm> feed_forward_norm_;
  std::optional<LayerScale> attention_scale_;
  std::optional<LayerScale> feed_forward_scale_;
};

}  // namespace exporters::models
