// OPT: Open Pre-trained Transformer Language Models (Zhang et al., 2022).
#include "exporters/models/decoder_families.h"
#include "exporters/models/layers/activations.h"
#include "exporters/models/layers/cached_attention.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/cumsum.h>

#include <array>
#include <cmath>

namespace exporters::models {
namespace {

constexpr int64_t kMaxLayers = 10'000;
constexpr double kLayerNormEps = 1e-5;
// The first rows of the table of positions belong to none.
constexpr int64_t kPositionOffset = 2;

constexpr std::array kRules{
    FieldRule{"layer_norm_elementwise_affine", "true", "layer norms without weights are"},
};

struct OptConfig {
  explicit OptConfig(const ModelConfig& config)
      : vocab_size(config.size("vocab_size", 50272)),
        hidden_size(config.size("hidden_size", 768)),
        embedding_size(config.size("word_embed_proj_dim", hidden_size)),
        ffn_dim(config.size("ffn_dim", 3072)),
        num_layers(config.size("num_hidden_layers", 12, 1, kMaxLayers)),
        num_heads(config.size("num_attention_heads", 12)),
        max_positions(config.size("max_position_embeddings", 2048)),
        activation(models::activation(config.string("activation_function", "relu"))),
        norm_before(config.flag("do_layer_norm_before", true)),
        final_norm(norm_before && !config.flag("_remove_final_layer_norm", false)),
        bias(config.flag("enable_bias", true)),
        pad_token_id(config.optional_integer("pad_token_id", 1)) {
    config.check(kRules);
    if (hidden_size % num_heads != 0) {
      throw Error(fmt::format("config field \"hidden_size\" is {}, not a multiple of \"num_attention_heads\", {}",
                              hidden_size, num_heads),
                  config.where());
    }
  }

  int64_t vocab_size;
  int64_t hidden_size;
  int64_t embedding_size;
  int64_t ffn_dim;
  int64_t num_layers;
  int64_t num_heads;
  int64_t max_positions;
  Activation activation;
  bool norm_before;
  bool final_norm;
  bool bias;
  std::optional<int64_t> pad_token_id;
};

DecoderTraits traits_of(const OptConfig& opt, const ModelConfig& config) {
  DecoderTraits traits;
  traits.vocab_size = opt.vocab_size;
  traits.hidden_size = opt.embedding_size;
  traits.num_key_value_heads = opt.num_heads;
  traits.head_dim = opt.hidden_size / opt.num_heads;
  traits.sliding_windows.resize(static_cast<size_t>(opt.num_layers));
  traits.max_positions = opt.max_positions;
  traits.pad_token_id = opt.pad_token_id;
  traits.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  traits.returns_given_cache = true;
  traits.packs_sequences = false;
  return traits;
}

class OptAttention : public Module {
 public:
  OptAttention(Scope scope, const OptConfig& config)
      : Module(std::move(scope), "OPTAttention"),
        heads_(config.num_heads),
        head_dim_(config.hidden_size / config.num_heads),
        k_proj_(child("k_proj"), config.hidden_size, config.hidden_size, config.bias),
        v_proj_(child("v_proj"), config.hidden_size, config.hidden_size, config.bias),
        q_proj_(child("q_proj"), config.hidden_size, config.hidden_size, config.bias),
        out_proj_(child("out_proj"), config.hidden_size, config.hidden_size, config.bias) {}

  AttentionResult operator()(const at::Tensor& hidden, const CausalMask& mask, CacheLayer* cache,
                             AttentionKind kind) const {
    const auto scope = enter();
    // Scaled here, as the reference does: in half precision the order shows.
    const at::Tensor scaled = q_proj_(hidden) * (1.0 / std::sqrt(static_cast<double>(head_dim_)));
    const at::Tensor query = split_heads(scaled, heads_, head_dim_);
    const at::Tensor key = split_heads(k_proj_(hidden), heads_, head_dim_);
    const at::Tensor value = split_heads(v_proj_(hidden), heads_, head_dim_);
    AttentionResult result = cached_attention(kind, query, key, value, mask, cache, {.softmax_in_float32 = true});
    return {out_proj_(result.output), std::move(result.probabilities)};
  }

