// NLLB-MoE: No Language Left Behind (NLLB team, 2022), M2M-100 with experts in some layers.
#include "exporters/models/bart_like.h"
#include "exporters/models/operators.h"
#include "exporters/models/seq2seq_families.h"
#include "exporters/patching/patch_point.h"
#include "exporters/support/error.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>

#include <array>
#include <limits>
#include <mutex>

namespace exporters::models {
namespace {

constexpr std::array kRules{
    FieldRule{"second_expert_policy", "\"all\"", "a second expert by chance is"},
};

struct NllbMoeConfig {
  explicit NllbMoeConfig(const ModelConfig& config)
      : num_experts(config.size("num_experts", 128, 2)),
        expert_capacity(config.size("expert_capacity", 64)),
        encoder_sparse_step(config.integer("encoder_sparse_step", 4)),
        decoder_sparse_step(config.integer("decoder_sparse_step", 4)),
        router_bias(config.flag("router_bias", false)),
        router_dtype(parse_dtype(config.string("router_dtype", "float32"))),
        ignores_padding(config.flag("router_ignore_padding_tokens", false)),
        normalizes_before_dropping(config.flag("normalize_router_prob_before_dropping", false)),
        prioritizes(config.flag("batch_prioritized_routing", false)),
        capacity_fraction(config.number("moe_eval_capacity_token_fraction", 1.0)),
        token_dropout(config.number("moe_token_dropout", 0.2)) {
    config.check(kRules);
  }

  bool is_sparse(int64_t layer, bool is_decoder) const {
    const int64_t step = is_decoder ? decoder_sparse_step : encoder_sparse_step;
    return step > 0 && (layer + 1) % step == 0;
  }

