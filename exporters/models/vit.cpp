// ViT: An Image is Worth 16x16 Words (Dosovitskiy et al., 2020), and DeiT
// (Touvron et al., 2020), which has a second token that learns from a teacher.
#include "exporters/models/vision_families.h"
#include "exporters/models/vit_like.h"

namespace exporters::models {
namespace {

VitLikeSpec spec_of(const ModelConfig& config, std::string prefix, std::string base) {
  VitLikeSpec spec = read_vit_like(config, std::move(prefix), std::move(base),
                                   /*patch_size=*/16, /*eps=*/1e-12);
  spec.layer.attention_norm = "layernorm_before";
  spec.layer.feed_forward_norm = "layernorm_after";
  spec.layer.order = "anmf";
  spec.pooler_size = config.size("pooler_output_size", spec.hidden_size);
  spec.pooler_activation = activation(config.string("pooler_act", "tanh"));
  spec.stored_names = {
      {"attention.attention.query.", "attention.q_proj."},
      {"attention.attention.key.", "attention.k_proj."},
      {"attention.attention.value.", "attention.v_proj."},
      {"attention.output.dense.", "attention.o_proj."},
      {"layernorm_before.", "layernorm_before."},
      {"layernorm_after.", "layernorm_after."},
      {"intermediate.dense.", "mlp.fc1."},
      {"output.dense.", "mlp.fc2."},
  };
  return spec;
}

VitLikeSpec vit(const ModelConfig& config) { return spec_of(config, "ViT", "vit"); }

VitLikeSpec deit(const ModelConfig& config) {
  VitLikeSpec spec = spec_of(config, "DeiT", "deit");
  spec.has_distillation_token = true;
  return spec;
}

VitLikeSpec with_mask_token(VitLikeSpec spec) {
  spec.mask_token = {1, 1, spec.hidden_size};
  return spec;
}

}  // namespace

std::unique_ptr<PreTrainedModel> make_vit(const ModelConfig& config) {
  return std::make_unique<VitLikeModel>(Scope{}, config, vit(config),
                                        /*with_pooler=*/true);
}

std::unique_ptr<PreTrainedModel> make_vit_classifier(const ModelConfig& config) {
  return std::make_unique<VitForImageClassification>(config, vit(config));
}

std::unique_ptr<PreTrainedModel> make_vit_masked_images(const ModelConfig& config) {
  return std::make_unique<VitForMaskedImageModeling>(config, with_mask_token(vit(config)));
}

std::unique_ptr<PreTrainedModel> make_deit(const ModelConfig& config) {
  return std::make_unique<VitLikeModel>(Scope{}, config, deit(config),
                                        /*with_pooler=*/true);
}

std::unique_ptr<PreTrainedModel> make_deit_classifier(const ModelConfig& config) {
  return std::make_unique<VitForImageClassification>(config, deit(config));
}

std::unique_ptr<PreTrainedModel> make_deit_masked_images(const ModelConfig& config) {
  return std::make_unique<VitForMaskedImageModeling>(config, with_mask_token(deit(config)));
}

std::unique_ptr<PreTrainedModel> make_deit_with_teacher(const ModelConfig& config) {
  return std::make_unique<DeitForImageClassificationWithTeacher>(config, deit(config));
}

}  // namespace exporters::models