 private:
  int64_t heads_;
  int64_t head_dim_;
  Linear k_proj_;
  Linear v_proj_;
  Linear q_proj_;
  Linear out_proj_;
};

class OptDecoderLayer : public Module {
 public:
  OptDecoderLayer(Scope scope, const OptConfig& config)
      : Module(std::move(scope), "OPTDecoderLayer"),
        norm_before_(config.norm_before),
        activation_(config.activation),
        self_attn_(child("self_attn"), config),
        self_attn_layer_norm_(child("self_attn_layer_norm"), config.hidden_size, kLayerNormEps),
        fc1_(child("fc1"), config.hidden_size, config.ffn_dim, config.bias),
        fc2_(child("fc2"), config.ffn_dim, config.hidden_size, config.bias),
        final_layer_norm_(child("final_layer_norm"), config.hidden_size, kLayerNormEps) {}

  AttentionResult operator()(const at::Tensor& hidden, const CausalMask& mask, CacheLayer* cache,
                             AttentionKind kind) const {
    const auto scope = enter();
    AttentionResult attended = self_attn_(norm_before_ ? self_attn_layer_norm_(hidden) : hidden, mask, cache, kind);
    at::Tensor middle = hidden + attended.output;
    middle = norm_before_ ? middle : self_attn_layer_norm_(middle);
    const at::Tensor forward = fc2_(activation_(fc1_(norm_before_ ? final_layer_norm_(middle) : middle)));
    const at::Tensor output = middle + forward;
    return {norm_before_ ? output : final_layer_norm_(output), std::move(attended.probabilities)};
  }

 private:
  bool norm_before_;
  Activation activation_;
  OptAttention self_attn_;
  LayerNorm self_attn_layer_norm_;
  Linear fc1_;
  Linear fc2_;
  LayerNorm final_layer_norm_;
};

class OptModel : public DecoderModel {
 public:
  OptModel(Scope scope, const ModelConfig& config, const OptConfig& opt)
      : DecoderModel(std::move(scope), kOpt, config, traits_of(opt, config)),
        embed_tokens_(child("decoder.embed_tokens"), opt.vocab_size, opt.embedding_size, opt.pad_token_id),
        embed_positions_(child("decoder.embed_positions"), opt.max_positions + kPositionOffset, opt.hidden_size) {
    if (opt.embedding_size != opt.hidden_size) {
      project_out_.emplace(child("decoder.project_out"), opt.hidden_size, opt.embedding_size, /*bias=*/false);
      project_in_.emplace(child("decoder.project_in"), opt.embedding_size, opt.hidden_size, /*bias=*/false);
    }
    if (opt.final_norm) {
      final_layer_norm_.emplace(child("decoder.final_layer_norm"), opt.hidden_size, kLayerNormEps);
    }
    for (int64_t i = 0; i < opt.num_layers; ++i) {
      layers_.emplace_back(child(fmt::format("decoder.layers.{}", i)), opt);
    }
  }

 protected:
  at::Tensor embed(const at::Tensor& input_ids) const override { return embed_tokens_(input_ids); }

  // Positions count the tokens that are not padding; padding has position -1.
  at::Tensor positions(const ForwardArgs& args, const CacheSpan& span, const c10::SymInt& queries) const override {
    const at::Tensor mask = args.tensor("attention_mask");
    if (!mask.defined()) {
      return DecoderModel::positions(args, span, queries);
    }
    if (mask.dim() != 2) {
      throw Error("positions follow from attention_mask, which is prepared already", {}, "Give position_ids too");
    }
    const at::Tensor all = (at::cumsum(mask, 1) * mask - 1).to(c10::ScalarType::Long);
    return all.slice_symint(1, mask.sym_size(1) - queries);
  }

  at::Tensor begin(const at::Tensor& embeddings, Pass& pass) const override {
    const at::Tensor positions = embed_positions_(pass.position_ids + kPositionOffset);
    return (project_in_ ? (*project_in_)(embeddings) : embeddings) + positions;
  }

  AttentionResult run_layer(size_t index, const at::Tensor& hidden, const LayerInputs& inputs) const override {
    return layers_[index](hidden, inputs.mask, inputs.cache, inputs.pass->kind);
  }

  at::Tensor finish(const at::Tensor& hidden) const override {
    const at::Tensor normed = final_layer_norm_ ? (*final_layer_norm_)(hidden) : hidden;
    return project_out_ ? (*project_out_)(normed) : normed;
  }

 private:
  Embedding embed_tokens_;
  Embedding embed_positions_;
  std::optional<Linear> project_out_;
  std::optional<Linear> project_in_;
  std::optional<LayerNorm> final_layer_norm_;
  ModuleList<OptDecoderLayer> layers_;
};

}  // namespace

std::unique_ptr<DecoderModel> make_opt(Scope scope, const ModelConfig& config) {
  return std::make_unique<OptModel>(std::move(scope), config, OptConfig(config));
}

}  // namespace exporters::models
