// T5: Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (Raffel et al., 2020), its
// gated form (v1.1), and mT5 (Xue et al., 2021), which is the gated form without scaled outputs.
#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/half_range.h"
#include "exporters/models/layers/norms.h"
#include "exporters/models/layers/relative_bias.h"
#include "exporters/models/operators.h"
#include "exporters/models/seq2seq_families.h"
#include "exporters/support/error.h"

#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;

constexpr std::array kRules{
    FieldRule{"is_decoder", "false", "a decoder alone is"},
};

struct FeedForwardKind {
  bool gated = false;
  Activation activation = nullptr;
};

// "relu", "gated-gelu", …: "gated-" and the name of an activation. The gelu of gated checkpoints is the tanh form.
FeedForwardKind read_feed_forward(const ModelConfig& config, std::string_view fallback) {
  const std::string name = config.string("feed_forward_proj", fallback);
  if (name == "gated-gelu") {
    return {true, activation("gelu_new")};
  }
  constexpr std::string_view kGated = "gated-";
  const bool gated = name.starts_with(kGated);
  const std::string act = gated ? name.substr(kGated.size()) : name;
  if (act.find('-') != std::string::npos) {
    throw Error(fmt::format("config field \"feed_forward_proj\" is \"{}\"", name), config.where(),
                "It is the name of an activation, or \"gated-\" and one");
  }
  return {gated, activation(act)};
}

struct T5Defaults {
  std::string_view prefix;
  int64_t vocab_size;
  int64_t d_ff;
  int64_t num_layers;
  int64_t num_heads;
  std::string_view feed_forward_proj;
  bool scales_outputs;
  std::optional<int64_t> decoder_start_token_id;
};
constexpr T5Defaults kT5Defaults{"T5", 32128, 2048, 6, 8, "relu", true, std::nullopt};
constexpr T5Defaults kMt5Defaults{"MT5", 250112, 1024, 8, 6, "gated-gelu", false, 0};

struct T5Config {
  T5Config(const ModelConfig& config, const T5Defaults& defaults)
      : prefix(defaults.prefix),
        vocab_size(config.size("vocab_size", defaults.vocab_size)),
        d_model(config.size("d_model", config.size("hidden_size", 512))),
        d_kv(config.size("d_kv", config.size("head_dim", 64))),
        d_ff(config.size("d_ff", defaults.d_ff)),
        num_layers(config.size("num_layers", config.size("num_hidden_layers", defaults.num_layers, 1, kMaxLayers), 1,
                               kMaxLayers)),
        num_decoder_layers(config.size("num_decoder_layers", num_layers, 1, kMaxLayers)),
        num_heads(config.size("num_heads", config.size("num_attention_heads", defaults.num_heads))),
        buckets(config.size("relative_attention_num_buckets", 32)),
        max_distance(config.size("relative_attention_max_distance", 128)),
        norm_eps(config.number("layer_norm_epsilon", 1e-6)),
        feed_forward(read_feed_forward(config, defaults.feed_forward_proj)),
        pad_token_id(config.optional_integer("pad_token_id", 0)) {
    config.check(kRules);
  }

  std::string prefix;
  int64_t vocab_size;
  int64_t d_model;
  int64_t d_kv;
  int64_t d_ff;
  int64_t num_layers;
  int64_t num_decoder_layers;
  int64_t num_heads;
  int64_t buckets;
  int64_t max_distance;
  double norm_eps;
  FeedForwardKind feed_forward;
  std::optional<int64_t> pad_token_id;
};

class T5LayerNorm : public RmsNorm {
 public:
  T5LayerNorm(Scope scope, const T5Config& config)
      : RmsNorm(std::move(scope), config.prefix + "LayerNorm", config.d_model, config.norm_eps,
                RmsNormKind::kInWeightDtype) {}
};

// A matrix whose input takes its dtype: in float16 models this one is float32 (key_rules).
class T5Output : public Linear {
 public:
  using Linear::Linear;
  at::Tensor operator()(const at::Tensor& input) const { return Linear::operator()(input.to(weight().scalar_type())); }
};

