// Decoders with experts: Mixtral (Jiang et al., 2024), Qwen2-MoE and Qwen3-MoE (Qwen Team, 2024 and 2025), and gpt-oss
// (OpenAI, 2025).
#include "exporters/models/decoder_families.h"
#include "exporters/models/layers/experts.h"
#include "exporters/models/llama_like.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace exporters::models {
namespace {

constexpr std::array kRules{
    FieldRule{"output_router_logits", "false", "router scores and their loss as outputs are"},
};

struct MoeConfig {
  std::string prefix;
  ExpertsOptions experts;
  int64_t choices = 2;
  bool normalizes = true;
  /// The weights of the choices stay in float32.
  bool weights_in_float32 = false;
  /// Weights are a softmax over the scores of the chosen experts, not of all.
  bool softmax_of_chosen = false;
  bool router_bias = false;
  std::string block_class = "SparseMoeBlock";  ///< after the prefix
  std::string router = "gate";
  bool experts_first = false;  ///< as parameters
  /// Of an expert that serves every token besides; 0: there is none.
  int64_t shared_intermediate_size = 0;
};

ExpertsKind experts_kind(const ModelConfig& config) {
  for (const char* field : {"experts_implementation", "_experts_implementation"}) {
    if (config.has(field)) {
      return parse_experts_kind(config.string(field, ""));
    }
  }
  return ExpertsKind::kGroupedMm;
}

MoeConfig read_moe(std::string prefix, const ModelConfig& config, const LlamaLikeSpec& spec, int64_t experts,
                   int64_t choices, int64_t intermediate_size) {
  MoeConfig moe;
  moe.choices = config.size("num_experts_per_tok", choices);
  moe.experts = {.class_name = prefix + "Experts",
                 .num_experts = config.size("num_local_experts", config.size("num_experts", experts)),
                 .hidden_size = spec.hidden_size,
                 .intermediate_size = intermediate_size,
                 .activation = spec.activation,
                 .kind = experts_kind(config)};
  moe.prefix = std::move(prefix);
  if (moe.choices > moe.experts.num_experts) {
    throw Error(fmt::format("config field \"num_experts_per_tok\" is {}, there are {} experts", moe.choices,
                            moe.experts.num_experts),
                config.where());
  }
  return moe;
}

class MoeRouter : public Module {
 public:
  MoeRouter(Scope scope, const MoeConfig& config)
      : Module(std::move(scope), config.prefix + "TopKRouter"),
        choices_(config.choices),
        normalizes_(config.normalizes),
        weights_in_float32_(config.weights_in_float32),
        softmax_of_chosen_(config.softmax_of_chosen) {
    parameter("weight", weight_, {config.experts.num_experts, config.experts.hidden_size});
    if (config.router_bias) {
      parameter("bias", bias_, {config.experts.num_experts});
    }
  }

  struct Choice {
    at::Tensor experts;  ///< int64 [tokens, choices]
    at::Tensor weights;  ///< [tokens, choices]
  };

  Choice operator()(const at::Tensor& hidden) const {
    const auto scope = enter();
    const at::Tensor logits = at::linear(hidden, weight_, bias_.defined() ? std::optional(bias_) : std::nullopt);
    if (softmax_of_chosen_) {
      const auto [scores, experts] = at::topk(logits, choices_, -1);
      return {experts, at::softmax(scores, -1)};
    }
    const at::Tensor probabilities = at::softmax(logits, -1, c10::ScalarType::Float);
    auto [weights, experts] = at::topk(probabilities, choices_, -1);
    if (normalizes_) {
      weights = weights / at::sum(weights, {-1}, /*keepdim=*/true);
    }
    return {experts, weights_in_float32_ ? weights : weights.to(logits.scalar_type())};
  }

