#include "exporters/models/mamba.h"

#include "exporters/models/decoder.h"
#include "exporters/models/masks.h"
#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/support/error.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;
constexpr auto kFloat = c10::ScalarType::Float;

int64_t intermediate_size_of(const ModelConfig& config, int64_t hidden_size) {
  const double size = config.number("expand", 2) * static_cast<double>(hidden_size);
  if (!(size >= 1 && size <= static_cast<double>(ModelConfig::kMaxSize))) {
    throw Error(fmt::format("config fields \"expand\" and \"hidden_size\" make layers {} wide", size), config.where());
  }
  return static_cast<int64_t>(size);
}

// "auto" is a sixteenth of the hidden size, rounded up.
int64_t time_step_rank_of(const ModelConfig& config, int64_t hidden_size) {
  const auto field = config.json().find("time_step_rank");
  const bool is_auto = field == config.json().end() || *field == "auto";
  return is_auto ? (hidden_size + 15) / 16 : config.size("time_step_rank", 1);
}

at::Tensor masked(const at::Tensor& hidden, const at::Tensor& mask) {
  return mask.defined() ? (hidden * mask.unsqueeze(-1)).to(hidden.scalar_type()) : hidden;
}

std::string state_name(size_t layer, const char* what) { return fmt::format("cache.layers.{}.{}.0", layer, what); }

}  // namespace

MambaSpec::MambaSpec(const ModelConfig& config)
    : vocab_size(config.size("vocab_size", 50280)),
      hidden_size(config.size("hidden_size", 768)),
      intermediate_size(intermediate_size_of(config, hidden_size)),
      state_size(config.size("state_size", 16)),
      num_layers(config.size("num_hidden_layers", 32, 0, kMaxLayers)),
      conv_kernel(config.size("conv_kernel", 4)),
      time_step_rank(time_step_rank_of(config, hidden_size)),
      norm_eps(config.number("layer_norm_epsilon", 1e-5)),
      activation(models::activation(config.string("hidden_act", "silu"))),
      bias(config.flag("use_bias", false)),
      conv_bias(config.flag("use_conv_bias", true)),
      residual_in_float32(config.flag("residual_in_fp32", true)),
      tie_word_embeddings(config.flag("tie_word_embeddings", true)),
      pad_token_id(config.optional_integer("pad_token_id", 0)) {
  config.check({});
}

// ── Layers ──

MambaMixer::MambaMixer(Scope scope, const MambaSpec& spec)
    : Module(std::move(scope), "MambaMixer"),
      intermediate_size_(spec.intermediate_size),
      state_size_(spec.state_size),
      conv_kernel_(spec.conv_kernel),
      time_step_rank_(spec.time_step_rank),
      activation_(spec.activation),
      conv1d_(child("conv1d"), {.in_channels = spec.intermediate_size,
                                .out_channels = spec.intermediate_size,
                                .kernel = {spec.conv_kernel},
                                .groups = spec.intermediate_size,
                                .bias = spec.conv_bias}),
      in_proj_(child("in_proj"), spec.hidden_size, 2 * spec.intermediate_size, spec.bias),
      x_proj_(child("x_proj"), spec.intermediate_size, spec.time_step_rank + 2 * spec.state_size, /*bias=*/false),
      dt_proj_(child("dt_proj"), spec.time_step_rank, spec.intermediate_size),
      out_proj_(child("out_proj"), spec.intermediate_size, spec.hidden_size, spec.bias) {
  parameter("A_log", a_log_, {intermediate_size_, state_size_});
  parameter("D", d_, {intermediate_size_});
}

// A cache holds as many inputs as the kernel is wide, of which the next token needs all but the first.
at::Tensor MambaMixer::convolve(const at::Tensor& inputs, LinearAttentionLayer* cache, at::Tensor& conv_states) const {
  const bool goes_on = cache != nullptr && cache->conv_states().defined();
  const at::Tensor all =
      goes_on ? at::cat({cache->conv_states(), inputs}, -1) : at::constant_pad_nd(inputs, {conv_kernel_, 0}, 0);
  const c10::SymInt length = inputs.sym_size(2);
  conv_states = all.slice_symint(2, length, length + conv_kernel_);
  return activation_(conv1d_(all.slice(2, 1)));
}

