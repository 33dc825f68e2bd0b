// LLaVA: Visual Instruction Tuning (Liu et al., 2023). The states of an image tower, projected, stand for tokens of a
// decoder's text.
#include "exporters/models/llava.h"

#include "exporters/models/image_features.h"
#include "exporters/models/operators.h"
#include "exporters/models/registry.h"
#include "exporters/models/samples.h"
#include "exporters/models/vision_families.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"

#include <ATen/ops/all.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace exporters::models {
namespace {

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

struct Tower {
  std::string_view model_type;
  ImageTowerSpec (*spec)(const ModelConfig& config);
};
constexpr Tower kTowers[] = {{"clip_vision_model", clip_image_tower}, {"siglip_vision_model", siglip_image_tower}};

/// A part of the config; where it is left out, or does not say which model it is of, `fallback` counts.
ModelConfig part_config(const ModelConfig& config, const char* name, nlohmann::json fallback) {
  nlohmann::json fields = sub_config(config, name).json();
  if (fields.empty()) {
    fields = std::move(fallback);
  } else if (!fields.contains("model_type")) {
    fields["model_type"] = fallback.at("model_type");
  }
  return ModelConfig::parse(fields.dump(), fmt::format("{}, {}", config.where(), name));
}

ModelConfig text_config(const ModelConfig& config) {
  return part_config(config, "text_config", {{"model_type", "llama"}});
}

ModelConfig vision_config(const ModelConfig& config) {
  return part_config(config, "vision_config",
                     {{"model_type", "clip_vision_model"},
                      {"intermediate_size", 4096},
                      {"hidden_size", 1024},
                      {"patch_size", 14},
                      {"image_size", 336},
                      {"num_hidden_layers", 24},
                      {"num_attention_heads", 16}});
}

ImageTowerSpec tower_spec(const ModelConfig& config) {
  std::vector<std::string_view> known;
  for (const Tower& tower : kTowers) {
    if (tower.model_type == config.model_type()) {
      return tower.spec(config);
    }
    known.push_back(tower.model_type);
  }
  throw Error(fmt::format("model type \"{}\" is not supported as an encoder of images", config.model_type()),
              config.where(), suggest(config.model_type(), known));
}

PyTree only_layers(const PyTree& hidden_states, const std::vector<size_t>& layers) {
  std::vector<PyTree> kept(hidden_states.children().size());
  for (const size_t layer : layers) {
    kept[layer] = hidden_states.children()[layer];
  }
  return PyTree::tuple(std::move(kept));
}

// The reference lists one tensor for each image; where their number is symbolic, they stay in one.
PyTree by_image(const at::Tensor& features) {
  const auto count = features.sym_size(0).maybe_as_int();
  if (!count) {
    return features;
  }
  std::vector<PyTree> images;
  for (int64_t i = 0; i < *count; ++i) {
    images.emplace_back(features.select(0, i));
  }
  return PyTree::list(std::move(images));
}

/// What the encoder gave with the projected features in place of what it pools. As a tuple, fields stand in the order
/// in which the reference sets them: what a tower does not pool comes last.
PyTree image_outputs(const PooledOutput& images, const at::Tensor& features, bool as_tuple) {
  std::vector<std::pair<std::string, PyTree>> fields = {{"last_hidden_state", images.last_hidden_state},
                                                        {"pooler_output", by_image(features)},
                                                        {"hidden_states", images.hidden_states},
                                                        {"attentions", images.attentions}};
  if (as_tuple && !images.pooler_output.defined()) {
    std::rotate(fields.begin() + 1, fields.begin() + 2, fields.end());
  }
  const PyTree output = PyTree::object("transformers.modeling_outputs.BaseModelOutputWithPooling", std::move(fields));
  return as_tuple ? PyTree::tuple(output.children()) : output;
}

PyTree output_of(std::string_view name, const char* first, const at::Tensor& value, const LlavaModel::Output& output) {
  return PyTree::object(fmt::format("transformers.models.llava.modeling_llava.{}", name),
                        {{first, value},
                         {"cache", output.text.cache},
                         {"hidden_states", output.text.hidden_states},
                         {"attentions", output.text.attentions},
                         {"image_outputs", output.images}});
}

}  // namespace

// ── Parts ──

LlavaImageEncoder::LlavaImageEncoder(Scope scope, const ModelConfig& config, const ImageTowerSpec& spec,
                                     ImageFeatureTraits features)
    : ImageTower(std::move(scope), config, spec),
      features_(std::move(features)),
      feature_count_(spec.image.patches() + (spec.has_class_token ? 1 : 0) - (features_.drops_first_token ? 1 : 0)) {
  feature_layers(features_, static_cast<size_t>(spec.num_layers) + 1);
}

