#include "exporters/models/operators.h"
#include "exporters/models/wav2vec2.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/std.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include <limits>

namespace exporters::models {
namespace {

PyTree with_recorded(const char* type, const at::Tensor& logits, const SpeechModel::Output& output) {
  return PyTree::object(
      std::string("transformers.modeling_outputs.") + type,
      {{"logits", logits}, {"hidden_states", output.recorded_states}, {"attentions", output.attentions}});
}

void refuse_adapter(const ModelConfig& config, const SpeechSpec& spec) {
  if (spec.adapter_layers > 0 || spec.output_hidden_size != spec.hidden_size) {
    throw Error(
        "config field \"add_adapter\" is true, and this head does not "
        "support it",
        config.where());
  }
}

}  // namespace

SpeechHead::SpeechHead(const ModelConfig& config, const SpeechSpec& spec, std::string_view class_name)
    : PreTrainedModel(Scope{}, fmt::format("{}{}", spec.prefix, class_name), config),
      model_(child(spec.base), config, spec) {}

std::vector<ArgumentSpec> SpeechHead::arguments() const {
  std::vector<ArgumentSpec> specs = model_.arguments();
  std::erase_if(specs, [](const ArgumentSpec& spec) { return spec.name == "mask_time_indices"; });
  specs.push_back({"labels", ArgumentSpec::Kind::kRefused, {}, 0, "losses are not computed"});
  return specs;
}

void SpeechHead::declare_layer_weights() {
  if (config().flag("use_weighted_layer_sum", false)) {
    parameter("layer_weights", layer_weights_, {model_.spec().num_layers + 1});
  }
}

at::Tensor SpeechHead::states_of(const SpeechModel::Output& output) const {
  if (!layer_weights_.defined()) {
    return output.last_hidden_state;
  }
  const at::Tensor weights = at::softmax(layer_weights_, -1).reshape({-1, 1, 1});
  return at::sum(at::stack(output.hidden_states, 1) * weights, 1);
}

SpeechForCTC::SpeechForCTC(const ModelConfig& config, const SpeechSpec& spec)
    : SpeechHead(config, spec, "ForCTC"),
      lm_head_(child("lm_head"), spec.output_hidden_size, config.size("vocab_size", 32)) {}

PyTree SpeechForCTC::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const SpeechModel::Output output = model_(args, flags);
  return with_recorded("CausalLMOutput", lm_head_(output.last_hidden_state), output);
}

SpeechForSequenceClassification::SpeechForSequenceClassification(const ModelConfig& config, const SpeechSpec& spec)
    : SpeechHead(config, spec, "ForSequenceClassification"),
      projector_(child("projector"), spec.hidden_size, config.size("classifier_proj_size", 256)),
      classifier_(child("classifier"), config.size("classifier_proj_size", 256), config.num_labels()) {
  refuse_adapter(config, spec);
  declare_layer_weights();
}

PyTree SpeechForSequenceClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const SpeechModel::Output output = model_(args, flags);
  const at::Tensor states = projector_(states_of(output));
  const at::Tensor mask = args.tensor("attention_mask");
  if (!mask.defined()) {
    return with_recorded("SequenceClassifierOutput", classifier_(at::mean(states, 1)), output);
  }
  const at::Tensor shown = model_.frame_mask(mask, states.sym_size(1), /*with_adapter=*/true);
  const at::Tensor visible = at::where(shown.unsqueeze(-1), states, at::scalar_tensor(0.0, states.options()));
  const at::Tensor count = at::sum(shown.to(states.scalar_type()), 1, /*keepdim=*/true);
  return with_recorded("SequenceClassifierOutput", classifier_(at::sum(visible, 1) / count), output);
}

SpeechForAudioFrameClassification::SpeechForAudioFrameClassification(const ModelConfig& config, const SpeechSpec& spec)
    : SpeechHead(config, spec, "ForAudioFrameClassification"),
      classifier_(child("classifier"), spec.hidden_size, config.num_labels()) {
  refuse_adapter(config, spec);
  declare_layer_weights();
}

