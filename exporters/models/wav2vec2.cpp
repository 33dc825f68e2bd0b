#include "exporters/models/wav2vec2.h"

#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;
constexpr double kNormEps = 1e-5;  // of norms whose epsilon the config does not set

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

constexpr std::array kRules{
    FieldRule{"conv_pos_batch_norm", "false", "batch normalization before the positions' convolution is"},
};

void read_features(const ModelConfig& config, SpeechSpec& spec) {
  spec.conv_dim = read_sizes(config, "conv_dim", std::vector<int64_t>(7, 512));
  spec.conv_stride = read_sizes(config, "conv_stride", {5, 2, 2, 2, 2, 2, 2});
  spec.conv_kernel = read_sizes(config, "conv_kernel", {10, 3, 3, 3, 3, 2, 2});
  if (spec.conv_dim.empty() || spec.conv_stride.size() != spec.conv_dim.size() ||
      spec.conv_kernel.size() != spec.conv_dim.size()) {
    throw Error(fmt::format("config fields \"conv_dim\", \"conv_stride\" and "
                            "\"conv_kernel\" have {}, {} and {} entries",
                            spec.conv_dim.size(), spec.conv_stride.size(), spec.conv_kernel.size()),
                config.where(), "They have one for each convolution");
  }
  spec.conv_bias = config.flag("conv_bias", false);
  spec.conv_activation = activation(config.string("feat_extract_activation", "gelu"));
  const std::string norm = config.string("feat_extract_norm", "group");
  if (norm != "group" && norm != "layer") {
    throw Error(fmt::format("config field \"feat_extract_norm\" is \"{}\"", norm), config.where(),
                "Known are: group, layer");
  }
  spec.norms_each_convolution = norm == "layer";
  spec.position_kernel = config.size("num_conv_pos_embeddings", 128);
  spec.position_groups = config.size("num_conv_pos_embedding_groups", 16);
  if (spec.hidden_size % spec.position_groups != 0) {
    throw Error(fmt::format("config field \"hidden_size\" is {}, not a "
                            "multiple of \"num_conv_pos_embedding_groups\", {}",
                            spec.hidden_size, spec.position_groups),
                config.where());
  }
}

SpeechSpec read_speech(const ModelConfig& config, std::string prefix, std::string base) {
  config.check(kRules);
  SpeechSpec spec;
  spec.prefix = std::move(prefix);
  spec.base = std::move(base);
  spec.hidden_size = config.size("hidden_size", 768);
  spec.eps = config.number("layer_norm_eps", 1e-5);
  spec.num_layers = config.size("num_hidden_layers", 12, 0, kMaxLayers);
  spec.norms_first = config.flag("do_stable_layer_norm", false);
  read_features(config, spec);
  const int64_t heads = config.size("num_attention_heads", 12);
  if (spec.hidden_size % heads != 0) {
    throw Error(fmt::format("config field \"hidden_size\" is {}, not a "
                            "multiple of \"num_attention_heads\", {}",
                            spec.hidden_size, heads),
                config.where());
  }
  spec.layer.class_name = spec.prefix + (spec.norms_first ? "EncoderLayerStableLayerNorm" : "EncoderLayer");
  spec.layer.attention = {.class_name = spec.prefix + "Attention",
                          .hidden_size = spec.hidden_size,
                          .heads = heads,
                          .head_dim = spec.hidden_size / heads,
                          .scale = 1.0 / std::sqrt(static_cast<double>(spec.hidden_size / heads))};
  spec.layer.feed_forward = {.class_name = spec.prefix + "FeedForward",
                             .hidden_size = spec.hidden_size,
                             .intermediate_size = config.size("intermediate_size", 3072),
                             .activation = activation(config.string("hidden_act", "gelu")),
                             .in_name = "intermediate_dense",
                             .out_name = "output_dense"};
  spec.layer.eps = spec.eps;
  spec.layer.attention_name = "attention";
  spec.layer.feed_forward_name = "feed_forward";
  spec.layer.attention_norm = "layer_norm";
  spec.layer.feed_forward_norm = "final_layer_norm";
  spec.layer.norms_last = !spec.norms_first;
  spec.attention_adapter_dim =
      spec.norms_first ? config.optional_integer("adapter_attn_dim", std::nullopt).value_or(0) : 0;
  spec.has_mask_embedding = config.number("mask_time_prob", 0.05) > 0 || config.number("mask_feature_prob", 0) > 0;
  spec.applies_mask = config.flag("apply_spec_augment", true);
  spec.output_hidden_size = spec.hidden_size;
  return spec;
}

}  // namespace

