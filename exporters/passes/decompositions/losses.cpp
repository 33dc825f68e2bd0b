// Losses, with their reductions: 0 none, 1 mean, 2 sum.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

namespace exporters::decompositions {
namespace {

Results reduced(const DecompositionCall& in, const at::Tensor& losses) {
  switch (in.integer("reduction")) {
    case 0:
      return {losses};
    case 1:
      return {losses.mean()};
    default:
      return {losses.sum()};
  }
}

at::Tensor difference(const DecompositionCall& in) { return in.tensor("self") - in.tensor("target"); }

Results mse_loss(const DecompositionCall& in) {
  const at::Tensor error = difference(in);
  return reduced(in, error * error);
}

Results smooth_l1_loss(const DecompositionCall& in) {
  const at::Tensor error = difference(in).abs();
  const double beta = in.floating("beta");
  if (beta == 0.0) {
    return reduced(in, error);
  }
  return reduced(in, at::where(error < beta, error * error * 0.5 / beta, error - 0.5 * beta));
}

Results huber_loss(const DecompositionCall& in) {
  const at::Tensor error = difference(in).abs();
  const double delta = in.floating("delta");
  return reduced(in, at::where(error < delta, error * error * 0.5, (error - 0.5 * delta) * delta));
}

Results binary_cross_entropy(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const at::Tensor target = in.tensor("target");
  // Logarithms are cut off at -100.
  const at::Tensor log_x = x.log().clamp(-100, c10::nullopt);
  const at::Tensor log_rest = x.neg().log1p().clamp(-100, c10::nullopt);
  at::Tensor losses = (target - 1) * log_rest - target * log_x;
  if (const auto weight = in.optional_tensor("weight")) {
    losses = losses * *weight;
  }
  return reduced(in, losses);
}

Results binary_cross_entropy_with_logits(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const at::Tensor target = in.tensor("target");
  const at::Tensor log_sigmoid = x.clamp(c10::nullopt, 0) - x.abs().neg().exp().log1p();
  const auto pos_weight = in.optional_tensor("pos_weight");
  at::Tensor losses = target.neg().add(1) * x;
  losses = pos_weight ? losses - ((*pos_weight - 1) * target + 1) * log_sigmoid : losses - log_sigmoid;
  if (const auto weight = in.optional_tensor("weight")) {
    losses = losses * *weight;
  }
  return reduced(in, losses);
}

}  // namespace

Table losses() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.mse_loss.default", mse_loss},
      {"aten.smooth_l1_loss.default", smooth_l1_loss},
      {"aten.huber_loss.default", huber_loss},
      {"aten.binary_cross_entropy.default", binary_cross_entropy},
      {"aten.binary_cross_entropy_with_logits.default", binary_cross_entropy_with_logits},
  });
  return kTable;
}

}  // namespace exporters::decompositions
