#include "exporters/models/bart_like.h"

#include "exporters/models/layers/half_range.h"
#include "exporters/models/layers/positions.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/ne.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;
constexpr double kLayerNormEps = 1e-5;
// The first rows of a learned table belong to none.
constexpr int64_t kPositionOffset = 2;

at::TensorOptions int64() { return at::TensorOptions().dtype(c10::ScalarType::Long); }

BartLikeSide read_side(const ModelConfig& config, const std::string& side, const BartLikeDefaults& defaults,
                       const char* layers_alias, const char* heads_alias) {
  const auto aliased = [&](const char* alias, int64_t fallback) {
    return alias != nullptr ? config.size(alias, fallback) : fallback;
  };
  BartLikeSide result;
  result.layers = config.size(side + "_layers", aliased(layers_alias, defaults.side.layers), 1, kMaxLayers);
  result.heads = config.size(side + "_attention_heads", aliased(heads_alias, defaults.side.heads));
  result.ffn_dim = config.size(side + "_ffn_dim", defaults.side.ffn_dim);
  return result;
}

void require_divisible(const BartLikeSpec& spec, const std::string& side, int64_t heads, const ModelConfig& config) {
  if (spec.d_model % heads != 0) {
    throw Error(fmt::format("config field \"d_model\" is {}, not a multiple of \"{}_attention_heads\", {}",
                            spec.d_model, side, heads),
                config.where());
  }
}

ProjectedAttentionOptions attention_options(const BartLikeSpec& spec, int64_t heads) {
  const int64_t head_dim = spec.d_model / heads;
  return {.class_name = spec.prefix + "Attention",
          .hidden_size = spec.d_model,
          .heads = heads,
          .head_dim = head_dim,
          .scale = 1.0 / std::sqrt(static_cast<double>(head_dim)),
          .scales_query = spec.scales_query,
          .bias = true,
          .key_bias = spec.key_bias};
}

std::optional<int64_t> learned_positions(const BartLikeSpec& spec) {
  return spec.positions == BartLikePositions::kSinesAfterPad ? std::nullopt : std::optional(spec.max_positions);
}

at::Tensor scaled(const at::Tensor& embeddings, double scale) { return scale == 1.0 ? embeddings : embeddings * scale; }

}  // namespace

BartLikeSpec read_bart_like(std::string prefix, const ModelConfig& config, const BartLikeDefaults& defaults) {
  config.check({});
  BartLikeSpec spec;
  spec.prefix = std::move(prefix);
  spec.vocab_size = config.size("vocab_size", defaults.vocab_size);
  spec.decoder_vocab_size = spec.vocab_size;
  spec.d_model = config.size("d_model", config.size("hidden_size", defaults.d_model));
  spec.encoder = read_side(config, "encoder", defaults, "num_hidden_layers", "num_attention_heads");
  spec.decoder = read_side(config, "decoder", defaults, nullptr, nullptr);
  require_divisible(spec, "encoder", spec.encoder.heads, config);
  require_divisible(spec, "decoder", spec.decoder.heads, config);
  spec.max_positions = config.size(defaults.max_positions_field, defaults.max_positions);
  spec.pad_token_id = config.optional_integer("pad_token_id", defaults.pad_token_id);
  spec.activation = activation(config.string("activation_function", defaults.activation));
  spec.embed_scale =
      config.flag("scale_embedding", defaults.scale_embedding) ? std::sqrt(static_cast<double>(spec.d_model)) : 1.0;
  return spec;
}

Seq2SeqTraits bart_like_traits(const BartLikeSpec& spec, const ModelConfig& config, const BartLikeTokens& defaults) {
  Seq2SeqTraits traits;
  traits.vocab_size = spec.vocab_size;
  traits.decoder_vocab_size = spec.decoder_vocab_size;
  traits.hidden_size = spec.d_model;
  traits.pad_token_id = spec.pad_token_id;
  traits.decoder_start_token_id = config.optional_integer("decoder_start_token_id", defaults.decoder_start_token_id);
  traits.eos_token_id = config.optional_integer("eos_token_id", defaults.eos_token_id);
  traits.num_labels = config.num_labels(defaults.num_labels);
  traits.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  return traits;
}