std::vector<int64_t> read_sizes(const ModelConfig& config, std::string_view name, std::vector<int64_t> fallback) {
  const auto field = JsonField(config.json(), config.where()).find(name);
  if (!field) {
    return fallback;
  }
  std::vector<int64_t> result;
  for (const JsonField& element : field->elements()) {
    const int64_t size = element.as_int();
    if (size < 1 || size > ModelConfig::kMaxSize) {
      element.fail_here(fmt::format("is {}, expected a positive size", size));
    }
    result.push_back(size);
  }
  return result;
}

int64_t SpeechSpec::min_samples() const {
  int64_t samples = 1;
  for (size_t i = conv_kernel.size(); i-- > 0;) {
    samples = (samples - 1) * conv_stride[i] + conv_kernel[i];
  }
  return samples;
}

SpeechSpec read_wav2vec2(const ModelConfig& config) {
  SpeechSpec spec = read_speech(config, "Wav2Vec2", "wav2vec2");
  spec.gives_features = true;
  if (config.flag("add_adapter", false)) {
    spec.adapter_layers = config.size("num_adapter_layers", 3, 0, kMaxLayers);
    spec.adapter_kernel = config.size("adapter_kernel_size", 3);
    spec.adapter_stride = config.size("adapter_stride", 2);
    spec.output_hidden_size = config.size("output_hidden_size", spec.hidden_size);
  }
  return spec;
}

SpeechSpec read_hubert(const ModelConfig& config) {
  SpeechSpec spec = read_speech(config, "Hubert", "hubert");
  spec.norms_features = config.flag("feat_proj_layer_norm", true);
  return spec;
}

// ── Features ──

SpeechConvLayer::Norm::Norm(Scope scope, int64_t channels, bool by_channel)
    : Module(std::move(scope), by_channel ? "GroupNorm" : "LayerNorm") {
  parameter("weight", weight, {channels});
  parameter("bias", bias, {channels});
}

SpeechConvLayer::SpeechConvLayer(Scope scope, const SpeechSpec& spec, size_t index)
    : Module(std::move(scope), spec.prefix + "ConvLayer"),
      channels_(spec.conv_dim[index]),
      by_channel_(!spec.norms_each_convolution),
      activation_(spec.conv_activation),
      conv_(child("conv"), {.in_channels = index > 0 ? spec.conv_dim[index - 1] : 1,
                            .out_channels = channels_,
                            .kernel = {spec.conv_kernel[index]},
                            .stride = {spec.conv_stride[index]},
                            .bias = spec.conv_bias}) {
  if (spec.norms_each_convolution || index == 0) {
    norm_.emplace(child("layer_norm"), channels_, by_channel_);
  }
}

at::Tensor SpeechConvLayer::operator()(const at::Tensor& input) const {
  const auto scope = enter();
  at::Tensor output = conv_(input);
  if (norm_ && by_channel_) {
    output = at::group_norm(output, channels_, norm_->weight, norm_->bias, kNormEps);
  } else if (norm_) {
    output = at::layer_norm(output.transpose(1, 2), {channels_}, norm_->weight, norm_->bias, kNormEps).transpose(1, 2);
  }
  return activation_(output);
}

// ── Positions ──

SpeechPositions::Parameters::Parameters(Scope scope, const SpeechSpec& spec)
    : Module(std::move(scope), "ParametrizedConv1d") {
  parameter("bias", bias, {spec.hidden_size});
  parameter("parametrizations.weight.original0", length, {1, 1, spec.position_kernel});
  parameter("parametrizations.weight.original1", direction,
            {spec.hidden_size, spec.hidden_size / spec.position_groups, spec.position_kernel});
}

SpeechPositions::SpeechPositions(Scope scope, const SpeechSpec& spec)
    : Module(std::move(scope), spec.prefix + "PositionalConvEmbedding"),
      kernel_(spec.position_kernel),
      groups_(spec.position_groups),
      activation_(spec.conv_activation),
      conv_(child("conv"), spec) {}

// An even kernel makes one position too many.
at::Tensor SpeechPositions::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  // In float32, as torch's weight normalization computes lengths.
  const at::Tensor direction = conv_.direction.to(c10::ScalarType::Float);
  const at::Tensor length = at::sqrt(at::sum(direction * direction, {0, 1}, /*keepdim=*/true));
  const at::Tensor weight =
      (direction * (conv_.length.to(c10::ScalarType::Float) / length)).to(conv_.direction.scalar_type());
  at::Tensor positions = at::conv1d(hidden.transpose(1, 2), weight, conv_.bias, /*stride=*/{1},
                                    /*padding=*/{kernel_ / 2}, /*dilation=*/{1}, groups_);
  if (kernel_ % 2 == 0) {
    positions = positions.slice_symint(2, 0, hidden.sym_size(1));
  }
  return activation_(positions).transpose(1, 2);
}

