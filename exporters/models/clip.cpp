// CLIP: Learning Transferable Visual Models From Natural Language Supervision
// (Radford et al., 2021).
#include "exporters/models/contrastive.h"
#include "exporters/models/vision_families.h"

namespace exporters::models {
namespace {

constexpr int64_t kProjectionDim = 512;

constexpr TowerDefaults kText{.prefix = "CLIP",
                              .hidden_size = 512,
                              .intermediate_size = 2048,
                              .heads = 8,
                              .hidden_act = "quick_gelu",
                              .eps = 1e-5};
constexpr TowerDefaults kImages{.prefix = "CLIP",
                                .hidden_size = 768,
                                .intermediate_size = 3072,
                                .heads = 12,
                                .hidden_act = "quick_gelu",
                                .eps = 1e-5};

TextTowerSpec text_spec(const ModelConfig& config) {
  TextTowerSpec spec;
  read_tower(config, kText, spec);
  spec.class_name = "CLIPTextModel";
  spec.vocab_size = config.size("vocab_size", 49408);
  spec.max_positions = config.size("max_position_embeddings", 77);
  spec.pad_token_id = config.optional_integer("pad_token_id", 1);
  spec.is_causal = true;
  spec.end_token_id = config.integer("eos_token_id", 49407);
  spec.samples_mask = true;
  return spec;
}

ImageTowerSpec image_spec(const ModelConfig& config) {
  ImageTowerSpec spec;
  read_tower(config, kImages, spec);
  spec.class_name = "CLIPVisionModel";
  spec.image = read_image_traits(config, 224, 32);
  spec.patch_bias = false;
  spec.has_class_token = true;
  return spec;
}

/// A tower's part of the whole config; older versions wrote "<name>_dict"
/// beside it, which counts where it is given.
ModelConfig tower_config(const ModelConfig& config, const std::string& name) {
  return sub_config(config, config.has(name + "_dict") ? name + "_dict" : name);
}

}  // namespace

ImageTowerSpec clip_image_tower(const ModelConfig& config) { return image_spec(config); }

std::unique_ptr<PreTrainedModel> make_clip(const ModelConfig& config) {
  ContrastiveModel::Options options;
  options.prefix = "CLIP";
  options.model = "clip";
  options.projection_dim = config.size("projection_dim", kProjectionDim);
  return std::make_unique<ContrastiveModel>(config, text_spec(tower_config(config, "text_config")),
                                            image_spec(tower_config(config, "vision_config")), options);
}

std::unique_ptr<PreTrainedModel> make_clip_classifier(const ModelConfig& config) {
  return std::make_unique<ImageTowerForClassification>(config, image_spec(tower_config(config, "vision_config")),
                                                       "CLIP");
}

std::unique_ptr<PreTrainedModel> make_clip_text(const ModelConfig& config) {
  return std::make_unique<TextTower>(Scope{}, config, text_spec(config));
}

std::unique_ptr<PreTrainedModel> make_clip_text_projected(const ModelConfig& config) {
  return std::make_unique<TextTowerWithProjection>(config, text_spec(config), "CLIP",
                                                   config.size("projection_dim", kProjectionDim));
}

std::unique_ptr<PreTrainedModel> make_clip_vision(const ModelConfig& config) {
  return std::make_unique<ImageTower>(Scope{}, config, image_spec(config));
}

std::unique_ptr<PreTrainedModel> make_clip_vision_projected(const ModelConfig& config) {
  return std::make_unique<ImageTowerWithProjection>(config, image_spec(config), "CLIP",
                                                    config.size("projection_dim", kProjectionDim));
}

}  // namespace exporters::models