DecoderStack::CacheTraits bart_like_cache(const BartLikeSpec& spec, bool with_encoder) {
  const int64_t layers = with_encoder ? spec.decoder.layers : std::max(spec.decoder.layers, spec.encoder.layers);
  return {.heads = spec.decoder.heads,
          .head_dim = spec.d_model / spec.decoder.heads,
          .new_layers = static_cast<size_t>(layers),
          .has_encoder = with_encoder};
}

// ── Positions ──

BartLikePositionTable::BartLikePositionTable(Scope scope, const BartLikeSpec& spec, int64_t count)
    : Module(std::move(scope), spec.prefix + spec.positions_class),
      kind_(spec.positions),
      count_(count),
      width_(spec.d_model),
      pad_token_id_(spec.pad_token_id) {
  const int64_t width = width_;
  switch (kind_) {
    case BartLikePositions::kLearned:
      parameter("weight", table_, {count + kPositionOffset, width});
      break;
    case BartLikePositions::kLearnedFirst:
      parameter("weight", table_, {count, width});
      break;
    case BartLikePositions::kStoredSines:
      parameter("weight", table_, {count, width}, [count, width] { return sinusoids(count, width); });
      break;
    case BartLikePositions::kSinesAfterPad: {
      ensure(pad_token_id_.has_value(), "config field \"pad_token_id\" is not set: positions count from it");
      const int64_t rows = count + kPositionOffset;
      const int64_t pad = *pad_token_id_;
      buffer(
          "weights", table_, [rows, width, pad] { return tensor2tensor_sinusoids(rows, width, pad); },
          /*in_model_dtype=*/true);
      break;
    }
  }
}

// Tokens beyond the table get rows of a longer one, as in the reference, where their number is plain.
at::Tensor BartLikePositionTable::after_padding(const at::Tensor& input_ids, const at::Tensor& embeddings,
                                                const CacheSpan& span) const {
  const int64_t pad = *pad_token_id_;
  const auto past = [&span](const at::Tensor& counts) {
    const at::Tensor sum = counts + at::Scalar(span.past);
    return span.past_tensor.defined() ? sum + span.past_tensor : sum;
  };
  at::Tensor positions;
  if (input_ids.defined()) {
    const at::Tensor is_text = at::ne(input_ids, pad).to(c10::ScalarType::Long);
    positions = past(at::cumsum(is_text, 1)) * is_text + pad;
  } else {
    const at::Tensor counts = at::arange(pad + 1, embeddings.sym_size(1) + pad + 1, int64()).unsqueeze(0);
    positions = past(counts);
  }
  const c10::SymInt last = (span.fixed_length ? span.keys : span.past + embeddings.sym_size(1)) + pad + 1;
  const int64_t rows = count_ + kPositionOffset;
  if (const auto plain = last.maybe_as_int(); plain && *plain > rows) {
    const at::Tensor longer = tensor2tensor_sinusoids(*plain, width_, pad).to(table_.scalar_type());
    return at::embedding(longer, positions);
  }
  require(last.sym_le(rows), [&] {
    return c10::str("the sequence has ", last - pad - 1, " positions with those of the cache, the table has ",
                    rows - pad - 1, " (max_position_embeddings)");
  });
  return at::embedding(table_, positions);
}

at::Tensor BartLikePositionTable::operator()(const at::Tensor& input_ids, const at::Tensor& embeddings,
                                             const at::Tensor& position_ids, const CacheSpan& span) const {
  const auto scope = enter();
  if (kind_ == BartLikePositions::kSinesAfterPad) {
    return after_padding(input_ids, embeddings, span);
  }
  return at::embedding(table_, kind_ == BartLikePositions::kLearned ? position_ids + kPositionOffset : position_ids);
}

// ── Layers ──

BartLikeLayer::BartLikeLayer(Scope scope, const BartLikeSpec& spec, int64_t index, bool is_decoder)
    : Module(std::move(scope), spec.prefix + (is_decoder ? "DecoderLayer" : "EncoderLayer")),
      norm_before_(spec.norm_before),
      range_(is_decoder ? spec.decoder_range : spec.encoder_range),
      activation_(spec.activation),
      self_attn_(child("self_attn"), attention_options(spec, spec.side(is_decoder).heads)),
      self_attn_layer_norm_(child("self_attn_layer_norm"), spec.d_model, kLayerNormEps) {
  if (is_decoder) {
    cross_attention_.emplace(child(spec.cross_attention), attention_options(spec, spec.decoder.heads));
    cross_attention_layer_norm_.emplace(child(spec.cross_attention + "_layer_norm"), spec.d_model, kLayerNormEps);
  }
  if (spec.make_feed_forward) {
    ffn_ = spec.make_feed_forward(child("ffn"), spec, index, is_decoder);
  } else {
    fc1_.emplace(child("fc1"), spec.d_model, spec.side(is_decoder).ffn_dim);
    fc2_.emplace(child("fc2"), spec.side(is_decoder).ffn_dim, spec.d_model);
  }
  final_layer_norm_.emplace(child(spec.feed_forward_norm), spec.d_model, kLayerNormEps);
}

