// DINOv2: Learning Robust Visual Features without Supervision (Oquab et al.,
// 2023): ViT with learned factors in its layers, for images of any size.
#include "exporters/models/operators.h"
#include "exporters/models/vision_families.h"
#include "exporters/models/vit_like.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters::models {
namespace {

VitLikeSpec spec_of(const ModelConfig& config) {
  VitLikeSpec spec = read_vit_like(config, "Dinov2", "dinov2",
                                   /*patch_size=*/14, /*eps=*/1e-6);
  spec.image.always_interpolates = true;
  spec.layers = "encoder.layer.";
  if (config.flag("use_mask_token", true)) {
    spec.mask_token = {1, spec.hidden_size};
  }
  PreNormLayerOptions& layer = spec.layer;
  layer.attention_norm = "norm1";
  layer.feed_forward_norm = "norm2";
  layer.attention_scale = "layer_scale1";
  layer.feed_forward_scale = "layer_scale2";
  layer.order = "nasmft";
  FeedForwardOptions& forward = layer.feed_forward;
  forward.intermediate_size = spec.hidden_size * config.size("mlp_ratio", 4);
  if (config.flag("use_swiglu_ffn", false)) {
    forward.class_name = "Dinov2SwiGLUFFN";
    forward.is_gated = true;
    // As checkpoints have them; the reference takes the first one apart when it
    // loads them.
    forward.in_name = "weights_in";
    forward.out_name = "weights_out";
    forward.activation = activation("silu");
    // Two thirds, rounded up to a multiple of 8.
    forward.intermediate_size = (forward.intermediate_size * 2 / 3 + 7) / 8 * 8;
  }
  spec.stored_names = {
      {"attention.attention.query.", "attention.q_proj."},
      {"attention.attention.key.", "attention.k_proj."},
      {"attention.attention.value.", "attention.v_proj."},
      {"attention.output.dense.", "attention.o_proj."},
  };
  return spec;
}

/// Which of the stages "stem", "stage1", … are asked for: by name, by index, or
/// else the last one.
std::vector<size_t> stages_of(const ModelConfig& config, size_t layers) {
  const JsonField root(config.json(), config.where());
  std::vector<size_t> stages;
  if (const auto names = root.find("out_features")) {
    const std::vector<std::string> wanted = names->as_strings();
    for (size_t i = 0; i <= layers; ++i) {
      const std::string name = i == 0 ? "stem" : fmt::format("stage{}", i);
      if (std::find(wanted.begin(), wanted.end(), name) != wanted.end()) {
        stages.push_back(i);
      }
    }
    if (stages.size() != wanted.size()) {
      names->fail_here(fmt::format("names stages that are not there: they are stem, stage1, …, stage{}", layers));
    }
    return stages;
  }
  if (const auto indices = root.find("out_indices")) {
    for (const JsonField& field : indices->elements()) {
      const int64_t index = field.as_int();
      const int64_t from_front = index < 0 ? index + static_cast<int64_t>(layers) + 1 : index;
      if (from_front < 0 || from_front > static_cast<int64_t>(layers)) {
        field.fail_here(fmt::format("is {}, the model has {} stages", index, layers + 1));
      }
      stages.push_back(static_cast<size_t>(from_front));
    }
    std::sort(stages.begin(), stages.end());
    return stages;
  }
  return {layers};
}

/// The states after some layers, as maps.
class Dinov2Backbone : public VitLikeModel {
 public:
  Dinov2Backbone(const ModelConfig& config, const VitLikeSpec& spec)
      : VitLikeModel(Scope{}, config, spec, /*with_pooler=*/false, "Dinov2Backbone"),
        stages_(stages_of(config, static_cast<size_t>(spec.num_layers))),
        normalises_(config.flag("apply_layernorm", true)),
        reshapes_(config.flag("reshape_hidden_states", true)) {}

 protected:
  PyTree run(const ForwardArgs& args, const Flags& flags) const override {
    const Output output = (*this)(args, flags);
    std::vector<at::Tensor> maps;
    for (const size_t stage : stages_) {
      const at::Tensor& states = output.states.hidden_states.at(stage);
      maps.push_back(as_map(normalises_ ? normalise(states) : states, output.patches));
    }
    return PyTree::object("transformers.modeling_outputs.BackboneOutput", {{"feature_maps", tuple_of(std::move(maps))},
                                                                           {"hidden_states", output.hidden_states},
                                                                           {"attentions", output.attentions}});
  }

 private:
  // [batch, tokens, hidden] → [batch, hidden, rows, columns]
  at::Tensor as_map(const at::Tensor& states, const Patches& patches) const {
    if (!reshapes_) {
      return states;
    }
    const at::Tensor tokens = states.slice(1, spec().first_patch());
    return tokens.reshape_symint({tokens.sym_size(0), patches.rows, patches.columns, tokens.sym_size(2)})
        .permute({0, 3, 1, 2})
        .contiguous();
  }

  std::vector<size_t> stages_;
  bool normalises_;
  bool reshapes_;
};

}  // namespace

std::unique_ptr<PreTrainedModel> make_dinov2(const ModelConfig& config) {
  return std::make_unique<VitLikeModel>(Scope{}, config, spec_of(config),
                                        /*with_pooler=*/false);
}

std::unique_ptr<PreTrainedModel> make_dinov2_classifier(const ModelConfig& config) {
  return std::make_unique<VitForImageClassification>(config, spec_of(config),
                                                     /*with_mean=*/true);
}

std::unique_ptr<PreTrainedModel> make_dinov2_backbone(const ModelConfig& config) {
  return std::make_unique<Dinov2Backbone>(config, spec_of(config));
}

}  // namespace exporters::models