// In float32, but for what the reference rounds.
at::Tensor MambaMixer::recur(const at::Tensor& inputs, const at::Tensor& gate, LinearAttentionLayer* cache,
                             const at::Tensor& conv_states, const LinearScan& scan) const {
  const at::Tensor selected = x_proj_(inputs);
  const int64_t b_end = time_step_rank_ + state_size_;
  const at::Tensor b = selected.slice(-1, time_step_rank_, b_end);
  const at::Tensor c = selected.slice(-1, b_end, b_end + state_size_);
  const at::Tensor raw_step = at::linear(selected.slice(-1, 0, time_step_rank_), dt_proj_.weight());
  const at::Tensor step = at::softplus(raw_step + dt_proj_.bias().to(raw_step.scalar_type())).unsqueeze(-1);
  const at::Tensor decay = at::exp(-at::exp(a_log_.to(kFloat)) * step);
  const at::Tensor added = step * b.to(kFloat).unsqueeze(2) * inputs.to(kFloat).unsqueeze(-1);
  const at::Tensor states = scan(decay, added, cache != nullptr ? cache->recurrent_states() : at::Tensor());
  if (cache != nullptr) {
    cache->set(conv_states, states.select(1, -1));
  }
  const at::Tensor mixed = at::matmul(states.to(c.scalar_type()), c.unsqueeze(-1)).squeeze(-1);
  return (mixed + inputs * d_.to(kFloat)) * at::silu(gate);
}

at::Tensor MambaMixer::operator()(const at::Tensor& hidden, const at::Tensor& mask, LinearAttentionLayer* cache,
                                  const LinearScan& scan) const {
  const auto scope = enter();
  const at::Tensor projected = in_proj_(masked(hidden, mask));
  const at::Tensor gate = projected.slice(-1, intermediate_size_, 2 * intermediate_size_);
  at::Tensor conv_states;
  const at::Tensor convolved = convolve(projected.slice(-1, 0, intermediate_size_).transpose(1, 2), cache, conv_states);
  const at::Tensor mixed = recur(masked(convolved.transpose(1, 2), mask), gate, cache, conv_states, scan);
  return out_proj_(mixed.to(hidden.scalar_type()));
}

MambaBlock::MambaBlock(Scope scope, const MambaSpec& spec)
    : Module(std::move(scope), "MambaBlock"),
      residual_in_float32_(spec.residual_in_float32),
      norm_(child("norm"), "MambaRMSNorm", spec.hidden_size, spec.norm_eps, RmsNormKind::kWeightInDtype),
      mixer_(child("mixer"), spec) {}

at::Tensor MambaBlock::operator()(const at::Tensor& hidden, const at::Tensor& mask, LinearAttentionLayer* cache,
                                  const LinearScan& scan) const {
  const auto scope = enter();
  const at::Tensor residual = residual_in_float32_ ? hidden.to(kFloat) : hidden;
  return residual + mixer_(norm_(hidden.to(norm_.dtype())), mask, cache, scan);
}

// ── The model ──

MambaModel::MambaModel(Scope scope, const ModelConfig& config)
    : PreTrainedModel(std::move(scope), "MambaModel", config),
      spec_(config),
      embeddings_(child("embeddings"), spec_.vocab_size, spec_.hidden_size) {
  for (int64_t i = 0; i < spec_.num_layers; ++i) {
    layers_.emplace_back(child(fmt::format("layers.{}", i)), spec_);
  }
  norm_f_.emplace(child("norm_f"), "MambaRMSNorm", spec_.hidden_size, spec_.norm_eps, RmsNormKind::kWeightInDtype);
}

