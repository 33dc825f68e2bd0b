// Language Models are Unsupervised Multitask Learners (Radford et al., 2019).
#include "exporters/models/decoder_families.h"
#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/cached_attention.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <array>
#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

constexpr std::array kRules{
    FieldRule{"add_cross_attention", "false", "cross-attention is"},
    FieldRule{"reorder_and_upcast_attn", "false", "attention in another order and precision is"},
};

struct Gpt2Config {
  explicit Gpt2Config(const ModelConfig& config)
      : vocab_size(config.size("vocab_size", 50257)),
        hidden_size(either(config, "n_embd", "hidden_size", 768)),
        num_layers(either(config, "n_layer", "num_hidden_layers", 12)),
        num_heads(either(config, "n_head", "num_attention_heads", 12)),
        max_positions(either(config, "n_positions", "max_position_embeddings", 1024)),
        inner_size(config.size("n_inner", 4 * hidden_size)),
        activation(models::activation(config.string("activation_function", "gelu_new"))),
        layer_norm_eps(config.number("layer_norm_epsilon", 1e-5)),
        scales_by_head(config.flag("scale_attn_weights", true)),
        scales_by_layer(config.flag("scale_attn_by_inverse_layer_idx", false)) {
    config.check(kRules);
    ensure(num_layers <= kMaxLayers, "a model of {} layers is not supported", num_layers);
    if (hidden_size % num_heads != 0) {
      throw Error(
          fmt::format("config field \"n_embd\" is {}, not a multiple of \"n_head\", {}", hidden_size, num_heads),
          config.where());
    }
  }

  static int64_t either(const ModelConfig& config, std::string_view name, std::string_view other, int64_t fallback) {
    return config.size(config.has(name) ? name : other, fallback);
  }

  int64_t head_dim() const { return hidden_size / num_heads; }
  double scale(size_t layer) const {
    const double by_head = scales_by_head ? 1.0 / std::sqrt(static_cast<double>(head_dim())) : 1.0;
    return scales_by_layer ? by_head / static_cast<double>(layer + 1) : by_head;
  }

  int64_t vocab_size;
  int64_t hidden_size;
  int64_t num_layers;
  int64_t num_heads;
  int64_t max_positions;
  int64_t inner_size;
  Activation activation;
  double layer_norm_eps;
  bool scales_by_head;
  bool scales_by_layer;
};

DecoderTraits traits_of(const Gpt2Config& gpt2, const ModelConfig& config) {
  DecoderTraits traits;
  traits.vocab_size = gpt2.vocab_size;
  traits.hidden_size = gpt2.hidden_size;
  traits.num_key_value_heads = gpt2.num_heads;
  traits.head_dim = gpt2.head_dim();
  traits.sliding_windows.resize(static_cast<size_t>(gpt2.num_layers));
  traits.max_positions = gpt2.max_positions;
  traits.pad_token_id = config.optional_integer("pad_token_id", std::nullopt);
  traits.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  return traits;
}

class Gpt2Attention : public Module {
 public:
  Gpt2Attention(Scope scope, const Gpt2Config& config, size_t layer)
      : Module(std::move(scope), "GPT2Attention"),
        heads_(config.num_heads),
        head_dim_(config.head_dim()),
        scale_(config.scale(layer)),
        c_attn_(child("c_attn"), config.hidden_size, 3 * config.hidden_size),
        c_proj_(child("c_proj"), config.hidden_size, config.hidden_size) {}

  AttentionResult operator()(const at::Tensor& hidden, const CausalMask& mask, CacheLayer* cache,
                             AttentionKind kind) const {
    const auto scope = enter();
    const at::Tensor all = c_attn_(hidden);
    const int64_t width = heads_ * head_dim_;
    const auto part = [&](int64_t i) {
      return split_heads(all.slice(-1, i * width, (i + 1) * width), heads_, head_dim_);
    };
    const at::Tensor query = part(0);
    const at::Tensor key = part(1);
    const at::Tensor value = part(2);
    AttentionResult result = cached_attention(kind, query, key, value, mask, cache, {.scale = scale_});
    return {c_proj_(result.output), std::move(result.probabilities)};
  }

 private:
  int64_t heads_;
  int64_t head_dim_;
  double scale_;
  Conv1D c_attn_;
  Conv1D c_proj_;
};

