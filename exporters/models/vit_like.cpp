#include "exporters/models/vit_like.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/mean.h>

#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

// [batch, channels · stride², rows, columns] → [batch, channels, rows · stride,
// columns · stride]
at::Tensor pixel_shuffle(const at::Tensor& map, int64_t stride) {
  const int64_t channels = map.sym_size(1).guard_int(__FILE__, __LINE__) / (stride * stride);
  const c10::SymInt rows = map.sym_size(2);
  const c10::SymInt columns = map.sym_size(3);
  return map.reshape_symint({map.sym_size(0), channels, stride, stride, rows, columns})
      .permute({0, 1, 4, 2, 5, 3})
      .reshape_symint({map.sym_size(0), channels, rows * stride, columns * stride});
}

PyTree with_recorded(std::string type, std::vector<std::pair<std::string, PyTree>> fields, const PooledOutput& output) {
  fields.emplace_back("hidden_states", output.hidden_states);
  fields.emplace_back("attentions", output.attentions);
  return PyTree::object(std::move(type), std::move(fields));
}

}  // namespace

VitLikeSpec read_vit_like(const ModelConfig& config, std::string prefix, std::string base, int64_t patch_size,
                          double eps) {
  config.check({});
  VitLikeSpec spec;
  spec.prefix = std::move(prefix);
  spec.base = std::move(base);
  spec.image = read_image_traits(config, 224, patch_size);
  spec.hidden_size = config.size("hidden_size", 768);
  spec.num_layers = config.size("num_hidden_layers", 12, 0, kMaxLayers);
  spec.eps = config.number("layer_norm_eps", eps);
  const int64_t heads = config.size("num_attention_heads", 12);
  spec.layer.class_name = spec.prefix + "Layer";
  const bool bias = config.flag("qkv_bias", true);
  const int64_t head_dim = config.size("head_dim", spec.hidden_size / heads);
  spec.layer.attention = {.class_name = spec.prefix + "Attention",
                          .hidden_size = spec.hidden_size,
                          .heads = heads,
                          .head_dim = head_dim,
                          .scale = 1.0 / std::sqrt(static_cast<double>(head_dim)),
                          .bias = bias,
                          .key_bias = bias,
                          .output_bias = true,
                          .names = {"q_proj", "k_proj", "v_proj", "o_proj"},
                          .order = {0, 1, 2, 3}};
  spec.layer.feed_forward = {.class_name = spec.prefix + "MLP",
                             .hidden_size = spec.hidden_size,
                             .intermediate_size = config.size("intermediate_size", 3072),
                             .activation = activation(config.string("hidden_act", "gelu"))};
  spec.layer.eps = spec.eps;
  spec.layer.attention_name = "attention";
  return spec;
}

VitEmbeddings::VitEmbeddings(Scope scope, const VitLikeSpec& spec)
    : Module(std::move(scope), spec.prefix + "Embeddings"),
      own_tokens_(spec.first_patch()),
      patch_embeddings_(child("patch_embeddings.projection"), spec.image, spec.hidden_size) {
  parameter("cls_token", cls_token_, {1, 1, spec.hidden_size});
  if (!spec.mask_token.empty()) {
    parameter("mask_token", mask_token_, spec.mask_token);
  }
  parameter("position_embeddings", position_embeddings_, {1, own_tokens_ + spec.image.patches(), spec.hidden_size});
  if (spec.has_distillation_token) {
    parameter("distillation_token", distillation_token_, {1, 1, spec.hidden_size});
  }
}

at::Tensor VitEmbeddings::operator()(const at::Tensor& pixel_values, const at::Tensor& masked, bool any_size,
                                     Patches& patches) const {
  const auto scope = enter();
  patches = patch_embeddings_(pixel_values, any_size);
  at::Tensor tokens = patches.tokens;
  if (masked.defined()) {
    const at::Tensor hides = masked.unsqueeze(-1).to(mask_token_.scalar_type());
    tokens = tokens * (1.0 - hides) + mask_token_ * hides;
  }
  const auto of_batch = [&](const at::Tensor& token) {
    return token.expand_symint({tokens.sym_size(0), 1, token.sym_size(2)});
  };
  std::vector<at::Tensor> sequence = {of_batch(cls_token_)};
  if (distillation_token_.defined()) {
    sequence.push_back(of_batch(distillation_token_));
  }
  sequence.push_back(tokens);
  const at::Tensor all = at::cat(sequence, 1);
  if (!any_size) {
    return all + position_embeddings_;
  }
  const at::Tensor own = position_embeddings_.slice(1, 0, own_tokens_);
  const at::Tensor others = position_embeddings_.slice(1, own_tokens_);
  return all + at::cat({own, interpolate_positions(others, patches.rows, patches.columns)}, 1);
}

VitLikeModel::VitLikeModel(Scope scope, const ModelConfig& config, const VitLikeSpec& spec, bool with_pooler,
                           std::string class_name)
    : ImageModel(std::move(scope), class_name.empty() ? spec.prefix + "Model" : std::move(class_name), config,
                 spec.image),
      spec_(spec),
      embeddings_(child("embeddings"), spec) {
  for (int64_t i = 0; i < spec_.num_layers; ++i) {
    layers_.emplace_back(child(fmt::format("{}{}", spec_.layers, i)), spec_.layer);
  }
  layernorm_.emplace(child("layernorm"), spec_.hidden_size, spec_.eps);
  if (with_pooler && spec_.pooler_size > 0) {
    pooler_.emplace(child("pooler.dense"), spec_.hidden_size, spec_.pooler_size);
  }
}