class T5FeedForward : public Module {
 public:
  T5FeedForward(Scope scope, const T5Config& config)
      : Module(std::move(scope), config.prefix + (config.feed_forward.gated ? "DenseGatedActDense" : "DenseActDense")),
        activation_(config.feed_forward.activation) {
    if (config.feed_forward.gated) {
      wi_0_.emplace(child("wi_0"), config.d_model, config.d_ff, /*bias=*/false);
      wi_1_.emplace(child("wi_1"), config.d_model, config.d_ff, /*bias=*/false);
    } else {
      wi_.emplace(child("wi"), config.d_model, config.d_ff, /*bias=*/false);
    }
    wo_.emplace(child("wo"), config.d_ff, config.d_model, /*bias=*/false);
  }

  at::Tensor operator()(const at::Tensor& hidden) const {
    const auto scope = enter();
    return (*wo_)(wi_ ? activation_((*wi_)(hidden)) : activation_((*wi_0_)(hidden)) * (*wi_1_)(hidden));
  }

 private:
  Activation activation_;
  std::optional<Linear> wi_;
  std::optional<Linear> wi_0_;
  std::optional<Linear> wi_1_;
  std::optional<T5Output> wo_;
};

class T5Attention : public ProjectedAttention {
 public:
  T5Attention(Scope scope, const T5Config& config, std::optional<RelativeBuckets> buckets)
      : ProjectedAttention(std::move(scope), {.class_name = config.prefix + "Attention",
                                              .hidden_size = config.d_model,
                                              .heads = config.num_heads,
                                              .head_dim = config.d_kv,
                                              .bias = false,
                                              .key_bias = false,
                                              .names = {"q", "k", "v", "o"},
                                              .order = {0, 1, 2, 3}}) {
    if (buckets) {
      relative_attention_bias_.emplace(child("relative_attention_bias"), *buckets, config.num_heads);
    }
  }

  /// Of the first layer, for all.
  at::Tensor bias(const CacheSpan& span, const c10::SymInt& queries) const {
    const auto scope = enter();
    return (*relative_attention_bias_)(queries, span.keys, span.past, span.past_tensor);
  }

 private:
  std::optional<RelativePositionBias> relative_attention_bias_;
};

/// Attention with what stands around it: x + attention(norm(x)).
class T5AttentionLayer : public Module {
 public:
  T5AttentionLayer(Scope scope, const std::string& class_name, std::string attention_name, const T5Config& config,
                   std::optional<RelativeBuckets> buckets)
      : Module(std::move(scope), config.prefix + class_name),
        attention_(child(std::move(attention_name)), config, buckets),
        layer_norm_(child("layer_norm"), config) {}

  AttentionResult operator()(const at::Tensor& hidden, const at::Tensor& encoder_hidden, const at::Tensor& mask,
                             AttentionKind kind, const LayerCaches& caches) const {
    const auto scope = enter();
    AttentionResult attended = attention_(layer_norm_(hidden), encoder_hidden, mask, /*is_causal=*/false, kind, caches);
    return {hidden + attended.output, std::move(attended.probabilities)};
  }

  at::Tensor bias(const CacheSpan& span, const c10::SymInt& queries) const {
    const auto scope = enter();
    return attention_.bias(span, queries);
  }

 private:
  T5Attention attention_;
  T5LayerNorm layer_norm_;
};

class T5FeedForwardLayer : public Module {
 public:
  T5FeedForwardLayer(Scope scope, const T5Config& config)
      : Module(std::move(scope), config.prefix + "LayerFF"),
        dense_(child("DenseReluDense"), config),
        layer_norm_(child("layer_norm"), config) {}

  at::Tensor operator()(const at::Tensor& hidden) const {
    const auto scope = enter();
    return hidden + dense_(layer_norm_(hidden));
  }

 private:
  T5FeedForward dense_;
  T5LayerNorm layer_norm_;
};

class T5Block : public Module {
 public:
  T5Block(Scope scope, const T5Config& config, bool is_decoder, bool has_bias)
      : Module(std::move(scope), config.prefix + "Block"),
        self_attention_(child("layer.0"), "LayerSelfAttention", "SelfAttention", config,
                        has_bias ? std::optional(RelativeBuckets{config.buckets, config.max_distance, !is_decoder})
                                 : std::nullopt) {
    if (is_decoder) {
      cross_attention_.emplace(child("layer.1"), "LayerCrossAttention", "EncDecAttention", config, std::nullopt);
    }
    feed_forward_.emplace(child(is_decoder ? "layer.2" : "layer.1"), config);
  }

  struct Result {
    at::Tensor hidden;
    at::Tensor probabilities;
    at::Tensor cross_probabilities;
  };

