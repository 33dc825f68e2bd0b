// DeBERTa: Decoding-enhanced BERT with Disentangled Attention (He et al., 2020), versions 2 and 3: BERT whose attention
// scores also have a part by content and relative position.
#include "exporters/models/bert_like.h"
#include "exporters/models/encoder_families.h"
#include "exporters/models/layers/convolution.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/log.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace exporters::models {
namespace {

constexpr std::array kRules{
    FieldRule{"z_steps", "0", "further passes through the last layer are"},
};

struct DebertaSpec : BertLikeSpec {
  bool relative_attention = false;
  int64_t buckets = -1;  ///< positive: distances are sorted into so many, in logarithmic steps
  int64_t max_relative_positions = 0;
  bool content_to_position = false;
  bool position_to_content = false;
  bool share_attention_key = false;
  bool normalises_relative_embeddings = false;
  int64_t conv_kernel_size = 0;  ///< 0: no convolution beside the first layer
  int64_t conv_groups = 1;
  Activation conv_activation = nullptr;
  Activation pooler_activation = nullptr;
  bool is_legacy = true;

  /// Positions reach from -span to span - 1.
  int64_t span() const { return buckets > 0 ? buckets : max_relative_positions; }
  /// Of the scores: one part by content, and those by position.
  double scale() const {
    const int parts = 1 + (content_to_position ? 1 : 0) + (position_to_content ? 1 : 0);
    return std::sqrt(static_cast<double>(hidden_size / num_attention_heads * parts));
  }
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The parts of a text that '|' separates, without the blanks around them.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('|', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    const size_t first = std::min(part.find_first_not_of(' '), part.size());
    part = part.substr(first, part.find_last_not_of(' ') + 1 - first);
    parts.emplace_back(part);
    begin = end + 1;
  }
  return parts;
}

/// A list of names, or a text with '|' between them.
std::vector<std::string> position_types(const ModelConfig& config) {
  const auto field = JsonField(config.json(), config.where()).find("pos_att_type");
  if (!field) {
    return {};
  }
  return field->is_string() ? parts_of(lower(field->as_string())) : field->as_strings();
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void read_relative_attention(const ModelConfig& config, DebertaSpec& spec) {
  const std::vector<std::string> types = position_types(config);
  spec.content_to_position = contains(types, "c2p");
  spec.position_to_content = contains(types, "p2c");
  spec.relative_attention = config.flag("relative_attention", false);
  spec.share_attention_key = config.flag("share_att_key", false);
  spec.buckets = config.integer("position_buckets", -1);
  spec.max_relative_positions = config.integer("max_relative_positions", -1);
  if (spec.max_relative_positions < 1) {
    spec.max_relative_positions = spec.embeddings.max_positions;
  }
  if (spec.buckets == 1 || spec.buckets > ModelConfig::kMaxSize || spec.span() > ModelConfig::kMaxSize) {
    throw Error(fmt::format("config field \"position_buckets\" is {} with \"max_relative_positions\" {}", spec.buckets,
                            spec.max_relative_positions),
                config.where(), "Positions need two buckets or more");
  }
  spec.normalises_relative_embeddings = contains(parts_of(lower(config.string("norm_rel_ebd", "none"))), "layer_norm");
}

void read_convolution(const ModelConfig& config, DebertaSpec& spec) {
  spec.conv_kernel_size = config.size("conv_kernel_size", 0, 0);
  spec.conv_groups = config.size("conv_groups", 1);
  spec.conv_activation = activation(config.string("conv_act", "tanh"));
  if (spec.conv_kernel_size > 0 && (spec.conv_kernel_size % 2 == 0 || spec.hidden_size % spec.conv_groups != 0)) {
    throw Error(fmt::format("config fields \"conv_kernel_size\" and \"conv_groups\" are {} and {}",
                            spec.conv_kernel_size, spec.conv_groups),
                config.where(), "The kernel's size is odd, and the groups divide \"hidden_size\"");
  }
}

// Extents that the reference reads apart, and that fit each other only when they are these.
void check_extents(const ModelConfig& config, const DebertaSpec& spec) {
  for (const auto& [name, expected] : {std::pair("attention_head_size", spec.hidden_size / spec.num_attention_heads),
                                       std::pair("pooler_hidden_size", spec.hidden_size)}) {
    if (config.integer(name, expected) != expected) {
      throw Error(
          fmt::format("config field \"{}\" is {}, the others make it {}", name, config.integer(name, 0), expected),
          config.where());
    }
  }
}

DebertaSpec spec_of(const ModelConfig& config) {
  BertLikeDefaults defaults;
  defaults.vocab_size = 128100;
  defaults.hidden_size = 1536;
  defaults.intermediate_size = 6144;
  defaults.num_hidden_layers = 24;
  defaults.num_attention_heads = 24;
  defaults.type_vocab_size = 0;
  defaults.layer_norm_eps = 1e-7;
  DebertaSpec spec{read_bert_like(config, defaults, kRules)};
  TextEmbeddingsOptions& embeddings = spec.embeddings;
  embeddings.class_name = "DebertaV2Embeddings";
  embeddings.type_vocab_size = config.size("type_vocab_size", 0, 0);
  embeddings.embeds_positions = config.flag("position_biased_input", true);
  embeddings.positions_added_first = true;
  embeddings.buffers_token_types = false;
  embeddings.width = config.size("embedding_size", spec.hidden_size);
  if (embeddings.width != spec.hidden_size) {
    embeddings.projected_width = spec.hidden_size;
  }
  read_relative_attention(config, spec);
  read_convolution(config, spec);
  spec.pooler_activation = activation(config.string("pooler_hidden_act", "gelu"));
  spec.is_legacy = config.flag("legacy", true);
  check_extents(config, spec);
  return spec;
}

EncoderTraits deberta_traits(const DebertaSpec& spec) {
  EncoderTraits traits = traits_of(spec);
  traits.mask_ranks = {2};
  traits.needs_eager_attention = true;
  return traits;
}

/// Distances below half of the buckets keep their own, further ones share them in logarithmic steps; the sign stays.
/// The operations are the reference's, one for one: a rounding error before `ceil` is a bucket.
at::Tensor log_buckets(const at::Tensor& relative, int64_t buckets, int64_t max_position) {
  const int64_t mid = buckets / 2;
  const at::Tensor is_near = at::bitwise_and(at::lt(relative, mid), at::gt(relative, -mid));
  const at::Tensor distance = at::where(is_near, at::scalar_tensor(mid - 1, relative.options()), at::abs(relative));
  const auto float32 = at::TensorOptions().dtype(c10::ScalarType::Float);
  const at::Tensor longest =
      at::scalar_tensor(static_cast<double>(max_position - 1) / static_cast<double>(mid), float32);
  const at::Tensor steps = at::ceil(at::log(distance / mid) / at::log(longest) * (mid - 1)) + mid;
  return at::where(at::le(distance, mid), relative.to(steps.scalar_type()), steps * at::sign(relative))
      .to(c10::ScalarType::Long);
}

/// [length, length]: the query's position less the key's, or its bucket.
at::Tensor relative_positions(const c10::SymInt& length, const DebertaSpec& spec) {
  const at::Tensor positions = at::arange(length, at::TensorOptions().dtype(c10::ScalarType::Long));
  const at::Tensor relative = positions.unsqueeze(1) - positions.unsqueeze(0);
  return spec.buckets > 0 ? log_buckets(relative, spec.buckets, spec.max_relative_positions) : relative;
}

/// As the reference divides by it: a number of the dtype of what is divided.
double in_dtype(double value, c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Half:
      return static_cast<double>(static_cast<c10::Half>(static_cast<float>(value)));
    case c10::ScalarType::BFloat16:
      return static_cast<double>(static_cast<c10::BFloat16>(static_cast<float>(value)));
    default:
      return static_cast<double>(static_cast<float>(value));
  }
}

class DisentangledSelfAttention : public EncoderAttention {
 public:
  DisentangledSelfAttention(Scope scope, const DebertaSpec& spec)
      : EncoderAttention(std::move(scope), "DisentangledSelfAttention"),
        heads_(spec.num_attention_heads),
        head_size_(spec.hidden_size / spec.num_attention_heads),
        span_(spec.span()),
        scale_(spec.scale()),
        content_to_position_(spec.content_to_position),
        position_to_content_(spec.position_to_content),
        query_proj_(child("query_proj"), spec.hidden_size, spec.hidden_size),
        key_proj_(child("key_proj"), spec.hidden_size, spec.hidden_size),
        value_proj_(child("value_proj"), spec.hidden_size, spec.hidden_size) {
    if (!spec.relative_attention || spec.share_attention_key) {
      return;
    }
    if (content_to_position_) {
      pos_key_proj_.emplace(child("pos_key_proj"), spec.hidden_size, spec.hidden_size);
    }
    if (position_to_content_) {
      pos_query_proj_.emplace(child("pos_query_proj"), spec.hidden_size, spec.hidden_size);
    }
  }

