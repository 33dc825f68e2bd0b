#include "exporters/models/contrastive.h"

#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/index.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sum.h>
#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>

namespace exporters::models {
namespace {

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

constexpr int64_t kMaxLayers = 10'000;

// The mistaken id of the first CLIP checkpoints.
constexpr int64_t kLargestIsEnd = 2;

void record(PooledOutput& output, EncoderStates states, bool hidden_states, bool attentions) {
  output.hidden_states = hidden_states ? tuple_of(std::move(states.hidden_states)) : PyTree();
  output.attentions = attentions ? tuple_of(std::move(states.attentions)) : PyTree();
}

/// Each row divided by its length.
at::Tensor normalised(const at::Tensor& rows) {
  return rows / at::pow(at::sum(at::pow(rows, 2), -1, /*keepdim=*/true), 0.5);
}

void declare_layers(ModuleList<PreNormLayer>& layers, const std::function<Scope(std::string)>& child,
                    const TowerSpec& spec) {
  for (int64_t i = 0; i < spec.num_layers; ++i) {
    layers.emplace_back(child(fmt::format("encoder.layers.{}", i)), spec.layer);
  }
}

}  // namespace

ModelConfig sub_config(const ModelConfig& config, std::string_view name) {
  const auto field = JsonField(config.json(), config.where()).find(name);
  return ModelConfig::parse(field ? field->value().dump() : "{}", fmt::format("{}, {}", config.where(), name));
}

void read_tower(const ModelConfig& config, const TowerDefaults& defaults, TowerSpec& spec) {
  config.check({});
  spec.hidden_size = config.size("hidden_size", defaults.hidden_size);
  spec.num_layers = config.size("num_hidden_layers", 12, 0, kMaxLayers);
  spec.eps = config.number("layer_norm_eps", defaults.eps);
  const int64_t heads = config.size("num_attention_heads", defaults.heads);
  if (spec.hidden_size % heads != 0) {
    throw Error(fmt::format("config field \"hidden_size\" is {}, not a "
                            "multiple of \"num_attention_heads\", {}",
                            spec.hidden_size, heads),
                config.where());
  }
  spec.layer.class_name = fmt::format("{}EncoderLayer", defaults.prefix);
  spec.layer.attention = {.class_name = fmt::format("{}Attention", defaults.prefix),
                          .hidden_size = spec.hidden_size,
                          .heads = heads,
                          .head_dim = spec.hidden_size / heads,
                          .scale = 1.0 / std::sqrt(static_cast<double>(spec.hidden_size / heads))};
  spec.layer.feed_forward = {.class_name = fmt::format("{}MLP", defaults.prefix),
                             .hidden_size = spec.hidden_size,
                             .intermediate_size = config.size("intermediate_size", defaults.intermediate_size),
                             .activation = activation(config.string("hidden_act", defaults.hidden_act))};
  spec.layer.eps = spec.eps;
  spec.layer.order = defaults.order;
}

// ── Texts ──

TextTower::TextTower(Scope scope, const ModelConfig& config, const TextTowerSpec& spec)
    : PreTrainedModel(std::move(scope), spec.class_name, config),
      spec_(spec),
      token_embedding_(child("embeddings.token_embedding"), spec.vocab_size, spec.hidden_size),
      position_embedding_(child("embeddings.position_embedding"), spec.max_positions, spec.hidden_size) {
  declare_layers(
      layers_, [this](std::string name) { return child(std::move(name)); }, spec);
  final_layer_norm_.emplace(child("final_layer_norm"), spec.hidden_size, spec.eps);
  if (spec.head_size > 0) {
    head_.emplace(child("head"), spec.hidden_size, spec.head_size);
  }
  const int64_t count = spec.max_positions;
  buffer("embeddings.position_ids", position_ids_, [count] { return at::arange(count, int64()).unsqueeze(0); });
}

std::vector<ArgumentSpec> TextTower::arguments() const {
  using Kind = ArgumentSpec::Kind;
  return {
      {"input_ids", Kind::kIndices, {2}, spec_.vocab_size, "vocab_size"},
      {"attention_mask", Kind::kMask, {2, 4}},
      {"position_ids", Kind::kIndices, {2}, spec_.max_positions, "max_position_embeddings"},
      {"output_hidden_states", Kind::kFlag},
      {"output_attentions", Kind::kFlag},
      {"return_dict", Kind::kFlag},
  };
}

ForwardArgs TextTower::sample_inputs(const SampleSize& size) const {
  ensure(size.past == 0, "{} has no cache for a sample of {} earlier tokens", class_name(), size.past);
  ensure(size.batch >= 1 && size.sequence >= 1, "a sample has at least one row and one token, not [{}, {}]", size.batch,
         size.sequence);
  ensure(size.sequence <= spec_.max_positions,
         "a sample of {} tokens is longer than the model's {} positions "
         "(max_position_embeddings)",
         size.sequence, spec_.max_positions);
  const at::Tensor ids = sample_ids(size.batch, size.sequence, spec_.vocab_size, spec_.pad_token_id);
  ForwardArgs args{{"input_ids", ids}};
  if (spec_.samples_mask) {
    args.set("attention_mask", at::ones_like(ids));
  }
  return args;
}

AxisNames TextTower::axis_names(bool) const {
  AxisNames names;
  for (const char* input : {"input_ids", "attention_mask", "position_ids"}) {
    names[input] = {{0, {"batch"}}, {1, {"sequence", spec_.max_positions}}};
  }
  return names;
}

at::Tensor TextTower::pool(const at::Tensor& hidden, const at::Tensor& input_ids) const {
  if (!spec_.end_token_id) {
    return hidden.select(1, -1);
  }
  const at::Tensor ids = input_ids.to(c10::ScalarType::Int);
  const at::Tensor ranks =
      *spec_.end_token_id == kLargestIsEnd ? ids : at::eq(ids, *spec_.end_token_id).to(c10::ScalarType::Int);
  return at::index(hidden, {at::arange(hidden.sym_size(0), int64()), at::argmax(ranks, -1)});
}

PooledOutput TextTower::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const at::Tensor input_ids = args.tensor("input_ids");
  ensure(input_ids.defined(), "input_ids are not given");
  const c10::SymInt length = input_ids.sym_size(1);
  require(length.sym_le(spec_.max_positions), [&] {
    return c10::str("the sequence (axis 1) has ", length, " positions, the model has ", spec_.max_positions,
                    " (max_position_embeddings)");
  });
  const at::Tensor given = args.tensor("position_ids");
  const at::Tensor positions = given.defined() ? given : position_ids_.slice_symint(1, 0, length);
  const at::Tensor embeddings = token_embedding_(input_ids) + position_embedding_(positions);
  const at::Tensor attention_mask = args.tensor("attention_mask");
  const CausalMask mask =
      spec_.is_causal ? create_causal_mask(flags.attention, embeddings, attention_mask)
                      : CausalMask{create_bidirectional_mask(flags.attention, embeddings, attention_mask, length)};
  EncoderStates states = run_layers(layers_.size(), embeddings, [&](size_t i, const at::Tensor& hidden) {
    return layers_[i](hidden, mask.mask, flags.attention, mask.is_causal);
  });
  PooledOutput output;
  output.last_hidden_state = (*final_layer_norm_)(states.last_hidden_state);
  const at::Tensor pooled = pool(output.last_hidden_state, input_ids);
  output.pooler_output = head_ ? (*head_)(pooled) : pooled;
  record(output, std::move(states), flags.hidden_states, flags.attentions);
  return output;
}