PooledOutput LlavaImageEncoder::operator()(const ForwardArgs& args, const Flags& flags) const {
  Flags all = flags;
  all.hidden_states = true;
  PooledOutput output = ImageTower::operator()(args, all);
  if (!flags.hidden_states) {
    const std::vector<size_t> layers = feature_layers(features_, output.hidden_states.children().size());
    output.hidden_states = only_layers(output.hidden_states, layers);
  }
  return output;
}

LlavaMultiModalProjector::LlavaMultiModalProjector(Scope scope, const ModelConfig& config, int64_t in_features,
                                                   int64_t out_features)
    : PreTrainedModel(std::move(scope), "LlavaMultiModalProjector", config),
      in_features_(in_features),
      linear_1_(child("linear_1"), in_features, out_features, config.flag("multimodal_projector_bias", true)),
      activation_(activation(config.string("projector_hidden_act", "gelu"))),
      linear_2_(child("linear_2"), out_features, out_features, config.flag("multimodal_projector_bias", true)) {}

at::Tensor LlavaMultiModalProjector::operator()(const at::Tensor& image_features) const {
  const auto scope = enter();
  return linear_2_(activation_(linear_1_(image_features)));
}

std::vector<ArgumentSpec> LlavaMultiModalProjector::arguments() const {
  return {{"image_features", ArgumentSpec::Kind::kFloats, {3}}};
}

ForwardArgs LlavaMultiModalProjector::sample_inputs(const SampleSize& size) const {
  return {
      {"image_features", sample_values({size.batch, size.sequence, in_features_}, /*seed=*/0).to(parameter_dtype())}};
}

AxisNames LlavaMultiModalProjector::axis_names(bool) const {
  return {{"image_features", {{0, {"batch"}}, {1, {}}, {2, {}}}}};  // images of one size
}

PyTree LlavaMultiModalProjector::run(const ForwardArgs& args, const Flags&) const {
  return (*this)(args.tensor("image_features"));
}

// ── The model ──

LlavaModel::LlavaModel(Scope scope, const ModelConfig& config)
    : PreTrainedModel(std::move(scope), "LlavaModel", config), features_(read_image_features(config)) {
  config.check({});
  const ModelConfig text = text_config(config);
  const ModelConfig vision = vision_config(config);
  const ImageTowerSpec tower = tower_spec(vision);
  vision_tower_.emplace(child("vision_tower"), vision, tower, features_);
  // Made before the projector, which is declared before it.
  const int64_t hidden_size = make_decoder(Scope{}, text)->traits().hidden_size;
  const auto layers = static_cast<int64_t>(features_.feature_layers.size());
  multi_modal_projector_.emplace(child("multi_modal_projector"), config, layers * tower.hidden_size, hidden_size);
  language_model_ = make_decoder(child("language_model"), text);
  embed_tokens_.emplace(child("embed_tokens"), *language_model_);
  parts_ = {&*vision_tower_, &*multi_modal_projector_, &*embed_tokens_, language_model_.get(), nullptr, features_};
}

std::vector<ArgumentSpec> LlavaModel::arguments() const {
  std::vector<ArgumentSpec> specs = language_model_->arguments();
  specs.insert(specs.begin() + 1, {"pixel_values", ArgumentSpec::Kind::kFloats, {4}});
  for (const auto& [name, reason] : {std::pair("vision_feature_layer", "the config says which layers are features"),
                                     {"vision_feature_select_strategy", "the config says which tokens are features"},
                                     {"image_sizes", "images have one size"},
                                     {"mm_encoder_outputs", "images are given as pixel_values"}}) {
    specs.push_back({name, ArgumentSpec::Kind::kRefused, {}, 0, reason});
  }
  return specs;
}

ForwardArgs LlavaModel::sample_inputs(const SampleSize& size) const {
  if (size.past > 0) {
    return language_model_->sample_inputs(size);
  }
  const DecoderTraits& traits = language_model_->traits();
  const int64_t image_tokens = vision_tower_->feature_count();
  const at::Tensor text = sample_ids(size.batch, size.sequence, traits.vocab_size, features_.image_token_id);
  const at::Tensor image = at::full({size.batch, image_tokens}, features_.image_token_id, int64());
  const at::Tensor ids = at::cat({image, text}, 1);
  return {{"input_ids", ids},
          {"pixel_values", vision_tower_->sample_inputs({.batch = size.batch}).tensor("pixel_values")},
          {"attention_mask", at::ones(ids.sizes(), int64())}};
}

AxisNames LlavaModel::axis_names(bool with_cache) const {
  AxisNames names = language_model_->axis_names(with_cache);
  names["pixel_values"] = vision_tower_->axis_names().at("pixel_values");
  names["pixel_values"][0] = {"images"};
  return names;
}