  AttentionResult operator()(const at::Tensor& hidden, const EncoderPass& pass) const override {
    const auto scope = enter();
    const at::Tensor query = heads_of(query_proj_(hidden));
    const at::Tensor key = heads_of(key_proj_(hidden));
    const at::Tensor value = heads_of(value_proj_(hidden));
    const double scale = in_dtype(scale_, query.scalar_type());
    at::Tensor scores = at::matmul(query, key.transpose(-1, -2) / scale);
    if (pass.relative_positions.defined()) {
      scores = with_positions(scores, query, key, scale, pass);
    }
    if (pass.mask.defined()) {
      scores = at::masked_fill(scores, at::logical_not(pass.mask), lowest_number(scores.scalar_type()));
    }
    const at::Tensor probabilities = at::softmax(scores, -1);
    return {at::matmul(probabilities, value).transpose(1, 2).flatten(2), probabilities};
  }

 private:
  at::Tensor heads_of(const at::Tensor& projected) const { return split_heads(projected, heads_, head_size_); }

  /// [1, heads, 2 · span, head_size]
  at::Tensor positions_of(const std::optional<Linear>& own, const Linear& shared, const at::Tensor& embeddings) const {
    return heads_of(own ? (*own)(embeddings) : shared(embeddings));
  }

  /// The scores of each pair's relative position. @param by_position [batch, heads, length, 2 · span]
  at::Tensor pick(const at::Tensor& by_position, const at::Tensor& relative) const {
    const at::Tensor index = at::clamp(relative + span_, 0, 2 * span_ - 1);
    const c10::SymInt length = by_position.sym_size(2);
    return at::gather(by_position, -1, index.expand_symint({by_position.sym_size(0), heads_, length, length}));
  }