  /// @param encoder_hidden undefined: no cross-attention
  Result operator()(const at::Tensor& hidden, const at::Tensor& mask, const at::Tensor& encoder_hidden,
                    const at::Tensor& cross_mask, AttentionKind kind, const LayerCaches& caches) const {
    const auto scope = enter();
    AttentionResult attended = self_attention_(hidden, {}, mask, kind, caches);
    Result result{limit_float16(attended.output), std::move(attended.probabilities), {}};
    if (encoder_hidden.defined()) {
      AttentionResult crossed = (*cross_attention_)(result.hidden, encoder_hidden, cross_mask, kind, caches);
      result.hidden = limit_float16(crossed.output);
      result.cross_probabilities = std::move(crossed.probabilities);
    }
    result.hidden = limit_float16((*feed_forward_)(result.hidden));
    return result;
  }

  at::Tensor bias(const CacheSpan& span, const c10::SymInt& queries) const {
    const auto scope = enter();
    return self_attention_.bias(span, queries);
  }

 private:
  T5AttentionLayer self_attention_;
  std::optional<T5AttentionLayer> cross_attention_;
  std::optional<T5FeedForwardLayer> feed_forward_;
};

/// The layers of a stack: the same for both kinds.
class T5Layers {
 public:
  T5Layers(Scope embed_tokens, Scope final_layer_norm, const std::function<Scope(int64_t)>& block,
           const T5Config& config, bool is_decoder)
      : embed_tokens_(std::move(embed_tokens), config.vocab_size, config.d_model) {
    const int64_t count = is_decoder ? config.num_decoder_layers : config.num_layers;
    for (int64_t i = 0; i < count; ++i) {
      block_.emplace_back(block(i), config, is_decoder, /*has_bias=*/i == 0);
    }
    final_layer_norm_.emplace(std::move(final_layer_norm), config);
  }

  Embedding embed_tokens_;
  ModuleList<T5Block> block_;
  std::optional<T5LayerNorm> final_layer_norm_;
};

// Scores with a bias are no plain attention: masks are made for sdpa, as bools, and joined with the bias. Heads that
// see nothing then attend evenly, as in the reference.
template <typename Stack>
class T5Stack : public Stack {
 public:
  template <typename... More>
  T5Stack(Scope scope, const ModelConfig& config, const T5Config& t5, bool is_decoder, More... more)
      : Stack(std::move(scope), config,
              {.class_name = t5.prefix + "Stack",
               .output_class = "BaseModelOutputWithPastAndCrossAttentions",
               .num_layers = static_cast<size_t>(is_decoder ? t5.num_decoder_layers : t5.num_layers),
               .hidden_size = t5.d_model,
               .vocab_size = t5.vocab_size,
               .max_positions = {},
               .pad_token_id = t5.pad_token_id,
               .lists_cross_attentions = true},
              more...),
        heads_(t5.num_heads),
        layers_(
            this->child("embed_tokens"), this->child("final_layer_norm"),
            [this](int64_t i) { return this->child(fmt::format("block.{}", i)); }, t5, is_decoder) {}

 protected:
  using Pass = typename Stack::Pass;
  using LayerOutput = typename Stack::LayerOutput;

  at::Tensor embed(const at::Tensor& input_ids) const override { return layers_.embed_tokens_(input_ids); }

  LayerOutput run_layer(size_t index, const at::Tensor& hidden, const Pass& pass) const override {
    auto result = layers_.block_[index](hidden, pass.mask.mask, pass.encoder_hidden_states, pass.cross_mask, pass.kind,
                                        pass.caches.empty() ? LayerCaches() : pass.caches[index]);
    return {std::move(result.hidden), std::move(result.probabilities), std::move(result.cross_probabilities), {}};
  }

  at::Tensor finish(const at::Tensor& hidden) const override { return (*layers_.final_layer_norm_)(hidden); }

  at::Tensor bias(const CacheSpan& span, const c10::SymInt& queries) const {
    return layers_.block_.front().bias(span, queries);
  }
  int64_t heads() const { return heads_; }

 private:
  int64_t heads_;
  T5Layers layers_;
};

class T5Encoder : public T5Stack<EncoderStack> {
 public:
  T5Encoder(Scope scope, const ModelConfig& config, const T5Config& t5)
      : T5Stack(std::move(scope), config, t5, /*is_decoder=*/false) {}

