#include "exporters/models/layers/pre_norm_layer.h"

#include "exporters/models/operators.h"

namespace exporters::models {

LayerScale::LayerScale(Scope scope, std::string class_name, int64_t width)
    : Module(std::move(scope), std::move(class_name)) {
  parameter("lambda1", lambda1_, {width});
}

at::Tensor LayerScale::operator()(const at::Tensor& input) const {
  const auto scope = enter();
  return input * lambda1_;
}

PreNormLayer::PreNormLayer(Scope scope, const PreNormLayerOptions& options)
    : Module(std::move(scope), options.class_name), norms_last_(options.norms_last) {
  for (const char part : options.order) {
    declare(part, options);
  }
}

void PreNormLayer::declare(char part, const PreNormLayerOptions& options) {
  const auto named = [this](std::string_view name) { return child(std::string(name)); };
  const FeedForwardOptions& forward = options.feed_forward;
  const int64_t width = forward.hidden_size;
  const MlpOptions mlp{forward.class_name, width, forward.intermediate_size, forward.activation, /*bias=*/true};
  switch (part) {
    case 'a':
      attention_.emplace(named(options.attention_name), options.attention);
      return;
    case 'n':
      attention_norm_.emplace(named(options.attention_norm), width, options.eps);
      return;
    case 's':
      attention_scale_.emplace(named(options.attention_scale), "LayerScale", width);
      return;
    case 'm':
      feed_forward_norm_.emplace(named(options.feed_forward_norm), width, options.eps);
      return;
    case 't':
      feed_forward_scale_.emplace(named(options.feed_forward_scale), "LayerScale", width);
      return;
    default:
      if (forward.is_gated) {
        gated_.emplace(named(options.feed_forward_name), mlp, forward.in_name, forward.out_name);
      } else {
        plain_.emplace(named(options.feed_forward_name), mlp, forward.in_name, forward.out_name);
      }
  }
}

at::Tensor PreNormLayer::feed_forward(const at::Tensor& hidden) const {
  const at::Tensor forward = gated_ ? (*gated_)(hidden) : (*plain_)(hidden);
  return feed_forward_scale_ ? (*feed_forward_scale_)(forward) : forward;
}

AttentionResult PreNormLayer::operator()(const at::Tensor& hidden, const at::Tensor& mask, AttentionKind kind,
                                         bool is_causal) const {
  const auto scope = enter();
  AttentionResult attended =
      (*attention_)(norms_last_ ? hidden : (*attention_norm_)(hidden), {}, mask, is_causal, kind, LayerCaches{});
  const at::Tensor half = attention_scale_ ? (*attention_scale_)(attended.output) : attended.output;
  if (norms_last_) {
    const at::Tensor middle = (*attention_norm_)(hidden + half);
    return {(*feed_forward_norm_)(middle + feed_forward(middle)), std::move(attended.probabilities)};
  }
  const at::Tensor middle = hidden + half;
  return {middle + feed_forward((*feed_forward_norm_)(middle)), std::move(attended.probabilities)};
}

}  // namespace exporters::models