// Of the bare model, and of one in a head.
KeyRules VitLikeModel::key_rules() const {
  KeyRules rules;
  for (const std::string& prefix : {std::string(), spec_.base + "."}) {
    for (int64_t i = 0; i < spec_.num_layers; ++i) {
      for (const auto& [stored, now] : spec_.stored_names) {
        rules.renamed.emplace_back(fmt::format("{}{}{}.{}", prefix, spec_.stored_layers, i, stored),
                                   fmt::format("{}{}{}.{}", prefix, spec_.layers, i, now));
      }
    }
  }
  return rules;
}

std::vector<ArgumentSpec> VitLikeModel::arguments() const {
  std::vector<ArgumentSpec> specs = ImageModel::arguments();
  specs.push_back({"attention_mask", ArgumentSpec::Kind::kMask, {2, 4}});
  if (!spec_.mask_token.empty()) {
    specs.push_back({"bool_masked_pos", ArgumentSpec::Kind::kMask, {2}});
  }
  return specs;
}

VitLikeModel::Output VitLikeModel::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const at::Tensor pixel_values = args.tensor("pixel_values");
  ensure(pixel_values.defined(), "pixel_values are not given");
  Output output;
  const at::Tensor hidden = embeddings_(pixel_values, args.tensor("bool_masked_pos"), any_size(args), output.patches);
  const at::Tensor mask =
      create_bidirectional_mask(flags.attention, hidden, args.tensor("attention_mask"), hidden.sym_size(1));
  output.states = run_layers(layers_.size(), hidden, [&](size_t i, const at::Tensor& states) {
    return layers_[i](states, mask, flags.attention);
  });
  output.last_hidden_state = normalise(output.states.last_hidden_state);
  const at::Tensor first = output.last_hidden_state.select(1, 0);
  if (pooler_) {
    output.pooler_output = spec_.pooler_activation((*pooler_)(first));
  } else if (spec_.pooler_size == 0) {
    output.pooler_output = first;
  }
  output.hidden_states = flags.hidden_states ? tuple_of(output.states.hidden_states) : PyTree();
  output.attentions = flags.attentions ? tuple_of(output.states.attentions) : PyTree();
  return output;
}

VitLikeHead::VitLikeHead(const ModelConfig& config, const VitLikeSpec& spec, std::string_view class_name)
    : ImageModel(Scope{}, fmt::format("{}{}", spec.prefix, class_name), config, spec.image),
      model_(child(spec.base), config, spec, /*with_pooler=*/false) {}

VitForImageClassification::VitForImageClassification(const ModelConfig& config, const VitLikeSpec& spec, bool with_mean)
    : VitLikeHead(config, spec, "ForImageClassification"),
      with_mean_(with_mean),
      classifier_(child("classifier"), spec.hidden_size * (with_mean ? 2 : 1), config.num_labels()) {}

PyTree VitForImageClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const VitLikeModel::Output output = model_(args, flags);
  at::Tensor read = output.last_hidden_state.select(1, 0);
  if (with_mean_) {
    read = at::cat({read, at::mean(output.last_hidden_state.slice(1, model_.spec().first_patch()), 1)}, 1);
  }
  return with_recorded("transformers.modeling_outputs.ImageClassifierOutput", {{"logits", classifier_(read)}}, output);
}

VitForMaskedImageModeling::VitForMaskedImageModeling(const ModelConfig& config, const VitLikeSpec& spec)
    : VitLikeHead(config, spec, "ForMaskedImageModeling"),
      stride_(config.size("encoder_stride", 16)),
      decoder_(child("decoder.0"), {.in_channels = spec.hidden_size,
                                    .out_channels = stride_ * stride_ * spec.image.channels,
                                    .kernel = {1, 1}}) {}

std::vector<ArgumentSpec> VitForMaskedImageModeling::arguments() const {
  std::vector<ArgumentSpec> specs = VitLikeHead::arguments();
  std::erase_if(specs, [](const ArgumentSpec& spec) { return spec.name == "bool_masked_pos"; });
  specs.push_back({"bool_masked_pos", ArgumentSpec::Kind::kRefused, {}, 0, "losses are not computed"});
  return specs;
}

PyTree VitForMaskedImageModeling::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const VitLikeModel::Output output = model_(args, flags);
  const at::Tensor tokens = output.last_hidden_state.slice(1, model_.spec().first_patch());
  const at::Tensor map = tokens.transpose(1, 2).reshape_symint(
      {tokens.sym_size(0), tokens.sym_size(2), output.patches.rows, output.patches.columns});
  return with_recorded("transformers.modeling_outputs.MaskedImageModelingOutput",
                       {{"reconstruction", pixel_shuffle(decoder_(map), stride_)}}, output);
}

DeitForImageClassificationWithTeacher::DeitForImageClassificationWithTeacher(const ModelConfig& config,
                                                                             const VitLikeSpec& spec)
    : VitLikeHead(config, spec, "ForImageClassificationWithTeacher"),
      cls_classifier_(child("cls_classifier"), spec.hidden_size, config.num_labels()),
      distillation_classifier_(child("distillation_classifier"), spec.hidden_size, config.num_labels()) {}

PyTree DeitForImageClassificationWithTeacher::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const VitLikeModel::Output output = model_(args, flags);
  const at::Tensor cls_logits = cls_classifier_(output.last_hidden_state.select(1, 0));
  const at::Tensor distillation_logits = distillation_classifier_(output.last_hidden_state.select(1, 1));
  return with_recorded(
      "transformers.models.deit.modeling_deit."
      "DeiTForImageClassificationWithTeacherOutput",
      {{"logits", (cls_logits + distillation_logits) / 2},
       {"cls_logits", cls_logits},
       {"distillation_logits", distillation_logits}},
      output);
}

}  // namespace exporters::models