 private:
  int64_t choices_;
  bool normalizes_;
  bool weights_in_float32_;
  bool softmax_of_chosen_;
  at::Tensor weight_;
  at::Tensor bias_;
};

class MoeBlock : public LlamaLikeMlp {
 public:
  MoeBlock(Scope scope, const MoeConfig& config) : LlamaLikeMlp(std::move(scope), config.prefix + config.block_class) {
    if (config.experts_first) {
      experts_.emplace(child("experts"), config.experts);
    }
    router_.emplace(child(config.router), config);
    if (!config.experts_first) {
      experts_.emplace(child("experts"), config.experts);
    }
    if (config.shared_intermediate_size > 0) {
      const MlpOptions options{config.prefix + "MLP", config.experts.hidden_size, config.shared_intermediate_size,
                               config.experts.activation};
      shared_expert_.emplace(child("shared_expert"), options);
      shared_expert_gate_.emplace(child("shared_expert_gate"), config.experts.hidden_size, 1, /*bias=*/false);
    }
  }

  at::Tensor operator()(const at::Tensor& hidden) const override {
    const auto scope = enter();
    const at::Tensor tokens = hidden.flatten(0, 1);
    const MoeRouter::Choice choice = (*router_)(tokens);
    at::Tensor output = (*experts_)(tokens, choice.experts, choice.weights);
    if (shared_expert_) {
      output = output + at::sigmoid((*shared_expert_gate_)(tokens)) * (*shared_expert_)(tokens);
    }
    return output.unflatten_symint(0, {hidden.sym_size(0), hidden.sym_size(1)});
  }

 private:
  std::optional<MoeRouter> router_;
  std::optional<Experts> experts_;
  std::optional<GatedMlp> shared_expert_;
  std::optional<Linear> shared_expert_gate_;
};

/// The layers without experts that "mlp_only_layers" and "decoder_sparse_step" name have a plain MLP.
void add_experts(LlamaLikeSpec& spec, const ModelConfig& config, MoeConfig moe) {
  const int64_t step = config.size("decoder_sparse_step", 1);
  std::vector<int64_t> plain;
  if (const auto field = JsonField(config.json(), config.where()).find("mlp_only_layers")) {
    for (const JsonField& layer : field->elements()) {
      plain.push_back(layer.as_int());
    }
  }
  spec.make_mlp = [step, plain, moe = std::move(moe)](Scope scope, size_t layer) -> std::unique_ptr<LlamaLikeMlp> {
    const auto index = static_cast<int64_t>(layer);
    const bool is_sparse = (index + 1) % step == 0 && std::find(plain.begin(), plain.end(), index) == plain.end();
    return is_sparse ? std::make_unique<MoeBlock>(std::move(scope), moe) : nullptr;
  };
}

}  // namespace

std::unique_ptr<DecoderModel> make_mixtral(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.intermediate_size = 14336;
  defaults.num_key_value_heads = 8;
  defaults.max_position_embeddings = 4096 * 32;
  defaults.norm_eps = 1e-5;
  LlamaLikeSpec spec = read_llama_like(config, defaults, kRules);
  slide_all(spec, config, config.optional_integer("sliding_window", std::nullopt));
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec, 1e6))}};
  MoeConfig moe = read_moe("Mixtral", config, spec, 8, 2, spec.intermediate_size);
  moe.weights_in_float32 = true;
  add_experts(spec, config, std::move(moe));
  return std::make_unique<LlamaLikeModel>(std::move(scope), kMixtral, config, std::move(spec));
}

std::unique_ptr<DecoderModel> make_qwen2_moe(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 151936;
  defaults.hidden_size = 2048;
  defaults.intermediate_size = 5632;
  defaults.num_hidden_layers = 24;
  defaults.num_attention_heads = 16;
  defaults.num_key_value_heads = 16;
  defaults.max_position_embeddings = 32768;
  LlamaLikeSpec spec = read_llama_like(config, defaults, kRules);
  spec.returns_given_cache = false;
  spec.query_key_value_bias = config.flag("qkv_bias", true);
  std::optional<int64_t> window;
  if (config.flag("use_sliding_window", false)) {
    window = config.optional_integer("sliding_window", 4096);
  }
  const int64_t last = config.integer("max_window_layers", 28);
  read_layer_types(spec, config, window,
                   [&](size_t i) { return window && i % 2 == 0 && static_cast<int64_t>(i) < last; });
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  MoeConfig moe = read_moe("Qwen2Moe", config, spec, 60, 4, config.size("moe_intermediate_size", 1408));
  moe.normalizes = config.flag("norm_topk_prob", false);
  moe.shared_intermediate_size = config.size("shared_expert_intermediate_size", 5632);
  add_experts(spec, config, std::move(moe));
  return std::make_unique<LlamaLikeModel>(std::move(scope), kQwen2Moe, config, std::move(spec));
}

