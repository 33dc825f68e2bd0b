#pragma once

#include "exporters/models/layers/pre_norm_layer.h"
#include "exporters/models/vision.h"

#include <optional>
#include <string>
#include <vector>

namespace exporters::models {

// Models that put images and texts into one space, as CLIP does (Radford et
// al., 2021): a tower of layers for each, and the similarity of what they give.

/// What both towers have.
struct TowerSpec {
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  double eps = 0;
  PreNormLayerOptions layer;
};

/// What the config class of a tower has where a field is not set, and what the
/// reference calls its parts.
struct TowerDefaults {
  std::string_view prefix;  ///< of its classes: "CLIP"
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t heads;
  std::string_view hidden_act;
  double eps;
  std::string_view order = "anfm";  ///< see PreNormLayerOptions
};

/// What the configs of towers have in common. Throws Error for values that make
/// no sense.
void read_tower(const ModelConfig& config, const TowerDefaults& defaults, TowerSpec& spec);

struct TextTowerSpec : TowerSpec {
  std::string class_name;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  std::optional<int64_t> pad_token_id;
  /// A token sees those before it only.
  bool is_causal = false;
  /// The pooled token: the first one of this id, or, for 2, that with the
  /// largest id; nothing: the last one.
  std::optional<int64_t> end_token_id = {};
  /// Of a dense layer on the pooled token; 0: none.
  int64_t head_size = 0;
  /// Whether its tokenizers give attention_mask.
  bool samples_mask = false;
};

struct ImageTowerSpec : TowerSpec {
  std::string class_name;
  ImageTraits image;
  bool patch_bias = true;
  /// A token of its own before the patches, which is pooled, and a norm before
  /// the layers. Else attention pools.
  bool has_class_token = false;
  bool has_pooling_head = false;
  int64_t heads = 0;  ///< of the attention that pools
};

/// A part of a config that is a config of its own. Absent or null: one with
/// nothing in it.
ModelConfig sub_config(const ModelConfig& config, std::string_view name);

class TextTower : public PreTrainedModel {
 public:
  TextTower(Scope scope, const ModelConfig& config, const TextTowerSpec& spec);
  PooledOutput operator()(const ForwardArgs& args, const Flags& flags) const;
  using PreTrainedModel::operator();

  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return "text_model"; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override { return (*this)(args, flags).tree(); }

 private:
  at::Tensor pool(const at::Tensor& hidden, const at::Tensor& input_ids) const;

  TextTowerSpec spec_;
  Embedding token_embedding_;
  Embedding position_embedding_;
  at::Tensor position_ids_;  // [1, max_positions]
  ModuleList<PreNormLayer> layers_;
  std::optional<LayerNorm> final_layer_norm_;
  std::optional<Linear> head_;
};

class ImageTowerEmbeddings : public Module {
 public:
  ImageTowerEmbeddings(Scope scope, const ImageTowerSpec& spec);
  at::Tensor operator()(const at::Tensor& pixel_values, bool any_size) const;

 private:
  bool has_class_token_;
  at::Tensor class_embedding_;  // [hidden]
  PatchEmbedding patch_embedding_;
  Embedding position_embedding_;
  at::Tensor position_ids_;  // [1, positions]
};

/// A learned query attends to all tokens: [batch, tokens, hidden] → [batch,
/// hidden].
class AttentionPoolingHead : public Module {
 public:
  AttentionPoolingHead(Scope scope, const ImageTowerSpec& spec);
  at::Tensor operator()(const at::Tensor& hidden) const;

 private:
  struct Attention : Module {
    Attention(Scope scope, const ImageTowerSpec& spec);
    at::Tensor in_weight;  // [3 · hidden, hidden]: query, key, value
    at::Tensor in_bias;
    Linear out_proj;
  };

  int64_t hidden_size_;
  int64_t heads_;
  at::Tensor probe_;  // [1, 1, hidden]
  Attention attention_;
  std::optional<LayerNorm> layernorm_;
  std::optional<PlainMlp> mlp_;
};

class ImageTower : public ImageModel {
 public:
  ImageTower(Scope scope, const ModelConfig& config, const ImageTowerSpec& spec);
  PooledOutput operator()(const ForwardArgs& args, const Flags& flags) const;
  using PreTrainedModel::operator();
  std::string_view base_model_prefix() const override { return "vision_model"; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override { return (*this)(args, flags).tree(); }

 private:
  ImageTowerSpec spec_;
  ImageTowerEmbeddings embeddings_;
  std::optional<LayerNorm> pre_norm_;
  ModuleList<PreNormLayer> layers_;
  std::optional<LayerNorm> post_layernorm_;
  std::optional<AttentionPoolingHead> head_;
};

/// A tower and a projection of what it pools, without bias: "text_projection"
/// or "visual_projection".
class TextTowerWithProjection : public PreTrainedModel {
 public:
  TextTowerWithProjection(const ModelConfig& config, const TextTowerSpec& spec, std::string_view prefix,
                          int64_t projection_dim);
  std::vector<ArgumentSpec> arguments() const override { return text_model_.arguments(); }
  ForwardArgs sample_inputs(const SampleSize& size) const override { return text_model_.sample_inputs(size); }
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override { return text_model_.axis_names(with_cache); }
  std::string_view base_model_prefix() const override { return "text_model"; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  std::string output_class_;
  TextTower text_model_;
  Linear text_projection_;
};

class ImageTowerWithProjection : public ImageModel {
 public:
  ImageTowerWithProjection(const ModelConfig& config, const ImageTowerSpec& spec, std::string_view prefix,
                           int64_t projection_dim);
  std::string_view base_model_prefix() const override { return "vision_model"; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  std::string output_class_;
  ImageTower vision_model_;
  Linear visual_projection_;
};

/// Scores of classes from the mean of the patches.
class ImageTowerForClassification : public ImageModel {
 public:
  ImageTowerForClassification(const ModelConfig& config, const ImageTowerSpec& spec, std::string_view prefix);
  std::string_view base_model_prefix() const override { return "vision_model"; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  int64_t first_patch_;
  ImageTower vision_model_;
  Linear classifier_;
};

/// How alike each text is to each image.
class ContrastiveModel : public PreTrainedModel {
 public:
  struct Options {
    std::string prefix;          ///< of the reference's classes: "CLIP"
    std::string model;           ///< the reference's module: "clip"
    int64_t projection_dim = 0;  ///< of both projections; 0: there are none
    bool has_logit_bias = false;
    std::vector<int64_t> scale_shape = {};
  };
  ContrastiveModel(const ModelConfig& config, const TextTowerSpec& text, const ImageTowerSpec& image,
                   const Options& options);
  std::vector<ArgumentSpec> arguments() const override;
  ForwardArgs sample_inputs(const SampleSize& size) const override;
  using PreTrainedModel::axis_names;
  AxisNames axis_names(bool with_cache) const override;
  std::string_view base_model_prefix() const override { return options_.model; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Options options_;
  at::Tensor logit_scale_;
  at::Tensor logit_bias_;
  TextTower text_model_;
  ImageTower vision_model_;
  std::optional<Linear> visual_projection_;
  std::optional<Linear> text_projection_;
};

}  // namespace exporters::models