at::Tensor BartLikeLayer::limited(const at::Tensor& hidden) const {
  switch (range_) {
    case Float16Range::kLimitedIfNotFinite:
      return limit_float16_if_not_finite(hidden);
    case Float16Range::kLimitedIfInfinite:
      return limit_float16(hidden);
    case Float16Range::kLimited:
      return limit_float16_always(hidden);
    default:
      return hidden;
  }
}

FeedForward::Result BartLikeLayer::feed_forward(const at::Tensor& hidden, const at::Tensor& mask) const {
  return ffn_ ? (*ffn_)(hidden, mask) : FeedForward::Result{(*fc2_)(activation_((*fc1_)(hidden))), {}};
}

at::Tensor BartLikeLayer::attend(const ProjectedAttention& attention, const LayerNorm& norm, const at::Tensor& hidden,
                                 const at::Tensor& encoder_hidden, const CausalMask& mask, AttentionKind kind,
                                 const LayerCaches& caches, at::Tensor& probabilities) const {
  AttentionResult attended =
      attention(norm_before_ ? norm(hidden) : hidden, encoder_hidden, mask.mask, mask.is_causal, kind, caches);
  probabilities = std::move(attended.probabilities);
  const at::Tensor sum = hidden + attended.output;
  return norm_before_ ? sum : norm(sum);
}

BartLikeLayer::Result BartLikeLayer::operator()(const at::Tensor& hidden, const CausalMask& mask,
                                                const at::Tensor& encoder_hidden, const at::Tensor& cross_mask,
                                                AttentionKind kind, const LayerCaches& caches) const {
  const auto scope = enter();
  Result result;
  at::Tensor middle = attend(self_attn_, self_attn_layer_norm_, hidden, {}, mask, kind, caches, result.probabilities);
  if (encoder_hidden.defined()) {
    middle = attend(*cross_attention_, *cross_attention_layer_norm_, middle, encoder_hidden, {cross_mask}, kind, caches,
                    result.cross_probabilities);
  }
  FeedForward::Result forward = feed_forward(norm_before_ ? (*final_layer_norm_)(middle) : middle, mask.mask);
  result.router_logits = std::move(forward.router_logits);
  const at::Tensor sum = middle + forward.hidden;
  result.hidden = limited(norm_before_ ? sum : (*final_layer_norm_)(sum));
  return result;
}

BartLikeLayers::BartLikeLayers(const std::function<Scope(std::string)>& child, const BartLikeSpec& spec,
                               bool is_decoder) {
  for (int64_t i = 0; i < spec.side(is_decoder).layers; ++i) {
    layers_.emplace_back(child(fmt::format("layers.{}", i)), spec, i, is_decoder);
  }
  if (spec.embedding_norm) {
    embedding_norm_.emplace(child("layernorm_embedding"), spec.d_model, kLayerNormEps);
  }
  if (spec.final_norm) {
    final_norm_.emplace(child("layer_norm"), spec.d_model, kLayerNormEps);
  }
}

// ── Stacks ──

BartLikeEncoder::BartLikeEncoder(Scope scope, const ModelConfig& config, BartLikeSpec spec)
    : EncoderStack(std::move(scope), config,
                   {.class_name = spec.prefix + "Encoder",
                    .output_class = spec.encoder_output,
                    .num_layers = static_cast<size_t>(spec.encoder.layers),
                    .hidden_size = spec.d_model,
                    .vocab_size = spec.vocab_size,
                    .max_positions = learned_positions(spec),
                    .pad_token_id = spec.pad_token_id,
                    .needs_eager_attention = spec.needs_eager_attention,
                    .has_routers = spec.has_routers}),
      spec_(std::move(spec)),
      embed_tokens_(child("embed_tokens"), spec_.vocab_size, spec_.d_model, spec_.pad_token_id),
      embed_positions_(child("embed_positions"), spec_, spec_.max_positions),
      layers_([this](std::string name) { return child(std::move(name)); }, spec_, /*is_decoder=*/false) {}