// ── Images ──

ImageTowerEmbeddings::ImageTowerEmbeddings(Scope scope, const ImageTowerSpec& spec)
    : Module(std::move(scope), "VisionEmbeddings"),
      has_class_token_(spec.has_class_token),
      patch_embedding_(child("patch_embedding"), spec.image, spec.hidden_size, spec.patch_bias),
      position_embedding_(child("position_embedding"), spec.image.patches() + (has_class_token_ ? 1 : 0),
                          spec.hidden_size) {
  if (has_class_token_) {
    parameter("class_embedding", class_embedding_, {spec.hidden_size});
  }
  const int64_t count = spec.image.patches() + (has_class_token_ ? 1 : 0);
  buffer("position_ids", position_ids_, [count] { return at::arange(count, int64()).unsqueeze(0); });
}

at::Tensor ImageTowerEmbeddings::operator()(const at::Tensor& pixel_values, bool any_size) const {
  const auto scope = enter();
  const Patches patches = patch_embedding_(pixel_values, any_size);
  at::Tensor tokens = patches.tokens;
  if (has_class_token_) {
    const at::Tensor own = class_embedding_.expand_symint({tokens.sym_size(0), 1, tokens.sym_size(2)});
    tokens = at::cat({own, tokens}, 1);
  }
  if (!any_size) {
    return tokens + position_embedding_(position_ids_);
  }
  const at::Tensor table = position_embedding_.weight().unsqueeze(0);
  if (!has_class_token_) {
    return tokens + interpolate_positions(table, patches.rows, patches.columns);
  }
  const at::Tensor others = interpolate_positions(table.slice(1, 1), patches.rows, patches.columns);
  return tokens + at::cat({table.slice(1, 0, 1), others}, 1);
}