std::unique_ptr<DecoderModel> make_qwen3_moe(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 151936;
  defaults.hidden_size = 2048;
  defaults.intermediate_size = 6144;
  defaults.num_hidden_layers = 24;
  defaults.num_attention_heads = 32;
  defaults.num_key_value_heads = 4;
  defaults.max_position_embeddings = 32768;
  LlamaLikeSpec spec = read_llama_like(config, defaults, kRules);
  spec.query_key_value_bias = config.flag("attention_bias", false);
  spec.attention_output_bias = spec.query_key_value_bias;
  spec.query_key_norm = QueryKeyNorm::kPerHead;
  if (config.flag("use_sliding_window", false)) {
    slide_all(spec, config, config.optional_integer("sliding_window", 4096));
  }
  spec.ropes = {{"", read_rope_parameters(config, rope_defaults(spec))}};
  MoeConfig moe = read_moe("Qwen3Moe", config, spec, 128, 8, config.size("moe_intermediate_size", 768));
  moe.experts_first = true;
  moe.normalizes = config.flag("norm_topk_prob", false);
  add_experts(spec, config, std::move(moe));
  return std::make_unique<LlamaLikeModel>(std::move(scope), kQwen3Moe, config, std::move(spec));
}

std::unique_ptr<DecoderModel> make_gpt_oss(Scope scope, const ModelConfig& config) {
  LlamaLikeDefaults defaults;
  defaults.vocab_size = 201088;
  defaults.hidden_size = 2880;
  defaults.intermediate_size = 2880;
  defaults.num_hidden_layers = 36;
  defaults.num_attention_heads = 64;
  defaults.num_key_value_heads = 8;
  defaults.head_dim = 64;
  defaults.max_position_embeddings = 131072;
  defaults.norm_eps = 1e-5;
  LlamaLikeSpec spec = read_llama_like(config, defaults, kRules);
  spec.norm = RmsNormKind::kWeightInFloat32;
  spec.query_key_value_bias = config.flag("attention_bias", true);
  spec.attention_output_bias = spec.query_key_value_bias;
  spec.attention_sinks = true;
  spec.packs_sequences = false;
  read_layer_types(spec, config, config.optional_integer("sliding_window", 128), [](size_t i) { return i % 2 == 0; });
  RopeParameters rope = read_rope_parameters(config, rope_defaults(spec, 150000.0));
  if (!config.has("rope_parameters") && !config.has("rope_scaling")) {
    rope.type = "yarn";
    rope.factor = 32.0;
    rope.truncate = false;
    rope.original_max_position_embeddings = 4096;
  }
  spec.ropes = {{"", rope}};
  MoeConfig moe = read_moe("GptOss", config, spec, 128, 4, spec.intermediate_size);
  moe.softmax_of_chosen = true;
  moe.router_bias = true;
  moe.block_class = "MLP";
  moe.router = "router";
  moe.experts.has_bias = true;
  moe.experts.is_transposed = true;
  const double alpha = config.number("swiglu_alpha", 1.702);
  const double limit = config.number("swiglu_limit", 7.0);
  // Gate and up take turns.
  moe.experts.join = [alpha, limit](const at::Tensor& both) {
    const at::Tensor gate = at::clamp_max(both.slice(-1, 0, std::nullopt, 2), limit);
    const at::Tensor up = at::clamp(both.slice(-1, 1, std::nullopt, 2), -limit, limit);
    return (up + 1) * (gate * at::sigmoid(gate * alpha));
  };
  add_experts(spec, config, std::move(moe));
  return std::make_unique<LlamaLikeModel>(std::move(scope), kGptOss, config, std::move(spec));
}

}  // namespace exporters::models