SpeechAttentionAdapter::SpeechAttentionAdapter(Scope scope, const SpeechSpec& spec)
    : Module(std::move(scope), spec.prefix + "AttnAdapterLayer"),
      norm_(child("norm"), spec.hidden_size, kNormEps),
      linear_1_(child("linear_1"), spec.hidden_size, spec.attention_adapter_dim),
      linear_2_(child("linear_2"), spec.attention_adapter_dim, spec.hidden_size) {}

at::Tensor SpeechAttentionAdapter::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return linear_2_(at::relu(linear_1_(norm_(hidden))));
}

// ── The bare model ──

SpeechModel::SpeechModel(Scope scope, const ModelConfig& config, const SpeechSpec& spec)
    : PreTrainedModel(std::move(scope), spec.prefix + "Model", config), spec_(spec) {
  if (spec_.has_mask_embedding) {
    parameter("masked_spec_embed", masked_spec_embed_, {spec_.hidden_size});
  }
  for (size_t i = 0; i < spec_.conv_dim.size(); ++i) {
    conv_layers_.emplace_back(child(fmt::format("feature_extractor.conv_layers.{}", i)), spec_, i);
  }
  if (spec_.norms_features) {
    feature_norm_.emplace(child("feature_projection.layer_norm"), spec_.conv_dim.back(), spec_.eps);
  }
  projection_.emplace(child("feature_projection.projection"), spec_.conv_dim.back(), spec_.hidden_size);
  positions_.emplace(child("encoder.pos_conv_embed"), spec_);
  layer_norm_.emplace(child("encoder.layer_norm"), spec_.hidden_size, spec_.eps);
  for (int64_t i = 0; i < spec_.num_layers; ++i) {
    const std::string name = fmt::format("encoder.layers.{}", i);
    layers_.emplace_back(child(name), spec_.layer);
    if (spec_.attention_adapter_dim > 0) {
      attention_adapters_.emplace_back(child(name + ".adapter_layer"), spec_);
    }
  }
  const int64_t width = spec_.output_hidden_size;
  if (width != spec_.hidden_size) {
    adapter_projection_.emplace(child("adapter.proj"), spec_.hidden_size, width);
    adapter_norm_.emplace(child("adapter.proj_layer_norm"), width, kNormEps);
  }
  for (int64_t i = 0; i < spec_.adapter_layers; ++i) {
    adapter_layers_.emplace_back(child(fmt::format("adapter.layers.{}.conv", i)),
                                 ConvolutionOptions{.in_channels = width,
                                                    .out_channels = 2 * width,
                                                    .kernel = {spec_.adapter_kernel},
                                                    .stride = {spec_.adapter_stride},
                                                    .padding = {1}});
  }
}

// Checkpoints of older versions of torch. Of the bare model, and of one in a head.
KeyRules SpeechModel::key_rules() const {
  KeyRules rules;
  for (const std::string& prefix : {std::string(), spec_.base + "."}) {
    const std::string weight = prefix + "encoder.pos_conv_embed.conv.";
    rules.renamed.emplace_back(weight + "weight_g", weight + "parametrizations.weight.original0");
    rules.renamed.emplace_back(weight + "weight_v", weight + "parametrizations.weight.original1");
  }
  return rules;
}

std::vector<ArgumentSpec> SpeechModel::arguments() const {
  using Kind = ArgumentSpec::Kind;
  std::vector<ArgumentSpec> specs = {
      {"input_values", Kind::kFloats, {2}}, {"attention_mask", Kind::kMask, {2}}, {"output_hidden_states", Kind::kFlag},
      {"output_attentions", Kind::kFlag},   {"return_dict", Kind::kFlag},
  };
  if (spec_.has_mask_embedding) {
    specs.push_back({"mask_time_indices", Kind::kMask, {2}});
  }
  return specs;
}

// As many samples as make that many frames. Models with a group norm are not
// trained with attention_mask.
ForwardArgs SpeechModel::sample_inputs(const SampleSize& size) const {
  ensure(size.past == 0, "{} has no cache for a sample of {} earlier tokens", class_name(), size.past);
  ensure(size.batch >= 1 && size.sequence >= 1, "a sample has at least one row and one frame, not [{}, {}]", size.batch,
         size.sequence);
  int64_t samples = size.sequence;
  for (size_t i = spec_.conv_kernel.size(); i-- > 0;) {
    samples = (samples - 1) * spec_.conv_stride[i] + spec_.conv_kernel[i];
  }
  ForwardArgs args{{"input_values", sample_values({size.batch, samples}, /*seed=*/0)}};
  if (spec_.norms_each_convolution) {
    args.set("attention_mask", at::ones({size.batch, samples}, int64()));
  }
  return args;
}

AxisNames SpeechModel::axis_names(bool) const {
  AxisNames names;
  for (const char* input : {"input_values", "attention_mask"}) {
    names[input] = {{0, {"batch"}}, {1, {"sequence"}}};
  }
  return names;
}

