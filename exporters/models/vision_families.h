#pragma once

#include "exporters/models/pretrained.h"

#include <memory>

namespace exporters::models {

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