class Gpt2Mlp : public Module {
 public:
  Gpt2Mlp(Scope scope, const Gpt2Config& config)
      : Module(std::move(scope), "GPT2MLP"),
        activation_(config.activation),
        c_fc_(child("c_fc"), config.hidden_size, config.inner_size),
        c_proj_(child("c_proj"), config.inner_size, config.hidden_size) {}

  at::Tensor operator()(const at::Tensor& hidden) const {
    const auto scope = enter();
    return c_proj_(activation_(c_fc_(hidden)));
  }

 private:
  Activation activation_;
  Conv1D c_fc_;
  Conv1D c_proj_;
};

class Gpt2Block : public Module {
 public:
  Gpt2Block(Scope scope, const Gpt2Config& config, size_t layer)
      : Module(std::move(scope), "GPT2Block"),
        ln_1_(child("ln_1"), config.hidden_size, config.layer_norm_eps),
        attn_(child("attn"), config, layer),
        ln_2_(child("ln_2"), config.hidden_size, config.layer_norm_eps),
        mlp_(child("mlp"), config) {}

  AttentionResult operator()(const at::Tensor& hidden, const CausalMask& mask, CacheLayer* cache,
                             AttentionKind kind) const {
    const auto scope = enter();
    AttentionResult attended = attn_(ln_1_(hidden), mask, cache, kind);
    const at::Tensor middle = attended.output + hidden;
    return {middle + mlp_(ln_2_(middle)), std::move(attended.probabilities)};
  }

 private:
  LayerNorm ln_1_;
  Gpt2Attention attn_;
  LayerNorm ln_2_;
  Gpt2Mlp mlp_;
};

class Gpt2Model : public DecoderModel {
 public:
  Gpt2Model(Scope scope, const ModelConfig& config) : Gpt2Model(std::move(scope), config, Gpt2Config(config)) {}

  std::vector<ArgumentSpec> arguments() const override {
    std::vector<ArgumentSpec> specs = DecoderModel::arguments();
    specs.push_back({"token_type_ids", ArgumentSpec::Kind::kIndices, {2}, traits().vocab_size, "vocab_size"});
    for (const char* name : {"encoder_hidden_states", "encoder_attention_mask"}) {
      specs.push_back({name, ArgumentSpec::Kind::kRefused, {}, 0, "it needs cross-attention"});
    }
    return specs;
  }

 protected:
  at::Tensor embed(const at::Tensor& input_ids) const override { return wte_(input_ids); }

  at::Tensor begin(const at::Tensor& embeddings, Pass& pass) const override {
    const at::Tensor hidden = embeddings + wpe_(pass.position_ids);
    const at::Tensor types = pass.args->tensor("token_type_ids");
    return types.defined() ? hidden + wte_(types) : hidden;
  }

  AttentionResult run_layer(size_t index, const at::Tensor& hidden, const LayerInputs& inputs) const override {
    return h_[index](hidden, inputs.mask, inputs.cache, inputs.pass->kind);
  }

  at::Tensor finish(const at::Tensor& hidden) const override { return ln_f_(hidden); }

 private:
  Gpt2Model(Scope scope, const ModelConfig& config, const Gpt2Config& gpt2)
      : DecoderModel(std::move(scope), kGpt2, config, traits_of(gpt2, config)),
        wte_(child("wte"), gpt2.vocab_size, gpt2.hidden_size),
        wpe_(child("wpe"), gpt2.max_positions, gpt2.hidden_size),
        h_(blocks(gpt2)),
        ln_f_(child("ln_f"), gpt2.hidden_size, gpt2.layer_norm_eps) {}

  ModuleList<Gpt2Block> blocks(const Gpt2Config& gpt2) {
    ModuleList<Gpt2Block> blocks;
    for (int64_t i = 0; i < gpt2.num_layers; ++i) {
      blocks.emplace_back(child(fmt::format("h.{}", i)), gpt2, static_cast<size_t>(i));
    }
    return blocks;
  }

  Embedding wte_;
  Embedding wpe_;
  ModuleList<Gpt2Block> h_;
  LayerNorm ln_f_;
};

}  // namespace

std::unique_ptr<DecoderModel> make_gpt2(Scope scope, const ModelConfig& config) {
  return std::make_unique<Gpt2Model>(std::move(scope), config);
}

}  // namespace exporters::models