PyTree SpeechForAudioFrameClassification::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const SpeechModel::Output output = model_(args, flags);
  return with_recorded("TokenClassifierOutput", classifier_(states_of(output)), output);
}

// ── Speakers ──

SpeechForXVector::Tdnn::Tdnn(Scope scope, int64_t in_features, int64_t out_features, int64_t kernel, int64_t dilation)
    : Module(std::move(scope), "TDNNLayer"),
      in_features_(in_features),
      out_features_(out_features),
      kernel_(kernel),
      dilation_(dilation),
      dense_(child("kernel"), in_features * kernel, out_features) {}

at::Tensor SpeechForXVector::Tdnn::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  const at::Tensor weight = dense_.weight().view({out_features_, kernel_, in_features_}).transpose(1, 2);
  return at::relu(at::conv1d(hidden.transpose(1, 2), weight, dense_.bias(), /*stride=*/{1}, /*padding=*/at::IntArrayRef{0},
                             /*dilation=*/{dilation_})
                      .transpose(1, 2));
}

SpeechForXVector::Objective::Objective(Scope scope, int64_t width, int64_t labels)
    : Module(std::move(scope), "AMSoftmaxLoss") {
  parameter("weight", weight, {width, labels});
}

SpeechForXVector::SpeechForXVector(const ModelConfig& config, const SpeechSpec& spec)
    : SpeechHead(config, spec, "ForXVector"),
      projector_(child("projector"), spec.hidden_size,
                 read_sizes(config, "tdnn_dim", {512, 512, 512, 512, 1500}).front()) {
  declare_layer_weights();
  const std::vector<int64_t> widths = read_sizes(config, "tdnn_dim", {512, 512, 512, 512, 1500});
  const std::vector<int64_t> kernels = read_sizes(config, "tdnn_kernel", {5, 3, 3, 1, 1});
  const std::vector<int64_t> dilations = read_sizes(config, "tdnn_dilation", {1, 2, 3, 1, 1});
  if (kernels.size() < widths.size() || dilations.size() < widths.size()) {
    throw Error(
        fmt::format("config fields \"tdnn_dim\", \"tdnn_kernel\" and \"tdnn_dilation\" have {}, {} and {} entries",
                    widths.size(), kernels.size(), dilations.size()),
        config.where(), "They have one for each layer");
  }
  for (size_t i = 0; i < widths.size(); ++i) {
    tdnn_.emplace_back(child(fmt::format("tdnn.{}", i)), widths[i > 0 ? i - 1 : 0], widths[i], kernels[i],
                       dilations[i]);
  }
  const int64_t width = config.size("xvector_output_dim", 512);
  feature_extractor_.emplace(child("feature_extractor"), 2 * widths.back(), width);
  classifier_.emplace(child("classifier"), width, width);
  objective_.emplace(child("objective"), width, config.num_labels());
}

// With the frames that the last convolutions take away.
ForwardArgs SpeechForXVector::sample_inputs(const SampleSize& size) const {
  SampleSize longer = size;
  longer.sequence += 1;  // a deviation needs two
  for (const Tdnn& layer : tdnn_) {
    longer.sequence += layer.reach();
  }
  return model_.sample_inputs(longer);
}

// Means and deviations over the frames of each row. The reference counts them as if nothing were dilated.
at::Tensor SpeechForXVector::pool(const at::Tensor& hidden, const at::Tensor& attention_mask) const {
  if (!attention_mask.defined()) {
    return at::cat({at::mean(hidden, 1), at::std(hidden, at::OptionalIntArrayRef({1}), at::Scalar(1))}, -1);
  }
  const c10::SymInt frames = hidden.sym_size(1);
  const at::Tensor positions = at::arange(frames, at::TensorOptions().dtype(c10::ScalarType::Long));
  at::Tensor lengths = model_.frames_of(at::sum(attention_mask.to(c10::ScalarType::Long), 1), /*with_adapter=*/true);
  for (const Tdnn& layer : tdnn_) {
    lengths = lengths - (layer.kernel() - 1);
  }
  const at::Tensor shown = at::lt(positions.unsqueeze(0), lengths.unsqueeze(1)).to(hidden.scalar_type());
  const at::Tensor weights = shown.unsqueeze(-1);
  const at::Tensor count = at::sum(shown, 1, /*keepdim=*/true);
  const at::Tensor means = at::sum(hidden * weights, 1) / count;
  const at::Tensor apart = hidden - means.unsqueeze(1);
  return at::cat({means, at::sqrt(at::sum(apart * apart * weights, 1) / (count - 1))}, -1);
}