std::vector<ArgumentSpec> MambaModel::arguments() const {
  using Kind = ArgumentSpec::Kind;
  return {
      {"input_ids", Kind::kIndices, {2}, spec_.vocab_size, "vocab_size"},
      {"attention_mask", Kind::kMask, {2}},
      {"inputs_embeds", Kind::kFloats, {3}},
      {"cache", Kind::kCache},
      {"cache_params", Kind::kCache},
      {"use_cache", Kind::kFlag},
      {"output_hidden_states", Kind::kFlag},
      {"return_dict", Kind::kFlag},
      {"labels", Kind::kRefused, {}, 0, "losses are not computed"},
  };
}

// The mask is one of new tokens: there is none beside a cache, as generate has it.
ForwardArgs MambaModel::sample_inputs(const SampleSize& size) const {
  ensure(size.batch >= 1 && size.sequence >= 1 && size.past >= 0,
         "a sample has at least one row and one token, not [{}, {}]", size.batch, size.sequence);
  ForwardArgs args{{"input_ids", sample_ids(size.batch, size.sequence, spec_.vocab_size, spec_.pad_token_id)}};
  if (size.past == 0) {
    args.set("attention_mask", at::ones({size.batch, size.sequence}, at::TensorOptions().dtype(c10::ScalarType::Long)));
    return args;
  }
  LayeredCache::Layers layers;
  for (int64_t i = 0; i < spec_.num_layers; ++i) {
    const auto states = [&](int64_t extent, int64_t which) {
      return sample_values({size.batch, spec_.intermediate_size, extent}, 2 * i + which);
    };
    layers.push_back(
        std::make_unique<LinearAttentionLayer>(states(spec_.conv_kernel, 0).to(dtype()), states(spec_.state_size, 1)));
  }
  args.set("cache", DynamicCache(std::move(layers), /*adds_layers=*/false).to_tree());
  return args;
}

AxisNames MambaModel::axis_names(bool with_cache) const {
  const AxisName batch{"batch"};
  AxisNames names;
  for (const char* input : {"input_ids", "attention_mask", "inputs_embeds"}) {
    names[input] = {{0, batch}, {1, {"sequence"}}};
  }
  names["inputs_embeds"][2] = {};
  for (size_t i = 0; with_cache && i < layers_.size(); ++i) {
    names[state_name(i, "conv_states")] = {{0, batch}, {1, {}}, {2, {}}};
    names[state_name(i, "recurrent_states")] = {{0, batch}, {1, {}}, {2, {}}};
  }
  return names;
}

KeyRules MambaModel::key_rules() const {
  KeyRules rules;
  rules.renamed = {{"backbone.embedding.", "backbone.embeddings."}, {"embedding.", "backbone.embeddings."}};
  return rules;
}

LinearAttentionLayer& MambaModel::layer_of(LayeredCache& cache, size_t index) const {
  auto* layer = dynamic_cast<LinearAttentionLayer*>(&cache.layer(index));
  if (layer == nullptr) {
    throw Error(fmt::format("layer {} of the cache holds keys", index), class_name(),
                "Its cache has layers of class LinearAttentionLayer, such as it returns itself");
  }
  const auto check = [&](const at::Tensor& states, int64_t extent, const char* what) {
    if (!states.defined()) {
      return;
    }
    const auto message = [&] {
      return c10::str("the cache's ", what, " of layer ", index, " are ", states.sym_sizes(),
                      ", the model's have the axes batch, ", spec_.intermediate_size, ", ", extent);
    };
    require(states.sym_size(1).sym_eq(spec_.intermediate_size), message);
    require(states.sym_size(2).sym_eq(extent), message);
  };
  check(layer->conv_states(), spec_.conv_kernel, "conv_states");
  check(layer->recurrent_states(), spec_.state_size, "recurrent_states");
  return *layer;
}

std::unique_ptr<LayeredCache> MambaModel::cache_for(const ForwardArgs& args, bool use_cache) const {
  if (const PyTree* given = args.find_renamed("cache", "cache_params")) {
    std::unique_ptr<Cache> cache = Cache::from_tree(*given);
    auto* layered = dynamic_cast<LayeredCache*>(cache.get());
    ensure(layered != nullptr && layered->size() == layers_.size(), "{} takes a cache of {} layers with states",
           class_name(), layers_.size());
    static_cast<void>(cache.release());
    return std::unique_ptr<LayeredCache>(layered);
  }
  if (!use_cache) {
    return nullptr;
  }
  LayeredCache::Layers layers;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers.push_back(std::make_unique<LinearAttentionLayer>());
  }
  return std::make_unique<DynamicCache>(std::move(layers), /*adds_layers=*/false);
}

