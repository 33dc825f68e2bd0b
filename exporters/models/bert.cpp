#include "exporters/models/bert.h"

#include "exporters/models/operators.h"
#include "exporters/models/samples.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

// Fields that the reference's BERT reads, or read in earlier versions, whose other values compute something else.
// Those that only training reads (dropout, initializer_range), only decoders (use_cache) or nobody
// (gradient_checkpointing) do not matter here, nor does chunk_size_feed_forward, which splits the same computation.
constexpr std::array kRules{
    FieldRule{"position_embedding_type", "\"absolute\"", "relative position embeddings are"},
    FieldRule{"is_decoder", "false", "BERT as a decoder (causal attention with a cache) is"},
    FieldRule{"add_cross_attention", "false", "cross-attention is"},
    FieldRule{"is_causal", "false", "causal attention is"},
};

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

}  // namespace

BertConfig::BertConfig(const ModelConfig& config)
    : vocab_size(config.size("vocab_size", 30522)),
      hidden_size(config.size("hidden_size", 768)),
      num_hidden_layers(config.size("num_hidden_layers", 12, 0, kMaxLayers)),
      num_attention_heads(config.size("num_attention_heads", 12)),
      intermediate_size(config.size("intermediate_size", 3072)),
      hidden_act(activation(config.string("hidden_act", "gelu"))),
      max_position_embeddings(config.size("max_position_embeddings", 512)),
      type_vocab_size(config.size("type_vocab_size", 2)),
      layer_norm_eps(config.number("layer_norm_eps", 1e-12)),
      pad_token_id(config.optional_integer("pad_token_id", 0)),
      tie_word_embeddings(config.flag("tie_word_embeddings", true)) {
  config.check(kRules);
  if (hidden_size % num_attention_heads != 0) {
    throw Error(fmt::format("config field \"hidden_size\" is {}, not a multiple of \"num_attention_heads\", {}",
                            hidden_size, num_attention_heads),
                config.where());
  }
}

BertInputs::BertInputs(const ForwardArgs& args)
    : input_ids(args.tensor("input_ids")),
      attention_mask(args.tensor("attention_mask")),
      token_type_ids(args.tensor("token_type_ids")),
      position_ids(args.tensor("position_ids")),
      inputs_embeds(args.tensor("inputs_embeds")) {
  if (input_ids.defined() == inputs_embeds.defined()) {
    throw Error(input_ids.defined() ? "both input_ids and inputs_embeds are given"
                                    : "neither input_ids nor inputs_embeds is given",
                {}, "Give exactly one of them");
  }
}

