#include "exporters/models/bert_like.h"

#include "exporters/models/layers/cached_attention.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <array>
#include <cmath>
#include <numeric>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

// Fields that the reference's encoders read, or read in earlier versions, whose other values compute something else.
// Those that only training reads (dropout, initializer_range), every forward (use_cache) or nobody
// (gradient_checkpointing) do not matter here, nor does chunk_size_feed_forward, which splits the same computation.
constexpr std::array kSharedRules{
    FieldRule{"position_embedding_type", "\"absolute\"", "relative position embeddings are"},
    FieldRule{"add_cross_attention", "false", "cross-attention is"},
};
constexpr std::array kEncoderRules{
    FieldRule{"is_decoder", "false", "an encoder as a decoder (causal attention with a cache) is"},
    FieldRule{"is_causal", "false", "causal attention is"},
};
constexpr std::array kDecoderRules{
    FieldRule{"is_causal", "true", "a decoder that sees what follows is"},
};

}  // namespace

std::vector<std::string> numbered(std::string_view before, int64_t count, std::string_view after) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    names.push_back(fmt::format("{}{}{}", before, i, after));
  }
  return names;
}

BertLikeSpec read_bert_like(const ModelConfig& config, const BertLikeDefaults& defaults,
                            std::span<const FieldRule> rules) {
  BertLikeSpec spec;
  spec.hidden_size = config.size("hidden_size", defaults.hidden_size);
  spec.intermediate_size = config.size("intermediate_size", defaults.intermediate_size);
  spec.num_attention_heads = config.size("num_attention_heads", defaults.num_attention_heads);
  spec.activation = activation(config.string("hidden_act", defaults.hidden_act));
  spec.eps = config.number("layer_norm_eps", defaults.layer_norm_eps);
  spec.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  spec.is_decoder = defaults.can_be_decoder && config.flag("is_decoder", false);
  spec.layers = numbered("encoder.layer.", config.size("num_hidden_layers", defaults.num_hidden_layers, 0, kMaxLayers));
  spec.embeddings.vocab_size = config.size("vocab_size", defaults.vocab_size);
  spec.embeddings.width = spec.hidden_size;
  spec.embeddings.max_positions = config.size("max_position_embeddings", defaults.max_position_embeddings);
  if (defaults.type_vocab_size > 0) {
    spec.embeddings.type_vocab_size = config.size("type_vocab_size", defaults.type_vocab_size);
  }
  spec.embeddings.padding_idx = config.optional_integer("pad_token_id", defaults.pad_token_id);
  spec.embeddings.eps = spec.eps;
  check_bert_like(config, spec, rules);
  return spec;
}

void check_bert_like(const ModelConfig& config, const BertLikeSpec& spec, std::span<const FieldRule> rules) {
  config.check(kSharedRules);
  config.check(spec.is_decoder ? std::span<const FieldRule>(kDecoderRules) : kEncoderRules);
  config.check(rules);
  if (spec.hidden_size % spec.num_attention_heads != 0) {
    throw Error(fmt::format("config field \"hidden_size\" is {}, not a multiple of \"num_attention_heads\", {}",
                            spec.hidden_size, spec.num_attention_heads),
                config.where());
  }
}

EncoderTraits traits_of(const BertLikeSpec& spec) {
  EncoderTraits traits;
  traits.vocab_size = spec.embeddings.vocab_size;
  traits.type_vocab_size = spec.embeddings.type_vocab_size;
  traits.samples_token_types = spec.samples_token_types && traits.type_vocab_size > 0;
  traits.max_sequence = spec.embeddings.max_sequence();
  traits.position_limit = spec.embeddings.embeds_positions ? spec.embeddings.max_positions : 0;
  traits.pad_token_id = spec.embeddings.padding_idx;
  traits.tie_word_embeddings = spec.tie_word_embeddings;
  traits.needs_eager_attention = !spec.relative_bias.empty();
  return traits;
}

std::vector<HeadSpec> bert_task_heads(EncoderTask task, const ModelConfig& config, const BertLikeSpec& spec,
                                      HeadSpec words, OrderHead order) {
  const auto pooled = [&](std::string name, int64_t scores) {
    return dense_head(HeadInput::kPooled, spec.hidden_size, std::move(name), scores);
  };
  switch (task) {
    case EncoderTask::kMaskedLM:
      return {std::move(words)};
    case EncoderTask::kPreTraining: {
      words.field = "prediction_logits";
      HeadSpec sentences = pooled(std::move(order.name), order.scores);
      sentences.field = std::move(order.field);
      return {std::move(words), std::move(sentences)};
    }
    case EncoderTask::kNextSentencePrediction:
      return {pooled(std::move(order.name), order.scores)};
    case EncoderTask::kSequenceClassification:
      return {pooled("classifier", config.num_labels())};
    case EncoderTask::kMultipleChoice:
      return {pooled("classifier", 1)};
    default:
      return {token_head(task, spec.hidden_size, config)};
  }
}

std::vector<HeadSpec> roberta_like_heads(EncoderTask task, const ModelConfig& config, const BertLikeSpec& spec) {
  const int64_t hidden = spec.hidden_size;
  switch (task) {
    case EncoderTask::kMaskedLM:
      return {language_model_head(
          hidden, hidden, spec.embeddings.vocab_size,
          {.dense = "lm_head.dense", .norm = "lm_head.layer_norm", .decoder = "lm_head.decoder", .bias = "lm_head"},
          activation("gelu"), spec.eps)};
    case EncoderTask::kSequenceClassification:
      return {
          first_token_head(hidden, "classifier.dense", activation("tanh"), "classifier.out_proj", config.num_labels())};
    case EncoderTask::kMultipleChoice:
      return {dense_head(HeadInput::kPooled, hidden, "classifier", 1)};
    default:
      return {token_head(task, hidden, config)};
  }
}

