#pragma once

#include "exporters/models/pretrained.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace exporters::models {

struct ImageTowerSpec;

// The models of images, and of images and texts, without weights. Each throws
// Error for values of the config that change the computation in a way that is
// not implemented.

std::unique_ptr<PreTrainedModel> make_vit(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_vit_classifier(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_vit_masked_images(const ModelConfig& config);

std::unique_ptr<PreTrainedModel> make_deit(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_deit_classifier(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_deit_masked_images(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_deit_with_teacher(const ModelConfig& config);

std::unique_ptr<PreTrainedModel> make_dinov2(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_dinov2_classifier(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_dinov2_backbone(const ModelConfig& config);

// Towers of images as parts of other models, by their own configs.
ImageTowerSpec clip_image_tower(const ModelConfig& config);
ImageTowerSpec siglip_image_tower(const ModelConfig& config);

std::unique_ptr<PreTrainedModel> make_llava(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_llava_generator(const ModelConfig& config);
/// The boundary of the text's model, see models::cache_boundary.
std::optional<int64_t> llava_cache_boundary(const ModelConfig& config);

std::unique_ptr<PreTrainedModel> make_clip(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_clip_classifier(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_clip_text(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_clip_text_projected(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_clip_vision(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_clip_vision_projected(const ModelConfig& config);

std::unique_ptr<PreTrainedModel> make_siglip(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_siglip_classifier(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_siglip_text(const ModelConfig& config);
std::unique_ptr<PreTrainedModel> make_siglip_vision(const ModelConfig& config);

}  // namespace exporters::models