 protected:
  at::Tensor begin(const at::Tensor& embeddings, const ForwardArgs& args, Pass& pass) const override {
    const c10::SymInt length = embeddings.sym_size(1);
    const at::Tensor mask =
        create_bidirectional_mask(AttentionKind::kSdpa, embeddings, args.tensor("attention_mask"), length);
    pass.mask.mask = add_bias(mask, bias(CacheSpan::after(0, length), length));
    return embeddings;
  }
};

class T5Decoder : public T5Stack<DecoderStack> {
 public:
  T5Decoder(Scope scope, const ModelConfig& config, const T5Config& t5, bool with_encoder)
      : T5Stack(std::move(scope), config, t5, /*is_decoder=*/true,
                CacheTraits{.heads = t5.num_heads,
                            .head_dim = t5.d_kv,
                            .new_layers = static_cast<size_t>(t5.num_decoder_layers),
                            .has_encoder = with_encoder}) {}

 protected:
  at::Tensor begin(const at::Tensor& embeddings, const ForwardArgs& args, Pass& pass) const override {
    const c10::SymInt queries = embeddings.sym_size(1);
    CausalMaskOptions options;
    options.span = pass.span;
    options.always_made = true;
    const CausalMask mask =
        create_causal_mask(AttentionKind::kSdpa, embeddings, args.tensor("attention_mask"), options);
    pass.mask.mask = add_bias(mask.mask, bias(pass.span, queries));
    if (pass.encoder_hidden_states.defined()) {
      const at::Tensor seen =
          create_bidirectional_mask(AttentionKind::kSdpa, embeddings, args.tensor("encoder_attention_mask"),
                                    pass.encoder_hidden_states.sym_size(1));
      pass.cross_mask = seen.defined() ? add_bias(seen, at::zeros({1, 1, 1, 1}, pass.mask.mask.options())) : seen;
    }
    return embeddings;
  }
};

Seq2SeqTraits traits_of(const ModelConfig& config, const T5Defaults& defaults) {
  const T5Config t5(config, defaults);
  Seq2SeqTraits traits;
  traits.vocab_size = t5.vocab_size;
  traits.decoder_vocab_size = t5.vocab_size;
  traits.hidden_size = t5.d_model;
  traits.pad_token_id = t5.pad_token_id;
  traits.decoder_start_token_id = config.optional_integer("decoder_start_token_id", defaults.decoder_start_token_id);
  traits.eos_token_id = config.optional_integer("eos_token_id", 1);
  traits.num_labels = config.num_labels();
  // "tie_word_embeddings" never unties: the reference ties always, and takes a false in a checkpoint's config for the
  // sign of T5 v1.1, whose outputs are not scaled.
  const bool is_scaled = config.flag("scale_decoder_outputs", config.flag("tie_word_embeddings", true));
  traits.output_scale = defaults.scales_outputs && is_scaled ? 1.0 / std::sqrt(static_cast<double>(t5.d_model)) : 1.0;
  return traits;
}

}  // namespace

Seq2SeqTraits t5_traits(const ModelConfig& config) { return traits_of(config, kT5Defaults); }
Seq2SeqTraits mt5_traits(const ModelConfig& config) { return traits_of(config, kMt5Defaults); }

std::unique_ptr<EncoderStack> make_t5_encoder(Scope scope, const ModelConfig& config) {
  return std::make_unique<T5Encoder>(std::move(scope), config, T5Config(config, kT5Defaults));
}
std::unique_ptr<EncoderStack> make_mt5_encoder(Scope scope, const ModelConfig& config) {
  return std::make_unique<T5Encoder>(std::move(scope), config, T5Config(config, kMt5Defaults));
}

std::unique_ptr<DecoderStack> make_t5_decoder(Scope scope, const ModelConfig& config, bool with_encoder) {
  return std::make_unique<T5Decoder>(std::move(scope), config, T5Config(config, kT5Defaults), with_encoder);
}
std::unique_ptr<DecoderStack> make_mt5_decoder(Scope scope, const ModelConfig& config, bool with_encoder) {
  return std::make_unique<T5Decoder>(std::move(scope), config, T5Config(config, kMt5Defaults), with_encoder);
}

KeyRules t5_key_rules() {
  KeyRules rules;
  // The table of cross-attention that early checkpoints have and nobody reads.
  rules.former_buffers = {"EncDecAttention.relative_attention_bias.weight"};
  // https://github.com/huggingface/transformers/issues/20287
  rules.kept_in_float32 = {"wo"};
  return rules;
}

}  // namespace exporters::models