MambaModel::Output MambaModel::operator()(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  args.require_one_of("input_ids", "inputs_embeds");
  const at::Tensor input_ids = args.tensor("input_ids");
  at::Tensor hidden = input_ids.defined() ? embeddings_(input_ids) : args.tensor("inputs_embeds");
  const at::Tensor mask = args.tensor("attention_mask");
  if (mask.defined()) {
    check_padding_mask(mask, hidden, hidden.sym_size(1));
  }
  const std::unique_ptr<LayeredCache> cache = cache_for(args, flags.use_cache);
  const bool goes_on = cache && !layers_.empty() && layer_of(*cache, 0).recurrent_states().defined();
  const LinearScan scan(hidden.sym_size(1), goes_on);
  std::vector<at::Tensor> hidden_states;
  for (size_t i = 0; i < layers_.size(); ++i) {
    LinearAttentionLayer* layer = cache ? &layer_of(*cache, i) : nullptr;
    ensure(layer == nullptr || layer->recurrent_states().defined() == goes_on,
           "some layers of the cache have states and some have none");
    hidden = layers_[i](hidden, mask, layer, scan);
    hidden_states.push_back(hidden);
  }
  Output output;
  output.last_hidden_state = (*norm_f_)(hidden);
  hidden_states.push_back(output.last_hidden_state);
  output.cache = cache && flags.use_cache ? cache->to_tree() : PyTree();
  output.hidden_states = flags.hidden_states ? tuple_of(std::move(hidden_states)) : PyTree();
  return output;
}

namespace {

PyTree output_of(std::string_view name, const char* first, const at::Tensor& value, const MambaModel::Output& output) {
  return PyTree::object(fmt::format("transformers.models.mamba.modeling_mamba.{}", name),
                        {{first, value}, {"cache", output.cache}, {"hidden_states", output.hidden_states}});
}

}  // namespace

PyTree MambaModel::run(const ForwardArgs& args, const Flags& flags) const {
  const Output output = (*this)(args, flags);
  return output_of("MambaOutput", "last_hidden_state", output.last_hidden_state, output);
}

// ── The head ──

MambaForCausalLM::MambaForCausalLM(const ModelConfig& config)
    : PreTrainedModel(Scope{}, "MambaForCausalLM", config),
      backbone_(child("backbone"), config),
      lm_head_(child("lm_head"), backbone_.spec().hidden_size, backbone_.spec().vocab_size, /*bias=*/false) {}

std::vector<ArgumentSpec> MambaForCausalLM::arguments() const {
  std::vector<ArgumentSpec> specs = backbone_.arguments();
  specs.push_back({"logits_to_keep", ArgumentSpec::Kind::kCount});
  return specs;
}

std::vector<TiedWeights> MambaForCausalLM::tied_weights() const {
  if (!backbone_.spec().tie_word_embeddings) {
    return {};
  }
  return {{"lm_head.weight", "backbone.embeddings.weight"}};
}

PyTree MambaForCausalLM::run(const ForwardArgs& args, const Flags& flags) const {
  const auto scope = enter();
  const MambaModel::Output output = backbone_(args, flags);
  const at::Tensor hidden = kept_positions(output.last_hidden_state, args.find("logits_to_keep"));
  const at::Tensor logits = lm_head_(hidden.to(lm_head_.weight().scalar_type())).to(kFloat);
  return output_of("MambaCausalLMOutput", "logits", logits, output);
}

std::unique_ptr<PreTrainedModel> make_mamba(const ModelConfig& config) {
  return std::make_unique<MambaModel>(Scope{}, config);
}

std::unique_ptr<PreTrainedModel> make_mamba_lm(const ModelConfig& config) {
  return std::make_unique<MambaForCausalLM>(config);
}

}  // namespace exporters::models
