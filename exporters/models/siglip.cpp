// SigLIP: Sigmoid Loss for Language Image Pre-Training (Zhai et al., 2023):
// CLIP without projections, whose texts are read in both directions and whose
// images are pooled by attention.
#include "exporters/models/contrastive.h"
#include "exporters/models/vision_families.h"

namespace exporters::models {
namespace {

constexpr TowerDefaults kTower{.prefix = "Siglip",
                               .hidden_size = 768,
                               .intermediate_size = 3072,
                               .heads = 12,
                               .hidden_act = "gelu_pytorch_tanh",
                               .eps = 1e-6,
                               .order = "namf"};

TextTowerSpec text_spec(const ModelConfig& config) {
  TextTowerSpec spec;
  read_tower(config, kTower, spec);
  spec.class_name = "SiglipTextModel";
  spec.vocab_size = config.size("vocab_size", 32000);
  spec.max_positions = config.size("max_position_embeddings", 64);
  spec.pad_token_id = config.optional_integer("pad_token_id", 1);
  spec.head_size = config.size("projection_size", spec.hidden_size);
  return spec;
}

ImageTowerSpec image_spec(const ModelConfig& config) {
  ImageTowerSpec spec;
  read_tower(config, kTower, spec);
  spec.class_name = "SiglipVisionModel";
  spec.image = read_image_traits(config, 224, 16);
  spec.has_pooling_head = config.flag("vision_use_head", true);
  spec.heads = spec.layer.attention.heads;
  return spec;
}

}  // namespace

ImageTowerSpec siglip_image_tower(const ModelConfig& config) { return image_spec(config); }

std::unique_ptr<PreTrainedModel> make_siglip(const ModelConfig& config) {
  ContrastiveModel::Options options;
  options.prefix = "Siglip";
  options.model = "siglip";
  options.has_logit_bias = true;
  options.scale_shape = {1};
  return std::make_unique<ContrastiveModel>(config, text_spec(sub_config(config, "text_config")),
                                            image_spec(sub_config(config, "vision_config")), options);
}

std::unique_ptr<PreTrainedModel> make_siglip_classifier(const ModelConfig& config) {
  return std::make_unique<ImageTowerForClassification>(config, image_spec(sub_config(config, "vision_config")),
                                                       "Siglip");
}

std::unique_ptr<PreTrainedModel> make_siglip_text(const ModelConfig& config) {
  return std::make_unique<TextTower>(Scope{}, config, text_spec(config));
}

std::unique_ptr<PreTrainedModel> make_siglip_vision(const ModelConfig& config) {
  return std::make_unique<ImageTower>(Scope{}, config, image_spec(config));
}

}  // namespace exporters::models