  at::Tensor with_positions(at::Tensor scores, const at::Tensor& query, const at::Tensor& key, double scale,
                            const EncoderPass& pass) const {
    at::Tensor bias;
    if (content_to_position_) {
      const at::Tensor keys = positions_of(pos_key_proj_, key_proj_, pass.relative_embeddings);
      bias = pick(at::matmul(query, keys.transpose(-1, -2)), pass.relative_positions) / scale;
    }
    if (position_to_content_) {
      const at::Tensor queries = positions_of(pos_query_proj_, query_proj_, pass.relative_embeddings);
      const at::Tensor by_key = pick(at::matmul(key, queries.transpose(-1, -2)), at::neg(pass.relative_positions));
      const at::Tensor part = by_key.transpose(-1, -2) / scale;
      bias = bias.defined() ? bias + part : part;
    }
    return bias.defined() ? scores + bias : scores;
  }

  int64_t heads_;
  int64_t head_size_;
  int64_t span_;
  double scale_;
  bool content_to_position_;
  bool position_to_content_;
  Linear query_proj_;
  Linear key_proj_;
  Linear value_proj_;
  std::optional<Linear> pos_key_proj_;
  std::optional<Linear> pos_query_proj_;
};

/// norm(output of the first layer + activation(conv(embeddings))), zero at padding.
class ConvLayer : public Module {
 public:
  ConvLayer(Scope scope, const DebertaSpec& spec)
      : Module(std::move(scope), "ConvLayer"),
        activation_(spec.conv_activation),
        conv_(child("conv"), {.in_channels = spec.hidden_size,
                              .out_channels = spec.hidden_size,
                              .kernel = {spec.conv_kernel_size},
                              .padding = {(spec.conv_kernel_size - 1) / 2},
                              .groups = spec.conv_groups}),
        layer_norm_(child("LayerNorm"), spec.hidden_size, spec.eps) {}

  /// @param mask [batch, sequence]; may be undefined
  at::Tensor operator()(const at::Tensor& embeddings, const at::Tensor& residual, const at::Tensor& mask) const {
    const auto scope = enter();
    at::Tensor convolved = conv_(embeddings.transpose(1, 2)).transpose(1, 2);
    if (!mask.defined()) {
      return layer_norm_(residual + activation_(convolved));
    }
    convolved = at::masked_fill(convolved, at::ne(mask, 1).unsqueeze(-1), 0);
    const at::Tensor normed = layer_norm_(residual + activation_(convolved));
    return normed * mask.unsqueeze(2).to(normed.scalar_type());
  }