at::Tensor SpeechModel::frames_of(at::Tensor samples, bool with_adapter) const {
  for (size_t i = 0; i < spec_.conv_kernel.size(); ++i) {
    samples = at::floor_divide(samples - spec_.conv_kernel[i], spec_.conv_stride[i]) + 1;
  }
  for (int64_t i = 0; with_adapter && i < spec_.adapter_layers; ++i) {
    samples = at::floor_divide(samples - 1, spec_.adapter_stride) + 1;
  }
  return samples;
}

at::Tensor SpeechModel::frame_mask(const at::Tensor& attention_mask, const c10::SymInt& frames,
                                   bool with_adapter) const {
  const at::Tensor samples = at::sum(attention_mask.to(c10::ScalarType::Long), -1);
  return at::lt(at::arange(frames, int64()).unsqueeze(0), frames_of(samples, with_adapter).unsqueeze(1));
}

at::Tensor SpeechModel::extract(const at::Tensor& input_values) const {
  const c10::SymInt samples = input_values.sym_size(1);
  require(samples.sym_ge(spec_.min_samples()), [&] {
    return c10::str("input_values are ", input_values.sym_sizes(), ", the model needs ", spec_.min_samples(),
                    " samples for one frame");
  });
  at::Tensor features = input_values.to(conv_layers_.front().dtype()).unsqueeze(1);
  for (const SpeechConvLayer& layer : conv_layers_) {
    features = layer(features);
  }
  return features.transpose(1, 2);
}

at::Tensor SpeechModel::adapt(at::Tensor hidden) const {
  if (adapter_projection_) {
    hidden = (*adapter_norm_)((*adapter_projection_)(hidden));
  }
  if (adapter_layers_.empty()) {
    return hidden;
  }
  hidden = hidden.transpose(1, 2);
  for (const Convolution& layer : adapter_layers_) {
    hidden = at::glu(layer(hidden), 1);
  }
  return hidden.transpose(1, 2);
}

SpeechModel::Output SpeechModel::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const at::Tensor input_values = args.tensor("input_values");
  ensure(input_values.defined(), "input_values are not given");
  Output output;
  output.features = extract(input_values);
  if (feature_norm_) {
    output.features = (*feature_norm_)(output.features);
  }
  at::Tensor hidden = (*projection_)(output.features);
  const c10::SymInt frames = hidden.sym_size(1);
  if (const at::Tensor masked = args.tensor("mask_time_indices"); masked.defined() && spec_.applies_mask) {
    hidden = at::where(masked.to(c10::ScalarType::Bool).unsqueeze(-1), masked_spec_embed_, hidden);
  }
  at::Tensor mask;
  if (const at::Tensor given = args.tensor("attention_mask"); given.defined()) {
    check_padding_mask(given, input_values, input_values.sym_size(1));
    const at::Tensor shown = frame_mask(given, frames, /*with_adapter=*/false);
    hidden = at::where(shown.unsqueeze(-1), hidden, at::scalar_tensor(0.0, hidden.options()));
    mask = create_bidirectional_mask(flags.attention, hidden, shown, frames);
  }
  hidden = hidden + (*positions_)(hidden);
  if (!spec_.norms_first) {
    hidden = (*layer_norm_)(hidden);
  }
  EncoderStates states = run_layers(layers_.size(), hidden, [&](size_t i, const at::Tensor& each) {
    AttentionResult result = layers_[i](each, mask, flags.attention);
    if (!attention_adapters_.empty()) {
      result.output = result.output + attention_adapters_[i](result.output);
    }
    return result;
  });
  hidden = spec_.norms_first ? (*layer_norm_)(states.last_hidden_state) : states.last_hidden_state;
  output.last_hidden_state = adapt(hidden);
  output.recorded_states = flags.hidden_states ? tuple_of(states.hidden_states) : PyTree();
  output.attentions = flags.attentions ? tuple_of(std::move(states.attentions)) : PyTree();
  output.hidden_states = std::move(states.hidden_states);
  return output;
}

PyTree SpeechModel::run(const ForwardArgs& args, const Flags& flags) const {
  const Output output = (*this)(args, flags);
  std::vector<std::pair<std::string, PyTree>> fields = {{"last_hidden_state", output.last_hidden_state}};
  if (spec_.gives_features) {
    fields.emplace_back("extract_features", output.features);
  }
  fields.emplace_back("hidden_states", output.recorded_states);
  fields.emplace_back("attentions", output.attentions);
  return PyTree::object(spec_.gives_features ? "transformers.modeling_outputs.Wav2Vec2BaseModelOutput"
                                             : "transformers.modeling_outputs.BaseModelOutput",
                        std::move(fields));
}

}  // namespace exporters::models
