// ModernBERT: Smarter, Better, Faster, Longer (Warner et al., 2024): norms before attention and MLP, rotary positions,
// gated MLPs, and layers that see only a window between those that see everything.
#include "exporters/models/encoder_families.h"
#include "exporters/models/layer_types.h"
#include "exporters/models/layers/mlp.h"
#include "exporters/models/layers/rotary.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/unbind.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

constexpr std::array kRules{
    FieldRule{"rope_scaling", "{}", "rotary embeddings scaled by \"rope_scaling\" instead of \"rope_parameters\" are"},
};

struct ModernBertConfig {
  explicit ModernBertConfig(const ModelConfig& config);

  int64_t vocab_size;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t num_heads;
  Activation activation;
  double norm_eps;
  bool norm_bias;
  bool attention_bias;
  bool mlp_bias;
  std::optional<int64_t> pad_token_id;
  std::vector<bool> is_sliding;  ///< by layer
  int64_t reach;                 ///< how far a sliding layer sees to either side
  std::vector<std::pair<std::string, RopeParameters>> ropes;

  int64_t head_dim() const { return hidden_size / num_heads; }
};

// Older configs have the two bases as fields of their own.
void read_ropes(const ModelConfig& config, ModernBertConfig& modern) {
  RopeDefaults defaults;
  defaults.head_dim = modern.head_dim();
  defaults.max_position_embeddings = config.size("max_position_embeddings", 8192);
  for (const auto& [sliding, type, field, theta] : {std::tuple(false, "full_attention", "global_rope_theta", 160'000.0),
                                                    {true, "sliding_attention", "local_rope_theta", 10'000.0}}) {
    if (std::find(modern.is_sliding.begin(), modern.is_sliding.end(), sliding) != modern.is_sliding.end()) {
      defaults.theta = config.number(field, theta);
      modern.ropes.emplace_back(type, read_rope_parameters(config, type, defaults));
    }
  }
}

ModernBertConfig::ModernBertConfig(const ModelConfig& config)
    : vocab_size(config.size("vocab_size", 50368)),
      hidden_size(config.size("hidden_size", 768)),
      intermediate_size(config.size("intermediate_size", 1152)),
      num_heads(config.size("num_attention_heads", 12)),
      activation(models::activation(config.string("hidden_activation", "gelu"))),
      norm_eps(config.number("norm_eps", 1e-5)),
      norm_bias(config.flag("norm_bias", false)),
      attention_bias(config.flag("attention_bias", false)),
      mlp_bias(config.flag("mlp_bias", false)),
      pad_token_id(config.optional_integer("pad_token_id", 50283)),
      reach(config.size("sliding_window", config.size("local_attention", 128, 0) / 2, 0)) {
  config.check(kRules);
  if (hidden_size % num_heads != 0) {
    throw Error(fmt::format("config field \"hidden_size\" is {}, not a multiple of \"num_attention_heads\", {}",
                            hidden_size, num_heads),
                config.where());
  }
  const int64_t every = config.size("global_attn_every_n_layers", 3);
  is_sliding = sliding_layers(config, static_cast<size_t>(config.size("num_hidden_layers", 22, 1, kMaxLayers)),
                              [every](size_t i) { return i % static_cast<size_t>(every) != 0; });
  read_ropes(config, *this);
}

EncoderTraits traits_of(const ModernBertConfig& modern, const ModelConfig& config) {
  EncoderTraits traits;
  traits.vocab_size = modern.vocab_size;
  traits.pad_token_id = modern.pad_token_id;
  traits.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  return traits;
}

class ModernBertEmbeddings : public Module {
 public:
  ModernBertEmbeddings(Scope scope, const ModernBertConfig& config)
      : Module(std::move(scope), "ModernBertEmbeddings"),
        tok_embeddings_(child("tok_embeddings"), config.vocab_size, config.hidden_size, config.pad_token_id),
        norm_(child("norm"), config.hidden_size, config.norm_eps, config.norm_bias) {}

  at::Tensor operator()(const EncoderInputs& inputs) const {
    const auto scope = enter();
    return norm_(inputs.inputs_embeds.defined() ? inputs.inputs_embeds : tok_embeddings_(inputs.input_ids));
  }
  const at::Tensor& words() const { return tok_embeddings_.weight(); }

 private:
  Embedding tok_embeddings_;
  LayerNorm norm_;
};

class ModernBertAttention : public Module {
 public:
  ModernBertAttention(Scope scope, const ModernBertConfig& config)
      : Module(std::move(scope), "ModernBertAttention"),
        heads_(config.num_heads),
        head_dim_(config.head_dim()),
        qkv_(child("Wqkv"), config.hidden_size, 3 * config.hidden_size, config.attention_bias),
        output_(child("Wo"), config.hidden_size, config.hidden_size, config.attention_bias) {}

  AttentionResult operator()(const at::Tensor& hidden, const at::Tensor& mask, const RotaryPositions& positions,
                             AttentionKind kind) const {
    const auto scope = enter();
    const std::vector<at::Tensor> parts = at::unbind(qkv_(hidden).unflatten(-1, {3, heads_, head_dim_}), 2);
    AttentionOptions options;
    options.scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
    options.softmax_in_float32 = true;
    AttentionResult result =
        attention(kind, rotated(parts[0].transpose(1, 2), positions), rotated(parts[1].transpose(1, 2), positions),
                  parts[2].transpose(1, 2), mask, options);
    return {output_(result.output), std::move(result.probabilities)};
  }

 private:
  // In float32, whatever the dtype is.
  static at::Tensor rotated(const at::Tensor& states, const RotaryPositions& positions) {
    return apply_rotary(states.to(c10::ScalarType::Float), positions).to(states.scalar_type());
  }

  int64_t heads_;
  int64_t head_dim_;
  Linear qkv_;
  Linear output_;
};

class ModernBertLayer : public Module {
 public:
  ModernBertLayer(Scope scope, const ModernBertConfig& config, size_t index)
      : Module(std::move(scope), "ModernBertEncoderLayer") {
    // The embeddings are normalised already.
    if (index > 0) {
      attn_norm_.emplace(child("attn_norm"), config.hidden_size, config.norm_eps, config.norm_bias);
    }
    attn_.emplace(child("attn"), config);
    mlp_norm_.emplace(child("mlp_norm"), config.hidden_size, config.norm_eps, config.norm_bias);
    mlp_.emplace(
        child("mlp"),
        MlpOptions{"ModernBertMLP", config.hidden_size, config.intermediate_size, config.activation, config.mlp_bias},
        "Wi", "Wo");
  }

  AttentionResult operator()(const at::Tensor& hidden, const at::Tensor& mask, const RotaryPositions& positions,
                             AttentionKind kind) const {
    const auto scope = enter();
    AttentionResult attended = (*attn_)(attn_norm_ ? (*attn_norm_)(hidden) : hidden, mask, positions, kind);
    const at::Tensor middle = hidden + attended.output;
    return {middle + (*mlp_)((*mlp_norm_)(middle)), std::move(attended.probabilities)};
  }

 private:
  std::optional<LayerNorm> attn_norm_;
  std::optional<ModernBertAttention> attn_;
  std::optional<LayerNorm> mlp_norm_;
  std::optional<FusedGatedMlp> mlp_;
};

class ModernBertModel : public EncoderModel {
 public:
  ModernBertModel(Scope scope, const ModelConfig& config, const ModernBertConfig& modern)
      : EncoderModel(std::move(scope), kModernBert, config, traits_of(modern, config)),
        is_sliding_(modern.is_sliding),
        reach_(modern.reach),
        ropes_(modern.ropes.size()),
        embeddings_(child("embeddings"), modern) {
    for (size_t i = 0; i < is_sliding_.size(); ++i) {
      layers_.emplace_back(child(fmt::format("layers.{}", i)), modern, i);
    }
    final_norm_.emplace(child("final_norm"), modern.hidden_size, modern.norm_eps, modern.norm_bias);
    rotary_emb_.emplace(child("rotary_emb"), "ModernBertRotaryEmbedding", modern.ropes);
  }

  const at::Tensor& word_embeddings() const override { return embeddings_.words(); }

 protected:
  EncoderStates encode(const EncoderInputs& inputs, AttentionKind kind) const override {
    at::Tensor hidden = embeddings_(inputs);
    at::Tensor positions = inputs.position_ids;
    if (!positions.defined()) {
      positions = at::arange(hidden.sym_size(1), at::TensorOptions().dtype(c10::ScalarType::Long)).unsqueeze(0);
    }
    std::vector<RotaryPositions> rotary;
    for (size_t i = 0; i < ropes_; ++i) {
      rotary.push_back((*rotary_emb_)(positions, hidden.scalar_type(), i));
    }
    const bool any_sliding = std::find(is_sliding_.begin(), is_sliding_.end(), true) != is_sliding_.end();
    const at::Tensor full = create_bidirectional_mask(kind, hidden, inputs.attention_mask, hidden.sym_size(1));
    const at::Tensor window =
        any_sliding ? create_bidirectional_sliding_mask(kind, hidden, inputs.attention_mask, reach_) : at::Tensor();
    EncoderStates states = run_layers(layers_.size(), std::move(hidden), [&](size_t i, const at::Tensor& h) {
      // The rope of layers that see everything comes first, if there are such layers.
      return is_sliding_[i] ? layers_[i](h, window, rotary.back(), kind) : layers_[i](h, full, rotary.front(), kind);
    });
    states.last_hidden_state = (*final_norm_)(states.last_hidden_state);
    states.hidden_states.back() = states.last_hidden_state;
    return states;
  }

 private:
  std::vector<bool> is_sliding_;
  int64_t reach_;
  size_t ropes_;
  ModernBertEmbeddings embeddings_;
  ModuleList<ModernBertLayer> layers_;
  std::optional<LayerNorm> final_norm_;
  std::optional<RotaryEmbedding> rotary_emb_;
};

/// dense, activation, norm, and a dense layer.
HeadSpec modern_head(HeadInput input, const ModelConfig& config, const ModernBertConfig& modern, std::string last,
                     int64_t scores) {
  HeadSpec head = dense_head(input, modern.hidden_size, "head.dense", modern.hidden_size);
  head.layers.front().activation = activation(config.string("classifier_activation", "gelu"));
  head.layers.front().bias = config.flag("classifier_bias", false);
  head.layers.push_back({.name = "head.norm", .eps = modern.norm_eps, .bias = modern.norm_bias});
  head.layers.push_back({.name = std::move(last), .out_features = scores});
  return head;
}

/// @param first what "cls" pools
HeadInput pooling(const ModelConfig& config, HeadInput first) {
  const std::string kind = config.string("classifier_pooling", "cls");
  if (kind != "cls" && kind != "mean") {
    throw Error(fmt::format("config field \"classifier_pooling\" is \"{}\"", kind), config.where(),
                "Known are: cls, mean");
  }
  return kind == "cls" ? first : HeadInput::kVisibleMean;
}

}  // namespace

std::unique_ptr<EncoderModel> make_modernbert(Scope scope, const ModelConfig& config, bool) {
  return std::make_unique<ModernBertModel>(std::move(scope), config, ModernBertConfig(config));
}

std::vector<HeadSpec> modernbert_heads(EncoderTask task, const ModelConfig& config) {
  const ModernBertConfig modern(config);
  const auto head = [&](HeadInput input, std::string last, int64_t scores) {
    return modern_head(input, config, modern, std::move(last), scores);
  };
  switch (task) {
    case EncoderTask::kMaskedLM: {
      HeadSpec words = head(HeadInput::kEach, "decoder", modern.vocab_size);
      words.layers.back().bias = config.flag("decoder_bias", true);
      words.is_tied = true;
      return {std::move(words)};
    }
    case EncoderTask::kSequenceClassification:
      return {head(pooling(config, HeadInput::kFirst), "classifier", config.num_labels())};
    case EncoderTask::kMultipleChoice:
      return {head(pooling(config, HeadInput::kFirstVisible), "classifier", 1)};
    case EncoderTask::kQuestionAnswering:
      question_answering_head(modern.hidden_size, config);  // the labels it needs
      return {head(HeadInput::kEach, "classifier", 2)};
    default:
      token_head(task, modern.hidden_size, config);  // that the task has a class
      return {head(HeadInput::kEach, "classifier", config.num_labels())};
  }
}

}  // namespace exporters::models