 private:
  Activation activation_;
  Convolution conv_;
  LayerNorm layer_norm_;
};

class DebertaV2Model : public EncoderModel {
 public:
  DebertaV2Model(Scope scope, const ModelConfig& config, DebertaSpec spec)
      : EncoderModel(std::move(scope), kDebertaV2, config, deberta_traits(spec)),
        spec_(std::move(spec)),
        embeddings_(child("embeddings"), spec_.embeddings) {
    const auto make_attention = [this](Scope attention) {
      return std::make_unique<DisentangledSelfAttention>(std::move(attention), spec_);
    };
    for (const std::string& name : spec_.layers) {
      layers_.emplace_back(child(name), "DebertaV2Layer", spec_, make_attention);
    }
    if (spec_.relative_attention) {
      rel_embeddings_.emplace(child("encoder.rel_embeddings"), 2 * spec_.span(), spec_.hidden_size);
    }
    if (spec_.normalises_relative_embeddings) {
      rel_norm_.emplace(child("encoder.LayerNorm"), spec_.hidden_size, spec_.eps);
    }
    if (spec_.conv_kernel_size > 0) {
      conv_.emplace(child("encoder.conv"), spec_);
    }
  }

  const at::Tensor& word_embeddings() const override { return embeddings_.words(); }

 protected:
  EncoderStates encode(const EncoderInputs& inputs, AttentionKind kind) const override {
    at::Tensor embeddings = embeddings_(inputs);
    const at::Tensor& mask = inputs.attention_mask;
    EncoderPass pass;
    pass.kind = kind;
    if (mask.defined()) {
      check_padding_mask(mask, embeddings, embeddings.sym_size(1));
      embeddings = embeddings * mask.unsqueeze(2).to(embeddings.scalar_type());
      const at::Tensor keys = mask.unsqueeze(1).unsqueeze(2);
      pass.mask = (keys * mask.unsqueeze(1).unsqueeze(-1)).to(c10::ScalarType::Bool);
    }
    if (spec_.relative_attention) {
      pass.relative_positions = relative_positions(embeddings.sym_size(1), spec_);
      const at::Tensor table = rel_embeddings_->weight();
      pass.relative_embeddings = (rel_norm_ ? (*rel_norm_)(table) : table).unsqueeze(0);
    }
    return run_layers(layers_.size(), embeddings, [&](size_t i, const at::Tensor& hidden) {
      AttentionResult result = layers_[i](hidden, pass);
      if (i == 0 && conv_) {
        result.output = (*conv_)(embeddings, result.output, mask);
      }
      return result;
    });
  }

 private:
  DebertaSpec spec_;
  TextEmbeddings embeddings_;
  ModuleList<BertLayer> layers_;
  std::optional<Embedding> rel_embeddings_;
  std::optional<LayerNorm> rel_norm_;
  std::optional<ConvLayer> conv_;
};

HeadSpec words(const DebertaSpec& spec) {
  if (spec.is_legacy) {
    return language_model_head(spec.hidden_size, spec.embeddings.width, spec.embeddings.vocab_size,
                               {.dense = "cls.predictions.transform.dense",
                                .norm = "cls.predictions.transform.LayerNorm",
                                .decoder = "cls.predictions.decoder",
                                .bias = "cls.predictions"},
                               spec.activation, spec.eps);
  }
  HeadSpec head = language_model_head(spec.hidden_size, spec.hidden_size, spec.embeddings.vocab_size,
                                      {.dense = "lm_predictions.lm_head.dense",
                                       .norm = "lm_predictions.lm_head.LayerNorm",
                                       .bias = "lm_predictions.lm_head"},
                                      spec.activation, spec.eps);
  head.layers.pop_back();
  head.is_tied = false;
  head.reuses_word_embeddings = true;
  return head;
}

}  // namespace

std::unique_ptr<EncoderModel> make_deberta_v2(Scope scope, const ModelConfig& config, bool) {
  return std::make_unique<DebertaV2Model>(std::move(scope), config, spec_of(config));
}

std::vector<HeadSpec> deberta_v2_heads(EncoderTask task, const ModelConfig& config) {
  const DebertaSpec spec = spec_of(config);
  const auto first_token = [&](int64_t scores) {
    return first_token_head(spec.hidden_size, "pooler.dense", spec.pooler_activation, "classifier", scores);
  };
  switch (task) {
    case EncoderTask::kMaskedLM:
      return {words(spec)};
    case EncoderTask::kSequenceClassification:
      return {first_token(config.num_labels())};
    case EncoderTask::kMultipleChoice:
      return {first_token(1)};
    default:
      return {token_head(task, spec.hidden_size, config)};
  }
}

}  // namespace exporters::models