BertEmbeddings::BertEmbeddings(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertEmbeddings"),
      max_position_embeddings_(config.max_position_embeddings),
      word_embeddings_(child("word_embeddings"), config.vocab_size, config.hidden_size, config.pad_token_id),
      position_embeddings_(child("position_embeddings"), config.max_position_embeddings, config.hidden_size),
      token_type_embeddings_(child("token_type_embeddings"), config.type_vocab_size, config.hidden_size),
      layer_norm_(child("LayerNorm"), config.hidden_size, config.layer_norm_eps) {
  const int64_t count = config.max_position_embeddings;
  buffer("position_ids", position_ids_, [count] { return at::arange(count, int64()).unsqueeze(0); });
  buffer("token_type_ids", token_type_ids_, [count] { return at::zeros({1, count}, int64()); });
}

at::Tensor BertEmbeddings::first_positions(const c10::SymInt& length) const {
  require(length.sym_le(max_position_embeddings_), [&] {
    return c10::str("the sequence (axis 1) has ", length, " positions, the model has ", max_position_embeddings_,
                    " (max_position_embeddings)");
  });
  return position_ids_.slice_symint(1, 0, length);
}

at::Tensor BertEmbeddings::operator()(const BertInputs& inputs) const {
  const auto scope = enter();
  const at::Tensor words = inputs.inputs_embeds.defined() ? inputs.inputs_embeds : word_embeddings_(inputs.input_ids);
  const c10::SymInt length = words.sym_size(1);
  const bool default_positions = !inputs.position_ids.defined();
  const at::Tensor positions = default_positions ? first_positions(length) : inputs.position_ids;
  at::Tensor token_types = inputs.token_type_ids;
  if (!token_types.defined()) {
    token_types = default_positions ? token_type_ids_.slice_symint(1, 0, length) : at::zeros_like(positions);
  }
  const at::Tensor sum = words + token_type_embeddings_(token_types);
  return layer_norm_(sum + position_embeddings_(positions));
}

BertSelfAttention::BertSelfAttention(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertSelfAttention"),
      heads_(config.num_attention_heads),
      head_size_(config.head_size()),
      scale_(1.0 / std::sqrt(static_cast<double>(head_size_))),
      query_(child("query"), config.hidden_size, config.hidden_size),
      key_(child("key"), config.hidden_size, config.hidden_size),
      value_(child("value"), config.hidden_size, config.hidden_size) {}

AttentionResult BertSelfAttention::operator()(const at::Tensor& hidden, const at::Tensor& mask,
                                              AttentionKind kind) const {
  const auto scope = enter();
  const at::Tensor query = split_heads(query_(hidden), heads_, head_size_);
  const at::Tensor key = split_heads(key_(hidden), heads_, head_size_);
  const at::Tensor value = split_heads(value_(hidden), heads_, head_size_);
  return attention(kind, query, key, value, mask, scale_);
}

BertResidualOutput::BertResidualOutput(Scope scope, std::string class_name, int64_t in_features,
                                       const BertConfig& config)
    : Module(std::move(scope), std::move(class_name)),
      dense_(child("dense"), in_features, config.hidden_size),
      layer_norm_(child("LayerNorm"), config.hidden_size, config.layer_norm_eps) {}

at::Tensor BertResidualOutput::operator()(const at::Tensor& hidden, const at::Tensor& residual) const {
  const auto scope = enter();
  return layer_norm_(dense_(hidden) + residual);
}

BertAttention::BertAttention(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertAttention"),
      self_(child("self"), config),
      output_(child("output"), "BertSelfOutput", config.hidden_size, config) {}

AttentionResult BertAttention::operator()(const at::Tensor& hidden, const at::Tensor& mask, AttentionKind kind) const {
  const auto scope = enter();
  const AttentionResult attended = self_(hidden, mask, kind);
  return {output_(attended.output, hidden), attended.probabilities};
}

BertIntermediate::BertIntermediate(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertIntermediate"),
      dense_(child("dense"), config.hidden_size, config.intermediate_size),
      activation_(config.hidden_act) {}

at::Tensor BertIntermediate::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return activation_(dense_(hidden));
}

BertLayer::BertLayer(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertLayer"),
      attention_(child("attention"), config),
      intermediate_(child("intermediate"), config),
      output_(child("output"), "BertOutput", config.intermediate_size, config) {}

AttentionResult BertLayer::operator()(const at::Tensor& hidden, const at::Tensor& mask, AttentionKind kind) const {
  const auto scope = enter();
  const AttentionResult attended = attention_(hidden, mask, kind);
  return {output_(intermediate_(attended.output), attended.output), attended.probabilities};
}

BertEncoder::BertEncoder(Scope scope, const BertConfig& config) : Module(std::move(scope), "BertEncoder") {
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layer_.emplace_back(child("layer." + std::to_string(i)), config);
  }
}

BertEncoderOutput BertEncoder::operator()(at::Tensor hidden, const at::Tensor& mask, AttentionKind kind) const {
  const auto scope = enter();
  BertEncoderOutput output;
  for (const BertLayer& layer : layer_) {
    output.hidden_states.push_back(hidden);
    AttentionResult result = layer(hidden, mask, kind);
    hidden = std::move(result.output);
    if (result.probabilities.defined()) {
      output.attentions.push_back(std::move(result.probabilities));
    }
  }
  if (!layer_.empty()) {
    output.hidden_states.push_back(hidden);
  }
  output.last_hidden_state = std::move(hidden);
  return output;
}

BertPooler::BertPooler(Scope scope, const BertConfig& config)
    : Module(std::move(scope), "BertPooler"), dense_(child("dense"), config.hidden_size, config.hidden_size) {}

at::Tensor BertPooler::operator()(const at::Tensor& hidden) const {
  const auto scope = enter();
  return at::tanh(dense_(hidden.select(1, 0)));
}

BertPreTrainedModel::BertPreTrainedModel(Scope scope, std::string class_name, const ModelConfig& config)
    : PreTrainedModel(std::move(scope), std::move(class_name), config), bert_config_(config) {}

std::vector<ArgumentSpec> BertPreTrainedModel::arguments() const {
  using Kind = ArgumentSpec::Kind;
  const std::string decoder_only = "it needs BERT as a decoder";
  return {
      {"input_ids", Kind::kIndices, {2}, bert_config_.vocab_size, "vocab_size"},
      {"attention_mask", Kind::kMask, {2, 4}},
      {"token_type_ids", Kind::kIndices, {2}, bert_config_.type_vocab_size, "type_vocab_size"},
      {"position_ids", Kind::kIndices, {2}, bert_config_.max_position_embeddings, "max_position_embeddings"},
      {"inputs_embeds", Kind::kFloats, {3}},
      {"output_hidden_states", Kind::kFlag},
      {"output_attentions", Kind::kFlag},
      {"return_dict", Kind::kFlag},
      {"use_cache", Kind::kFlag},  // an encoder has no cache: the reference accepts and ignores it too
      {"labels", Kind::kRefused, {}, 0, "losses are not computed"},
      {"encoder_hidden_states", Kind::kRefused, {}, 0, decoder_only},
      {"encoder_attention_mask", Kind::kRefused, {}, 0, decoder_only},
      {"cache", Kind::kRefused, {}, 0, decoder_only},
      {"past_key_values", Kind::kRefused, {}, 0, decoder_only},
  };
}

ForwardArgs BertPreTrainedModel::sample_inputs(const SampleSize& size) const {
  ensure(size.past == 0, "{} has no cache for a sample of {} earlier tokens", class_name(), size.past);
  ensure(size.batch >= 1 && size.sequence >= 1, "a sample has at least one row and one token, not [{}, {}]", size.batch,
         size.sequence);
  ensure(size.sequence <= bert_config_.max_position_embeddings,
         "a sample of {} tokens is longer than the model's {} positions (max_position_embeddings)", size.sequence,
         bert_config_.max_position_embeddings);
  const at::Tensor ids = sample_ids(size.batch, size.sequence, bert_config_.vocab_size, bert_config_.pad_token_id);
  return {{"input_ids", ids}, {"attention_mask", at::ones_like(ids)}, {"token_type_ids", at::zeros_like(ids)}};
}

AxisNames BertPreTrainedModel::axis_names(bool) const {
  const AxisName batch{"batch"};
  const AxisName sequence{"sequence", bert_config_.max_position_embeddings};
  AxisNames names;
  for (const char* input : {"input_ids", "attention_mask", "token_type_ids", "position_ids", "inputs_embeds"}) {
    names[input] = {{0, batch}, {1, sequence}};
  }
  return names;
}

std::vector<TiedWeights> BertPreTrainedModel::tied_prediction_head() const {
  if (!bert_config_.tie_word_embeddings) {
    return {};
  }
  return {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
          {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
}

BertModel::BertModel(const ModelConfig& config) : BertModel(Scope{}, config, /*add_pooling_layer=*/true) {}

BertModel::BertModel(Scope scope, const ModelConfig& config, bool add_pooling_layer)
    : BertPreTrainedModel(std::move(scope), "BertModel", config),
      embeddings_(child("embeddings"), bert_config()),
      encoder_(child("encoder"), bert_config()) {
  if (add_pooling_layer) {
    pooler_.emplace(child("pooler"), bert_config());
  }
}

BertModel::Output BertModel::operator()(const BertInputs& inputs, const Flags& flags) const {
  const auto scope = enter();
  const at::Tensor embeddings = embeddings_(inputs);
  const at::Tensor mask =
      create_bidirectional_mask(flags.attention, embeddings, inputs.attention_mask, embeddings.sym_size(1));
  BertEncoderOutput encoded = encoder_(embeddings, mask, flags.attention);
  Output output;
  output.pooler_output = pooler_ ? (*pooler_)(encoded.last_hidden_state) : at::Tensor();
  output.last_hidden_state = std::move(encoded.last_hidden_state);
  output.hidden_states = flags.hidden_states ? tuple_of(std::move(encoded.hidden_states)) : PyTree();
  output.attentions = flags.attentions ? tuple_of(std::move(encoded.attentions)) : PyTree();
  return output;
}

PyTree BertModel::run(const ForwardArgs& args, const Flags& flags) const {
  Output output = (*this)(BertInputs(args), flags);
  return PyTree::object("transformers.modeling_outputs.BaseModelOutputWithPoolingAndCrossAttentions",
                        {{"last_hidden_state", output.last_hidden_state},
                         {"pooler_output", output.pooler_output.defined() ? PyTree(output.pooler_output) : PyTree()},
                         {"hidden_states", output.hidden_states},
                         {"attentions", output.attentions},
                         // The reference records cross-attentions with attentions; an encoder has none.
                         {"cross_attentions", flags.attentions ? PyTree::tuple({}) : PyTree()}});
}

}  // namespace exporters::models