PyTree SpeechForXVector::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const SpeechModel::Output output = model_(args, flags);
  at::Tensor hidden = projector_(states_of(output));
  for (const Tdnn& layer : tdnn_) {
    hidden = layer(hidden);
  }
  const at::Tensor embeddings = (*feature_extractor_)(pool(hidden, args.tensor("attention_mask")));
  return PyTree::object("transformers.modeling_outputs.XVectorOutput", {{"logits", (*classifier_)(embeddings)},
                                                                        {"embeddings", embeddings},
                                                                        {"hidden_states", output.recorded_states},
                                                                        {"attentions", output.attentions}});
}

// ── Pre-training ──

SpeechForPreTraining::Quantizer::Quantizer(Scope scope, const ModelConfig& config, int64_t in_features)
    : Module(std::move(scope), "Wav2Vec2GumbelVectorQuantizer"),
      groups(config.size("num_codevector_groups", 2)),
      entries(config.size("num_codevectors_per_group", 320)),
      width(config.size("codevector_dim", 256) / groups),
      weight_proj(child("weight_proj"), in_features, groups * entries) {
  if (config.size("codevector_dim", 256) % groups != 0) {
    throw Error(fmt::format("config field \"codevector_dim\" is {}, not a multiple of \"num_codevector_groups\", {}",
                            config.size("codevector_dim", 256), groups),
                config.where());
  }
  parameter("codevectors", codevectors, {1, groups * entries, width});
}

std::pair<at::Tensor, at::Tensor> SpeechForPreTraining::Quantizer::operator()(const at::Tensor& features) const {
  const auto scope = enter();
  const auto int64 = at::TensorOptions().dtype(c10::ScalarType::Long);
  const at::Tensor scores = weight_proj(features).unflatten(-1, {groups, entries});
  const at::Tensor chosen = at::argmax(scores, -1);  // [batch, frames, groups]
  const at::Tensor is_chosen = at::eq(chosen.unsqueeze(-1), at::arange(entries, int64)).to(scores.scalar_type());
  const at::Tensor shares = at::mean(is_chosen, {0, 1});  // [groups, entries]
  // x log x is 0 at 0.
  const at::Tensor logs = at::log(at::clamp_min(shares, std::numeric_limits<float>::min()));
  const at::Tensor perplexity = at::sum(at::exp(at::neg(at::sum(shares * logs, -1))));
  const at::Tensor rows = chosen + at::arange(groups, int64) * entries;
  const at::Tensor picked = at::index_select(codevectors.select(0, 0), 0, rows.flatten());
  const at::Tensor code = picked.reshape_symint({features.sym_size(0), features.sym_size(1), groups * width});
  return {code, perplexity};
}

SpeechForPreTraining::SpeechForPreTraining(const ModelConfig& config, const SpeechSpec& spec)
    : SpeechHead(config, spec, "ForPreTraining"),
      quantizer_(child("quantizer"), config, spec.conv_dim.back()),
      project_hid_(child("project_hid"), spec.hidden_size, config.size("proj_codevector_dim", 256)),
      project_q_(child("project_q"), config.size("codevector_dim", 256), config.size("proj_codevector_dim", 256)) {}

PyTree SpeechForPreTraining::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const SpeechModel::Output output = model_(args, flags);
  const auto [code, perplexity] = quantizer_(output.features);
  return PyTree::object("transformers.models.wav2vec2.modeling_wav2vec2.Wav2Vec2ForPreTrainingOutput",
                        {{"projected_states", project_hid_(output.last_hidden_state)},
                         {"projected_quantized_states", project_q_(code)},
                         {"codevector_perplexity", perplexity},
                         {"hidden_states", output.recorded_states},
                         {"attentions", output.attentions}});
}

}  // namespace exporters::models
