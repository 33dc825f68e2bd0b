// Activation functions. Half-precision inputs are computed in float and rounded once, as ATen's kernels do.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/where.h>

namespace exporters::decompositions {
namespace {

Results silu(const DecompositionCall& in) {
  return in_opmath(in.tensor("self"), [](const at::Tensor& x) { return x * x.sigmoid(); });
}

at::Tensor softplus_of(const at::Tensor& x, const at::Scalar& beta, const at::Scalar& threshold) {
  const at::Tensor scaled = x * beta;
  return at::where(scaled > threshold, x, scaled.exp().log1p() / beta);
}

Results softplus(const DecompositionCall& in) {
  return in_opmath(in.tensor("self"),
                   [&](const at::Tensor& x) { return softplus_of(x, in.scalar("beta"), in.scalar("threshold")); });
}

Results mish(const DecompositionCall& in) {
  return in_opmath(in.tensor("self"), [](const at::Tensor& x) { return x * softplus_of(x, 1, 20).tanh(); });
}

Results hardswish(const DecompositionCall& in) {
  return in_opmath(in.tensor("self"), [](const at::Tensor& x) { return x * (x + 3).clamp(0, 6) / 6; });
}

Results hardsigmoid(const DecompositionCall& in) {
  return in_opmath(in.tensor("self"), [](const at::Tensor& x) { return (x + 3).clamp(0, 6) / 6; });
}

// min(x, 0) - log(1 + exp(-|x|)), which does not overflow.
at::Tensor log_sigmoid_of(const at::Tensor& x) { return x.clamp(c10::nullopt, 0) - x.abs().neg().exp().log1p(); }

Results log_sigmoid(const DecompositionCall& in) { return in_opmath(in.tensor("self"), log_sigmoid_of); }

Results log_sigmoid_forward(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  Results results = in_opmath(x, log_sigmoid_of);
  results.emplace_back(x.new_empty({0}));  // what the CPU kernel keeps for the gradient
  return results;
}

Results softshrink(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const double lambda = in.floating("lambd");
  const at::Tensor shrunk = at::where(x > lambda, x - lambda, x + lambda);
  // NaN stays NaN: it is not inside.
  return {at::where(x.abs() <= lambda, zero_like(x), shrunk)};
}

Results hardshrink(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {at::where(x.abs() <= in.scalar("lambd"), zero_like(x), x)};
}

Results threshold(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {at::where(x <= in.scalar("threshold"), scalar_like(x, in.scalar("value")), x)};
}

Results prelu_kernel(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {at::where(x > 0, x, in.tensor("weight") * x)};
}

Results celu(const DecompositionCall& in) {
  const double alpha = in.floating("alpha");
  return in_opmath(in.tensor("self"),
                   [&](const at::Tensor& x) { return at::where(x > 0, x, (x / alpha).expm1() * alpha); });
}

Results glu(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t dim = in.dim("dim", x.dim());
  const c10::SymInt half = x.sym_size(dim) / 2;
  const at::Tensor gate = x.slice_symint(dim, half, c10::nullopt);
  return {x.slice_symint(dim, 0, half) * gate.sigmoid()};
}

Results logit(const DecompositionCall& in) {
  return in_opmath(as_floating(in.tensor("self")), [&](const at::Tensor& x) {
    at::Tensor z = x;
    if (in.has("eps") && in.floating("eps") >= 0) {
      z = x.clamp(in.floating("eps"), 1.0 - in.floating("eps"));
    }
    return (z / z.neg().add(1)).log();
  });
}

Results dropout(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("input");
  const bool drops = in.boolean("train") && in.floating("p") > 0;
  return {drops ? std::get<0>(at::native_dropout(x, in.floating("p"), true)) : x};
}

}  // namespace

Table activations() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.silu.default", silu},
      {"aten.softplus.default", softplus},
      {"aten.mish.default", mish},
      {"aten.hardswish.default", hardswish},
      {"aten.hardsigmoid.default", hardsigmoid},
      {"aten.log_sigmoid.default", log_sigmoid},
      {"aten.log_sigmoid_forward.default", log_sigmoid_forward},
      {"aten.softshrink.default", softshrink},
      {"aten.hardshrink.default", hardshrink},
      {"aten.threshold.default", threshold},
      {"aten._prelu_kernel.default", prelu_kernel},
      {"aten.celu.default", celu},
      {"aten.glu.default", glu},
      {"aten.logit.default", logit},
      {"aten.dropout.default", dropout},
  });
  return kTable;
}

}  // namespace exporters::decompositions