AttentionPoolingHead::AttentionPoolingHead(Scope scope, const ImageTowerSpec& spec)
    : Module(std::move(scope), "MultiheadAttentionPoolingHead"),
      hidden_size_(spec.hidden_size),
      heads_(spec.heads),
      attention_(child("attention"), spec) {
  parameter("probe", probe_, {1, 1, hidden_size_});
  layernorm_.emplace(child("layernorm"), hidden_size_, spec.eps);
  const FeedForwardOptions& forward = spec.layer.feed_forward;
  mlp_.emplace(child("mlp"),
               MlpOptions{forward.class_name, hidden_size_, forward.intermediate_size, forward.activation, true},
               forward.in_name, forward.out_name);
}

AttentionPoolingHead::Attention::Attention(Scope scope, const ImageTowerSpec& spec)
    : Module(std::move(scope), "MultiheadAttention"), out_proj(child("out_proj"), spec.hidden_size, spec.hidden_size) {
  parameter("in_proj_weight", in_weight, {3 * spec.hidden_size, spec.hidden_size});
  parameter("in_proj_bias", in_bias, {3 * spec.hidden_size});
}

at::Tensor AttentionPoolingHead::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  const int64_t head_dim = hidden_size_ / heads_;
  const auto project = [&](const at::Tensor& states, int64_t part) {
    const auto rows = [&](const at::Tensor& t) { return t.slice(0, part * hidden_size_, (part + 1) * hidden_size_); };
    return split_heads(at::linear(states, rows(attention_.in_weight), rows(attention_.in_bias)), heads_, head_dim);
  };
  const at::Tensor probe = probe_.expand_symint({hidden.sym_size(0), 1, hidden_size_});
  const AttentionResult attended = attention(AttentionKind::kSdpa, project(probe, 0), project(hidden, 1),
                                             project(hidden, 2), {}, 1.0 / std::sqrt(static_cast<double>(head_dim)));
  const at::Tensor pooled = attention_.out_proj(attended.output);
  return (pooled + (*mlp_)((*layernorm_)(pooled))).select(1, 0);
}

ImageTower::ImageTower(Scope scope, const ModelConfig& config, const ImageTowerSpec& spec)
    : ImageModel(std::move(scope), spec.class_name, config, spec.image),
      spec_(spec),
      embeddings_(child("embeddings"), spec) {
  if (spec.has_class_token) {
    pre_norm_.emplace(child("pre_layrnorm"), spec.hidden_size, spec.eps);
  }
  declare_layers(
      layers_, [this](std::string name) { return child(std::move(name)); }, spec);
  post_layernorm_.emplace(child("post_layernorm"), spec.hidden_size, spec.eps);
  if (spec.has_pooling_head) {
    head_.emplace(child("head"), spec);
  }
}

// With a token of its own, the last norm is for that one alone.
PooledOutput ImageTower::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const at::Tensor pixel_values = args.tensor("pixel_values");
  ensure(pixel_values.defined(), "pixel_values are not given");
  at::Tensor hidden = embeddings_(pixel_values, any_size(args));
  if (pre_norm_) {
    hidden = (*pre_norm_)(hidden);
  }
  EncoderStates states = run_layers(
      layers_.size(), hidden, [&](size_t i, const at::Tensor& each) { return layers_[i](each, {}, flags.attention); });
  PooledOutput output;
  if (spec_.has_class_token) {
    output.last_hidden_state = states.last_hidden_state;
    output.pooler_output = (*post_layernorm_)(states.last_hidden_state.select(1, 0));
  } else {
    output.last_hidden_state = (*post_layernorm_)(states.last_hidden_state);
    output.pooler_output = head_ ? (*head_)(output.last_hidden_state) : at::Tensor();
  }
  record(output, std::move(states), flags.hidden_states, flags.attentions);
  return output;
}

// ── Heads ──

namespace {

PyTree projected(std::string type, const char* field, const at::Tensor& embeds, const PooledOutput& output) {
  return PyTree::object(std::move(type), {{field, embeds},
                                          {"last_hidden_state", output.last_hidden_state},
                                          {"hidden_states", output.hidden_states},
                                          {"attentions", output.attentions}});
}

std::string output_class(std::string_view model, std::string_view prefix, std::string_view name) {
  return fmt::format("transformers.models.{0}.modeling_{0}.{1}{2}", model, prefix, name);
}

}  // namespace

TextTowerWithProjection::TextTowerWithProjection(const ModelConfig& config, const TextTowerSpec& spec,
                                                 std::string_view prefix, int64_t projection_dim)
    : PreTrainedModel(Scope{}, fmt::format("{}TextModelWithProjection", prefix), config),
      output_class_(output_class("clip", prefix, "TextModelOutput")),
      text_model_(child("text_model"), config, spec),
      text_projection_(child("text_projection"), spec.hidden_size, projection_dim, /*bias=*/false) {}