  int64_t num_experts;
  int64_t expert_capacity;
  int64_t encoder_sparse_step;
  int64_t decoder_sparse_step;
  bool router_bias;
  c10::ScalarType router_dtype;
  bool ignores_padding;
  bool normalizes_before_dropping;
  bool prioritizes;
  double capacity_fraction;
  double token_dropout;
};

double epsilon(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Half:
      return static_cast<double>(std::numeric_limits<c10::Half>::epsilon());
    case c10::ScalarType::BFloat16:
      return static_cast<double>(std::numeric_limits<c10::BFloat16>::epsilon());
    case c10::ScalarType::Double:
      return std::numeric_limits<double>::epsilon();
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

void cast_classifier(const Module& router);
/// The reference's router casts its own classifier when it is called.
const PatchPoint<void(const Module&)> cast_classifier_point("models.nllb_moe.NllbMoeTop2Router.cast_classifier",
                                                            cast_classifier);

/// Chooses two experts for each token. All that it says is a function of each token's scores and of how many tokens
/// before it chose the same experts.
class NllbMoeTop2Router : public Module {
 public:
  NllbMoeTop2Router(Scope scope, const NllbMoeConfig& config, int64_t hidden_size)
      : Module(std::move(scope), "NllbMoeTop2Router"),
        config_(config),
        classifier_(child("classifier"), hidden_size, config.num_experts, config.router_bias) {}

  struct Routing {
    at::Tensor top_1_mask;  ///< int64 [tokens, experts], 0 or 1
    at::Tensor weights;     ///< [tokens, experts]: of the two chosen ones, else 0
    at::Tensor logits;      ///< [tokens, experts]
  };

  /// @param hidden [tokens, hidden_size]
  /// @param padding the last row of the layer's mask for each row of the batch, [batch * keys]; undefined: no padding
  Routing operator()(const at::Tensor& hidden, const at::Tensor& padding) const {
    const auto scope = enter();
    cast_classifier_point(*this);
    const c10::ScalarType dtype = config_.router_dtype;
    const at::Tensor weight = cast_weight_.defined() ? cast_weight_ : classifier_.weight().to(dtype);
    const auto bias = classifier_.bias().defined() ? std::optional(classifier_.bias().to(dtype)) : std::nullopt;
    const at::Tensor logits = at::linear(hidden.to(dtype), weight, bias);
    return route(logits, hidden.scalar_type(), padding);
  }

  /// Casts the classifier's weight once, for all calls to come. Not in a trace: its tensors end with it.
  void cast() const {
    const std::lock_guard lock(mutex_);
    if (cast_weight_.defined() || classifier_.weight().scalar_type() == config_.router_dtype) {
      return;
    }
    const at::Tensor cast = classifier_.weight().to(config_.router_dtype);
    const bool is_traced = cast.key_set().has(c10::DispatchKey::Meta);
    if (!is_traced) {
      cast_weight_ = cast;
    }
  }

 private:
  // 1 at the index of each row.
  at::Tensor one_hot(const at::Tensor& index) const {
    const at::Tensor experts = at::arange(config_.num_experts, at::TensorOptions().dtype(c10::ScalarType::Long));
    return at::eq(index.unsqueeze(-1), experts).to(c10::ScalarType::Long);
  }

  struct Chosen {
    at::Tensor first;  ///< int64 [tokens, experts], 0 or 1
    at::Tensor second;
  };

  // Probabilities of the two, made to sum to 1: [tokens, 1] each.
  static Chosen normalized(const at::Tensor& probabilities, const Chosen& chosen) {
    const at::Tensor first = at::sum(probabilities * chosen.first, {1}, /*keepdim=*/true);
    const at::Tensor second = at::sum(probabilities * chosen.second, {1}, /*keepdim=*/true);
    const at::Tensor sum = at::clamp_min(first + second, epsilon(probabilities.scalar_type()));
    return {first / sum, second / sum};
  }

  // How many tokens before it chose an expert, for each token that did; the likeliest tokens come first where they are
  // prioritized.
  at::Tensor places(const at::Tensor& mask, const at::Tensor& order, const at::Tensor& place_in_order) const {
    if (!order.defined()) {
      return at::cumsum(mask, 0) - 1;
    }
    const at::Tensor sorted = at::index_select(mask, 0, order);
    return at::index_select((at::cumsum(sorted, 0) - 1) * sorted, 0, place_in_order);
  }

  // Without the choices that an expert has no room for.
  Chosen within_capacity(const Chosen& chosen, const at::Tensor& probabilities) const {
    // No expert is chosen more often than there are tokens.
    if (config_.capacity_fraction >= 1.0) {
      return chosen;
    }
    at::Tensor order;
    at::Tensor place_in_order;
    if (config_.prioritizes) {
      order = at::argsort(-at::amax(probabilities, {1}), int64_t{0});
      place_in_order = at::argsort(order, int64_t{0});
    }
    const at::Tensor first = places(chosen.first, order, place_in_order);
    const at::Tensor second =
        places(chosen.second, order, place_in_order) + at::sum(chosen.first, {0}, /*keepdim=*/true);
    const auto kept = [&](const at::Tensor& mask, const at::Tensor& place) {
      if (config_.capacity_fraction <= 0) {
        return mask * at::lt(place, config_.expert_capacity).to(c10::ScalarType::Long);
      }
      const at::Tensor tokens =
          at::sum(at::ones_symint({mask.sym_size(0)}, at::TensorOptions().dtype(c10::ScalarType::Double)));
      return mask * at::lt(place, at::ceil(tokens * config_.capacity_fraction)).to(c10::ScalarType::Long);
    };
    return {kept(chosen.first, first), kept(chosen.second, second)};
  }

  Routing route(const at::Tensor& logits, c10::ScalarType dtype, const at::Tensor& padding) const {
    const at::Tensor probabilities = at::softmax(logits, -1, config_.router_dtype).to(dtype);
    Chosen chosen;
    chosen.first = one_hot(at::argmax(probabilities, -1));
    const at::Tensor others =
        at::masked_fill(logits, chosen.first.to(c10::ScalarType::Bool), -std::numeric_limits<double>::infinity());
    chosen.second = one_hot(at::argmax(others, -1));
    const Chosen before = normalized(probabilities, chosen);
    // The field is named for the opposite of what the reference does with it.
    if (padding.defined() && !config_.ignores_padding) {
      const c10::SymInt total = padding.sym_size(0);
      const at::Tensor is_text = at::eq(padding.slice_symint(0, total - logits.sym_size(0), total), 0);
      const at::Tensor text = is_text.unsqueeze(-1).to(c10::ScalarType::Long);
      chosen = {chosen.first * text, chosen.second * text};
    }
    chosen = within_capacity(chosen, probabilities);
    const Chosen gates = config_.normalizes_before_dropping ? before : normalized(probabilities, chosen);
    return {chosen.first, gates.first * chosen.first + gates.second * chosen.second, logits};
  }

  NllbMoeConfig config_;
  Linear classifier_;
  mutable std::mutex mutex_;
  mutable at::Tensor cast_weight_;
};

void cast_classifier(const Module& router) { static_cast<const NllbMoeTop2Router&>(router).cast(); }

class NllbMoeDense : public FeedForward {
 public:
  NllbMoeDense(Scope scope, int64_t hidden_size, int64_t ffn_dim, Activation activation)
      : FeedForward(std::move(scope), "NllbMoeDenseActDense"),
        activation_(activation),
        fc1_(child("fc1"), hidden_size, ffn_dim),
        fc2_(child("fc2"), ffn_dim, hidden_size) {}

  Result operator()(const at::Tensor& hidden, const at::Tensor&) const override {
    const auto scope = enter();
    return {fc2_(activation_(fc1_(hidden))), {}};
  }

 private:
  Activation activation_;
  Linear fc1_;
  Linear fc2_;
};

// The reference takes the router's mask, which holds 0 and 1, for the numbers of experts: tokens go to expert 0 with
// the weights where the mask is 0, and to expert 1 with those where it is 1. That is what its checkpoints are run with,
// so it is computed here too; as sums over all tokens, which asks nothing of the data.
class NllbMoeExperts : public Module {
 public:
  NllbMoeExperts(Scope scope, const NllbMoeConfig& config, int64_t hidden_size, int64_t ffn_dim, Activation activation)
      : Module(std::move(scope), "NllbMoeExperts"), token_dropout_(config.token_dropout) {
    for (int64_t i = 0; i < config.num_experts; ++i) {
      experts_.emplace_back(child(fmt::format("expert_{}", i)), hidden_size, ffn_dim, activation);
    }
  }

  at::Tensor operator()(const at::Tensor& hidden, const NllbMoeTop2Router::Routing& routing) const {
    const auto scope = enter();
    const auto share = [&](size_t expert, const at::Tensor& mask) {
      const at::Tensor weight = at::sum(routing.weights * mask, {1}, /*keepdim=*/true);
      const at::Tensor output = experts_[expert](hidden, {}).hidden * weight;
      return token_dropout_ > 0 ? output * (1.0 - token_dropout_) : output;
    };
    return (share(0, 1 - routing.top_1_mask) + share(1, routing.top_1_mask)).to(hidden.scalar_type());
  }

 private:
  double token_dropout_;
  ModuleList<NllbMoeDense> experts_;
};

class NllbMoeSparse : public FeedForward {
 public:
  NllbMoeSparse(Scope scope, const NllbMoeConfig& config, int64_t hidden_size, int64_t ffn_dim, Activation activation)
      : FeedForward(std::move(scope), "NllbMoeSparseMLP"),
        router_(child("router"), config, hidden_size),
        experts_(child("experts"), config, hidden_size, ffn_dim, activation) {}

  Result operator()(const at::Tensor& hidden, const at::Tensor& mask) const override {
    const auto scope = enter();
    const c10::SymInt batch = hidden.sym_size(0);
    at::Tensor padding;
    if (mask.defined()) {
      padding = mask.select(2, -1).expand_symint({batch, 1, mask.sym_size(3)}).reshape({-1});
    }
    const at::Tensor tokens = hidden.flatten(0, 1);
    NllbMoeTop2Router::Routing routing = router_(tokens, padding);
    const at::Tensor output = experts_(tokens, routing);
    return {output.unflatten_symint(0, {batch, hidden.sym_size(1)}), std::move(routing.logits)};
  }

 private:
  NllbMoeTop2Router router_;
  NllbMoeExperts experts_;
};

}  // namespace

BartLikeSpec nllb_moe_spec(const ModelConfig& config) {
  BartLikeDefaults defaults;
  defaults.vocab_size = 128112;
  defaults.activation = "relu";
  defaults.scale_embedding = true;
  BartLikeSpec spec = read_bart_like("NllbMoe", config, defaults);
  spec.norm_before = true;
  spec.final_norm = true;
  spec.positions = BartLikePositions::kSinesAfterPad;
  spec.positions_class = "SinusoidalPositionalEmbedding";
  spec.encoder_range = Float16Range::kLimitedIfNotFinite;
  spec.decoder_range = Float16Range::kLimitedIfInfinite;
  spec.cross_attention = "cross_attention";
  spec.feed_forward_norm = "ff_layer_norm";
  spec.needs_eager_attention = true;
  spec.encoder_output = "MoEModelOutput";
  spec.decoder_output = "MoEModelOutputWithPastAndCrossAttentions";
  spec.has_routers = true;
  spec.make_feed_forward = [experts = NllbMoeConfig(config)](Scope scope, const BartLikeSpec& spec, int64_t layer,
                                                             bool is_decoder) -> std::unique_ptr<FeedForward> {
    const int64_t ffn_dim = spec.side(is_decoder).ffn_dim;
    if (experts.is_sparse(layer, is_decoder)) {
      return std::make_unique<NllbMoeSparse>(std::move(scope), experts, spec.d_model, ffn_dim, spec.activation);
    }
    return std::make_unique<NllbMoeDense>(std::move(scope), spec.d_model, ffn_dim, spec.activation);
  };
  return spec;
}

Seq2SeqTraits nllb_moe_traits(const ModelConfig& config) { return bart_like_traits(nllb_moe_spec(config), config, {}); }

}  // namespace exporters::models