BertSelfAttention::BertSelfAttention(Scope scope, std::string class_name, const BertLikeSpec& spec)
    : EncoderAttention(std::move(scope), std::move(class_name)),
      heads_(spec.num_attention_heads),
      head_size_(spec.hidden_size / spec.num_attention_heads),
      query_(child(std::string(spec.names.query)), spec.hidden_size, spec.hidden_size),
      key_(child(std::string(spec.names.key)), spec.hidden_size, spec.hidden_size),
      value_(child(std::string(spec.names.value)), spec.hidden_size, spec.hidden_size) {}

AttentionResult BertSelfAttention::operator()(const at::Tensor& hidden, const EncoderPass& pass) const {
  const auto scope = enter();
  const at::Tensor query = split_heads(query_(hidden), heads_, head_size_);
  const at::Tensor key = split_heads(key_(hidden), heads_, head_size_);
  const at::Tensor value = split_heads(value_(hidden), heads_, head_size_);
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_size_));
  if (pass.causal == nullptr) {
    return attention(pass.kind, query, key, value, pass.mask, scale);
  }
  AttentionOptions options;
  options.scale = scale;
  return cached_attention(pass.kind, query, key, value, *pass.causal, pass.cache, options);
}

MakeEncoderAttention bert_self_attention(const EncoderFamily& family, const BertLikeSpec& spec) {
  return [&](Scope scope) {
    return std::make_unique<BertSelfAttention>(std::move(scope),
                                               fmt::format("{}{}", family.prefix, spec.names.attention_class), spec);
  };
}

BertLayer::BertLayer(Scope scope, std::string class_name, const BertLikeSpec& spec,
                     const MakeEncoderAttention& make_attention)
    : Module(std::move(scope), std::move(class_name)), activation_(spec.activation) {
  const auto named = [this](std::string_view name) { return child(std::string(name)); };
  const BertLayerNames& names = spec.names;
  if (names.output_norm_first) {
    output_norm_.emplace(named(names.output_norm), spec.hidden_size, spec.eps);
  }
  attention_ = make_attention(named(names.attention));
  attention_output_.emplace(named(names.attention_output), spec.hidden_size, spec.hidden_size);
  attention_norm_.emplace(named(names.attention_norm), spec.hidden_size, spec.eps);
  intermediate_.emplace(named(names.intermediate), spec.hidden_size, spec.intermediate_size);
  output_.emplace(named(names.output), spec.intermediate_size, spec.hidden_size);
  if (!names.output_norm_first) {
    output_norm_.emplace(named(names.output_norm), spec.hidden_size, spec.eps);
  }
}

AttentionResult BertLayer::operator()(const at::Tensor& hidden, const EncoderPass& pass) const {
  const auto scope = enter();
  AttentionResult attended = (*attention_)(hidden, pass);
  const at::Tensor middle = (*attention_norm_)((*attention_output_)(attended.output) + hidden);
  const at::Tensor forward = (*output_)(activation_((*intermediate_)(middle)));
  return {(*output_norm_)(forward + middle), std::move(attended.probabilities)};
}

BertLikeModel::BertLikeModel(Scope scope, const EncoderFamily& family, const ModelConfig& config, BertLikeSpec spec,
                             bool with_pooler)
    : EncoderModel(std::move(scope), family, config, traits_of(spec)),
      spec_(std::move(spec)),
      embeddings_(child("embeddings"), spec_.embeddings) {
  if (spec_.is_decoder) {
    throw Error(fmt::format("config field \"is_decoder\" is true, and {} is an encoder", class_name()), config.where(),
                "The class of the family that generates is a decoder: hfx models lists it for text-generation.");
  }
  if (!spec_.projection.empty()) {
    projection_.emplace(child(spec_.projection), spec_.embeddings.width, spec_.hidden_size);
  }
  const MakeEncoderAttention make_attention = bert_self_attention(family, spec_);
  for (const std::string& name : spec_.layers) {
    layers_.emplace_back(child(name), fmt::format("{}{}", family.prefix, spec_.names.layer_class), spec_,
                         make_attention);
  }
  if (spec_.order.empty()) {
    spec_.order.resize(layers_.size());
    std::iota(spec_.order.begin(), spec_.order.end(), size_t{0});
  }
  if (!spec_.relative_bias.empty()) {
    relative_bias_.emplace(child(spec_.relative_bias), spec_.relative_rows, spec_.num_attention_heads);
  }
  if (with_pooler) {
    declare_pooler(spec_.hidden_size);
  }
}

// With relative biases, attention runs step by step only, where a mask is what is added to the scores.
at::Tensor BertLikeModel::mask(const at::Tensor& hidden, const EncoderInputs& inputs, AttentionKind kind) const {
  const c10::SymInt length = hidden.sym_size(1);
  const at::Tensor mask = create_bidirectional_mask(kind, hidden, inputs.attention_mask, length);
  if (!relative_bias_) {
    return mask;
  }
  const at::Tensor buckets = relative_position_buckets(length, length, spec_.relative_buckets);
  const at::Tensor bias = (*relative_bias_)(buckets).permute({2, 0, 1}).unsqueeze(0);
  return add_bias(mask, bias);
}

EncoderStates BertLikeModel::encode(const EncoderInputs& inputs, AttentionKind kind) const {
  at::Tensor hidden = embeddings_(inputs);
  if (projection_) {
    hidden = (*projection_)(hidden);
  }
  const EncoderPass pass{kind, mask(hidden, inputs, kind), {}, {}};
  return run_layers(spec_.order.size(), std::move(hidden),
                    [&](size_t i, const at::Tensor& states) { return layers_[spec_.order[i]](states, pass); });
}

}  // namespace exporters::models
