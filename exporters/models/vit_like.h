#pragma once

#include "exporters/models/layers/pre_norm_layer.h"
#include "exporters/models/vision.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::models {

// Transformers of images that are built like ViT (Dosovitskiy et al., 2020):
// patches become tokens, tokens of their own stand before them, and a norm
// after the layers. A family fills in a VitLikeSpec from its config.

struct VitLikeSpec {
  std::string prefix;  ///< of the reference's classes: "ViT"
  std::string base;    ///< the attribute that holds the bare model in the heads: "vit"
  ImageTraits image;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  double eps = 0;
  PreNormLayerOptions layer;
  std::string layers = "layers.";  ///< before the number of a layer
  bool has_distillation_token = false;
  /// Stands for hidden patches; empty: there is none.
  std::vector<int64_t> mask_token = {};
  /// Of the dense layer on the first token; 0: the bare model's pooled output
  /// is that token itself.
  int64_t pooler_size = 0;
  Activation pooler_activation = nullptr;
  /// What checkpoints call the parts of a layer, and their names now; `stored_layers` is before its number.
  std::vector<std::pair<std::string, std::string>> stored_names = {};
  std::string stored_layers = "encoder.layer.";

  int64_t first_patch() const { return has_distillation_token ? 2 : 1; }
};

/// What ViT, DeiT and DINOv2 have in common in their configs.
VitLikeSpec read_vit_like(const ModelConfig& config, std::string prefix, std::string base, int64_t patch_size,
                          double eps);

class VitEmbeddings : public Module {
 public:
  VitEmbeddings(Scope scope, const VitLikeSpec& spec);
  /// @param masked [batch, patches]: which patches the mask token stands for;
  /// may be undefined
  /// @param patches set to those of the images
  at::Tensor operator()(const at::Tensor& pixel_values, const at::Tensor& masked, bool any_size,
                        Patches& patches) const;

 private:
  int64_t own_tokens_;
  at::Tensor cls_token_;            // [1, 1, hidden]
  at::Tensor mask_token_;           // as the spec says
  at::Tensor position_embeddings_;  // [1, own tokens + patches, hidden]
  at::Tensor distillation_token_;   // [1, 1, hidden]
  PatchEmbedding patch_embeddings_;
};

/// The bare model, by itself or within a head.
class VitLikeModel : public ImageModel {
 public:
  struct Output : PooledOutput {
    EncoderStates states;  ///< before the last norm
    Patches patches;
  };

  VitLikeModel(Scope scope, const ModelConfig& config, const VitLikeSpec& spec, bool with_pooler,
               std::string class_name = {});
  Output operator()(const ForwardArgs& args, const Flags& flags) const;
  using PreTrainedModel::operator();
  at::Tensor normalise(const at::Tensor& hidden) const { return (*layernorm_)(hidden); }

  std::vector<ArgumentSpec> arguments() const override;
  std::string_view base_model_prefix() const override { return spec_.base; }
  KeyRules key_rules() const override;
  const VitLikeSpec& spec() const { return spec_; }

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override { return (*this)(args, flags).tree(); }

 private:
  VitLikeSpec spec_;
  VitEmbeddings embeddings_;
  ModuleList<PreNormLayer> layers_;
  std::optional<LayerNorm> layernorm_;
  std::optional<Linear> pooler_;
};

/// A bare model with a head on top.
class VitLikeHead : public ImageModel {
 public:
  std::vector<ArgumentSpec> arguments() const override { return model_.arguments(); }
  std::string_view base_model_prefix() const override { return model_.spec().base; }
  KeyRules key_rules() const override { return model_.key_rules(); }

 protected:
  VitLikeHead(const ModelConfig& config, const VitLikeSpec& spec, std::string_view class_name);

  VitLikeModel model_;
};

/// Scores of classes.
class VitForImageClassification : public VitLikeHead {
 public:
  /// @param with_mean the mean of the patches is read too, beside the first
  /// token
  VitForImageClassification(const ModelConfig& config, const VitLikeSpec& spec, bool with_mean = false);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  bool with_mean_;
  Linear classifier_;
};

/// Pixels from patches.
class VitForMaskedImageModeling : public VitLikeHead {
 public:
  VitForMaskedImageModeling(const ModelConfig& config, const VitLikeSpec& spec);
  std::vector<ArgumentSpec> arguments() const override;

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  int64_t stride_;
  Convolution decoder_;
};

/// The mean of two classifiers: on the first token, and on the one that learned
/// from a teacher.
class DeitForImageClassificationWithTeacher : public VitLikeHead {
 public:
  DeitForImageClassificationWithTeacher(const ModelConfig& config, const VitLikeSpec& spec);

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override;

 private:
  Linear cls_classifier_;
  Linear distillation_classifier_;
};

}  // namespace exporters::models