at::Tensor BartLikeEncoder::embed(const at::Tensor& input_ids) const {
  return scaled(embed_tokens_(input_ids), spec_.embed_scale);
}

at::Tensor BartLikeEncoder::begin(const at::Tensor& embeddings, const ForwardArgs& args, Pass& pass) const {
  const c10::SymInt length = embeddings.sym_size(1);
  require_positions(0, length);
  const CacheSpan span = CacheSpan::after(0, length);
  const at::Tensor positions =
      embed_positions_(args.tensor("input_ids"), embeddings, at::arange(length, int64()).unsqueeze(0), span);
  pass.mask.mask = create_bidirectional_mask(pass.kind, embeddings, args.tensor("attention_mask"), length);
  return layers_.begin(embeddings + positions);
}

TransformerStack::LayerOutput BartLikeEncoder::run_layer(size_t index, const at::Tensor& hidden,
                                                         const Pass& pass) const {
  BartLikeLayer::Result result = layers_[index](hidden, pass.mask, {}, {}, pass.kind, {});
  return {std::move(result.hidden), std::move(result.probabilities), {}, std::move(result.router_logits)};
}

BartLikeDecoder::BartLikeDecoder(Scope scope, const ModelConfig& config, BartLikeSpec spec, CacheTraits cache)
    : DecoderStack(std::move(scope), config,
                   {.class_name = spec.prefix + "Decoder",
                    .output_class = spec.decoder_output,
                    .num_layers = static_cast<size_t>(spec.decoder.layers),
                    .hidden_size = spec.d_model,
                    .vocab_size = spec.decoder_vocab_size,
                    .max_positions = learned_positions(spec),
                    .pad_token_id = spec.pad_token_id,
                    .needs_eager_attention = spec.needs_eager_attention,
                    .has_routers = spec.has_routers,
                    .lists_cross_attentions = true},
                   cache),
      spec_(std::move(spec)),
      embed_tokens_(child("embed_tokens"), spec_.decoder_vocab_size, spec_.d_model, spec_.pad_token_id),
      embed_positions_(child("embed_positions"), spec_, spec_.max_positions),
      layers_([this](std::string name) { return child(std::move(name)); }, spec_, /*is_decoder=*/true) {}

at::Tensor BartLikeDecoder::embed(const at::Tensor& input_ids) const {
  return scaled(embed_tokens_(input_ids), spec_.embed_scale);
}

at::Tensor BartLikeDecoder::begin(const at::Tensor& embeddings, const ForwardArgs& args, Pass& pass) const {
  const c10::SymInt queries = embeddings.sym_size(1);
  const bool is_given = args.has("inputs_embeds") && spec_.scales_given_embeddings;
  const at::Tensor tokens = is_given ? scaled(embeddings, spec_.embed_scale) : embeddings;
  if (!args.has("position_ids")) {
    require_positions(pass.span.past, queries);
  }
  const at::Tensor position_ids = positions(args, pass.span, queries);
  const at::Tensor places = embed_positions_(args.tensor("input_ids"), embeddings, position_ids, pass.span);
  CausalMaskOptions options;
  if (args.has("position_ids") && pass.caches.front().self == nullptr) {
    options.position_ids = position_ids;  // jumps in them tell packed sequences apart
  } else {
    options.span = pass.span;
  }
  pass.mask = create_causal_mask(pass.kind, embeddings, args.tensor("attention_mask"), options);
  if (pass.encoder_hidden_states.defined()) {
    pass.cross_mask = create_bidirectional_mask(pass.kind, embeddings, args.tensor("encoder_attention_mask"),
                                                pass.encoder_hidden_states.sym_size(1));
  }
  return layers_.begin(tokens + places);
}

TransformerStack::LayerOutput BartLikeDecoder::run_layer(size_t index, const at::Tensor& hidden,
                                                         const Pass& pass) const {
  BartLikeLayer::Result result =
      layers_[index](hidden, pass.mask, pass.encoder_hidden_states, pass.cross_mask, pass.kind, pass.caches[index]);
  return {std::move(result.hidden), std::move(result.probabilities), std::move(result.cross_probabilities),
          std::move(result.router_logits)};
}

}  // namespace exporters::models