PyTree TextTowerWithProjection::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const PooledOutput output = text_model_(args, flags);
  return projected(output_class_, "text_embeds", text_projection_(output.pooler_output), output);
}

ImageTowerWithProjection::ImageTowerWithProjection(const ModelConfig& config, const ImageTowerSpec& spec,
                                                   std::string_view prefix, int64_t projection_dim)
    : ImageModel(Scope{}, fmt::format("{}VisionModelWithProjection", prefix), config, spec.image),
      output_class_(output_class("clip", prefix, "VisionModelOutput")),
      vision_model_(child("vision_model"), config, spec),
      visual_projection_(child("visual_projection"), spec.hidden_size, projection_dim, /*bias=*/false) {}

PyTree ImageTowerWithProjection::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const PooledOutput output = vision_model_(args, flags);
  return projected(output_class_, "image_embeds", visual_projection_(output.pooler_output), output);
}

ImageTowerForClassification::ImageTowerForClassification(const ModelConfig& config, const ImageTowerSpec& spec,
                                                         std::string_view prefix)
    : ImageModel(Scope{}, fmt::format("{}ForImageClassification", prefix), config, spec.image),
      first_patch_(spec.has_class_token ? 1 : 0),
      vision_model_(child("vision_model"), config, spec),
      classifier_(child("classifier"), spec.hidden_size, config.num_labels()) {}

PyTree ImageTowerForClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const PooledOutput output = vision_model_(args, flags);
  const at::Tensor mean = at::mean(output.last_hidden_state.slice(1, first_patch_), 1);
  return PyTree::object(
      "transformers.modeling_outputs.ImageClassifierOutput",
      {{"logits", classifier_(mean)}, {"hidden_states", output.hidden_states}, {"attentions", output.attentions}});
}

ContrastiveModel::ContrastiveModel(const ModelConfig& config, const TextTowerSpec& text, const ImageTowerSpec& image,
                                   const Options& options)
    : PreTrainedModel(Scope{}, options.prefix + "Model", config),
      options_(options),
      text_model_(child("text_model"), config, text),
      vision_model_(child("vision_model"), config, image) {
  parameter("logit_scale", logit_scale_, options.scale_shape);
  if (options.has_logit_bias) {
    parameter("logit_bias", logit_bias_, {1});
  }
  if (options.projection_dim > 0) {
    visual_projection_.emplace(child("visual_projection"), image.hidden_size, options.projection_dim, /*bias=*/false);
    text_projection_.emplace(child("text_projection"), text.hidden_size, options.projection_dim, /*bias=*/false);
  }
}

std::vector<ArgumentSpec> ContrastiveModel::arguments() const {
  std::vector<ArgumentSpec> specs = text_model_.arguments();
  for (ArgumentSpec& spec : vision_model_.arguments()) {
    if (spec.name == "pixel_values" || spec.name == "interpolate_pos_encoding") {
      specs.push_back(std::move(spec));
    }
  }
  specs.push_back({"return_loss", ArgumentSpec::Kind::kRefused, {}, 0, "losses are not computed"});
  return specs;
}

// As many images as texts.
ForwardArgs ContrastiveModel::sample_inputs(const SampleSize& size) const {
  ForwardArgs args = text_model_.sample_inputs(size);
  for (const auto& [name, value] : vision_model_.sample_inputs(size)) {
    args.set(name, value);
  }
  return args;
}

AxisNames ContrastiveModel::axis_names(bool with_cache) const {
  AxisNames names = text_model_.axis_names(with_cache);
  names["pixel_values"] = vision_model_.axis_names(with_cache).at("pixel_values");
  names["pixel_values"][0] = {"images"};
  return names;
}

PyTree ContrastiveModel::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  PooledOutput images = vision_model_(args, flags);
  PooledOutput texts = text_model_(args, flags);
  if (visual_projection_) {
    images.pooler_output = (*visual_projection_)(images.pooler_output);
    texts.pooler_output = (*text_projection_)(texts.pooler_output);
  }
  ensure(images.pooler_output.defined(), "the images are not pooled (config field \"vision_use_head\" is false)");
  const at::Tensor image_embeds = normalised(images.pooler_output);
  const at::Tensor text_embeds = normalised(texts.pooler_output);
  at::Tensor per_text = at::matmul(text_embeds, image_embeds.t()) * at::exp(logit_scale_);
  if (logit_bias_.defined()) {
    per_text = per_text + logit_bias_;
  }
  return PyTree::object(output_class(options_.model, options_.prefix, "Output"),
                        {{"logits_per_image", per_text.t()},
                         {"logits_per_text", per_text},
                         {"text_embeds", text_embeds},
                         {"image_embeds", image_embeds},
                         {"text_model_output", texts.tree()},
                         {"vision_model_output", images.tree()}});
}

}  // namespace exporters::models