// Names of before the language model was a part without head.
KeyRules LlavaModel::key_rules() const {
  KeyRules rules = language_model_->key_rules();
  rules.renamed.insert(rules.renamed.end(), {{"language_model.lm_head.", "lm_head."},
                                             {"language_model.model.", "model.language_model."},
                                             {"vision_tower.vision_model.", "model.vision_tower."},
                                             {"model.vision_tower.vision_model.", "model.vision_tower."}});
  return rules;
}

// bool [batch, sequence]
at::Tensor LlavaModel::image_mask(const at::Tensor& input_ids, const at::Tensor& embeddings) const {
  if (input_ids.defined()) {
    return at::eq(input_ids, features_.image_token_id);
  }
  const at::Tensor image = language_model_->embeddings_of(at::full({1, 1}, features_.image_token_id, int64()));
  return at::all(at::eq(embeddings, image), -1);
}

void LlavaModel::check_values(const ForwardArgs& args) const {
  const at::Tensor pixel_values = args.tensor("pixel_values");
  if (pixel_values.defined()) {
    check_image_tokens(image_mask(args.tensor("input_ids"), args.tensor("inputs_embeds")),
                       pixel_values.size(0) * vision_tower_->feature_count());
  }
}

LlavaModel::Output LlavaModel::operator()(const ForwardArgs& args, Flags flags) const {
  const auto scope = enter();
  args.require_one_of("input_ids", "inputs_embeds");
  const at::Tensor input_ids = args.tensor("input_ids");
  const at::Tensor pixel_values = args.tensor("pixel_values");
  at::Tensor embeddings =
      input_ids.defined() ? language_model_->embeddings_of(input_ids) : args.tensor("inputs_embeds");
  Output output;
  if (pixel_values.defined()) {
    PooledOutput images = (*vision_tower_)(ForwardArgs{{"pixel_values", pixel_values}}, flags);
    const at::Tensor features =
        (*multi_modal_projector_)(select_image_features(features_, images.hidden_states)).to(embeddings.scalar_type());
    embeddings = merge_image_features(embeddings, image_mask(input_ids, embeddings), features);
    output.images = image_outputs(images, features, !args.flag("return_dict", config().flag("return_dict", true)));
  }
  ForwardArgs text_args{{"inputs_embeds", embeddings}};
  for (const char* name : {"attention_mask", "position_ids", "cache", "past_key_values"}) {
    if (args.has(name)) {
      text_args.set(name, *args.find(name));
    }
  }
  flags.use_cache = args.flag("use_cache", language_model_->config().flag("use_cache", true));
  output.text = (*language_model_)(text_args, flags);
  return output;
}

PyTree LlavaModel::run(const ForwardArgs& args, const Flags& flags) const {
  const Output output = (*this)(args, flags);
  return output_of("LlavaModelOutputWithPast", "last_hidden_state", output.text.last_hidden_state, output);
}

// ── The head ──

LlavaForConditionalGeneration::LlavaForConditionalGeneration(const ModelConfig& config)
    : PreTrainedModel(Scope{}, "LlavaForConditionalGeneration", config),
      model_(child("model"), config),
      lm_head_(child("lm_head"), model_.language_model().config(), model_.language_model().traits().hidden_size,
               model_.language_model().traits().vocab_size),
      parts_(model_.parts()) {
  parts_.lm_head = &lm_head_;
}

std::vector<ArgumentSpec> LlavaForConditionalGeneration::arguments() const {
  std::vector<ArgumentSpec> specs = model_.arguments();
  specs.push_back({"logits_to_keep", ArgumentSpec::Kind::kCount});
  return specs;
}

// Where the config of the text ties them, older configs of the whole do not say so.
std::vector<TiedWeights> LlavaForConditionalGeneration::tied_weights() const {
  const DecoderModel& text = model_.language_model();
  if (!config().flag("tie_word_embeddings", false) && !text.traits().tie_word_embeddings) {
    return {};
  }
  return {{"lm_head.weight", fmt::format("model.language_model.{}.weight", text.family().embeddings)}};
}

PyTree LlavaForConditionalGeneration::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const LlavaModel::Output output = model_(args, flags);
  const at::Tensor logits = lm_head_(kept_positions(output.text.last_hidden_state, args.find("logits_to_keep")));
  return output_of("LlavaCausalLMOutputWithPast", "logits", logits, output);
}

std::unique_ptr<PreTrainedModel> make_llava(const ModelConfig& config) {
  return std::make_unique<LlavaModel>(Scope{}, config);
}

std::unique_ptr<PreTrainedModel> make_llava_generator(const ModelConfig& config) {
  return std::make_unique<LlavaForConditionalGeneration>(config);
}

std::optional<int64_t> llava_cache_boundary(const ModelConfig& config) { return cache_boundary(text_config(config)); }

}  // namespace exporters::models
