#include "exporters/models/layers/experts.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/sum.h>

namespace exporters::models {

const PatchPoint<ExpertsKind(ExpertsKind)> experts_kind_point("models.Experts.kind",
                                                              [](ExpertsKind wanted) { return wanted; });

ExpertsKind parse_experts_kind(std::string_view name) {
  if (name == "grouped_mm") {
    return ExpertsKind::kGroupedMm;
  }
  if (name == "batched_mm" || name == "eager") {
    return ExpertsKind::kBatchedMm;
  }
  throw Error(fmt::format("unknown experts implementation \"{}\"", name), {},
              "Known are: grouped_mm, batched_mm, eager");
}

Experts::Experts(Scope scope, const ExpertsOptions& options)
    : Module(std::move(scope), options.class_name), options_(options) {
  const int64_t count = options.num_experts;
  const int64_t both = 2 * options.intermediate_size;
  const auto matrices = [&](int64_t in, int64_t out) {
    return options.is_transposed ? std::vector<int64_t>{count, in, out} : std::vector<int64_t>{count, out, in};
  };
  parameter("gate_up_proj", gate_up_proj_, matrices(options.hidden_size, both));
  if (options.has_bias) {
    parameter("gate_up_proj_bias", gate_up_proj_bias_, {count, both});
  }
  parameter("down_proj", down_proj_, matrices(options.intermediate_size, options.hidden_size));
  if (options.has_bias) {
    parameter("down_proj_bias", down_proj_bias_, {count, options.hidden_size});
  }
}

at::Tensor Experts::Products::operator()(const at::Tensor& states, const at::Tensor& matrices,
                                         const at::Tensor& bias) const {
  at::Tensor result;
  if (kind == ExpertsKind::kGroupedMm) {
    result = at::_grouped_mm(states, is_transposed ? matrices : matrices.transpose(1, 2), ends);
  } else {
    const at::Tensor chosen = at::index_select(matrices, 0, experts);
    result = is_transposed ? at::bmm(states.unsqueeze(1), chosen).squeeze(1)
                           : at::bmm(chosen, states.unsqueeze(-1)).squeeze(-1);
  }
  return bias.defined() ? result + at::index_select(bias, 0, experts) : result;
}

at::Tensor Experts::mlp(const at::Tensor& states, const Products& product) const {
  const at::Tensor both = product(states, gate_up_proj_, gate_up_proj_bias_);
  if (options_.join) {
    return product(options_.join(both), down_proj_, down_proj_bias_);
  }
  const at::Tensor gate = both.slice(-1, 0, options_.intermediate_size);
  const at::Tensor up = both.slice(-1, options_.intermediate_size, 2 * options_.intermediate_size);
  return product(options_.activation(gate) * up, down_proj_, down_proj_bias_);
}

at::Tensor Experts::operator()(const at::Tensor& hidden, const at::Tensor& chosen, const at::Tensor& weights) const {
  const auto scope = enter();
  const c10::SymInt tokens = hidden.sym_size(0);
  const int64_t choices = chosen.sym_size(1).guard_int(__FILE__, __LINE__);
  const auto int64 = at::TensorOptions().dtype(c10::ScalarType::Long);
  const at::Tensor experts = chosen.reshape({-1});
  const ExpertsKind kind = experts_kind_point(options_.kind);
  at::Tensor outputs;  // of each pair of token and choice, token by token
  if (kind == ExpertsKind::kBatchedMm) {
    const at::Tensor token = at::div(at::arange(tokens * choices, int64), choices, "floor");
    outputs = mlp(at::index_select(hidden, 0, token), {kind, options_.is_transposed, experts, {}});
  } else {
    const at::Tensor order = at::argsort(experts, /*stable=*/true, /*dim=*/0);
    const at::Tensor numbers = at::arange(options_.num_experts, int64);
    const at::Tensor counts = at::sum(at::eq(experts.unsqueeze(-1), numbers), {0});
    const at::Tensor ends = at::cumsum(counts, 0).to(c10::ScalarType::Int);
    const at::Tensor token = at::div(order, choices, "floor");
    const Products product{kind, options_.is_transposed, at::index_select(experts, 0, order), ends};
    const at::Tensor sorted = mlp(at::index_select(hidden, 0, token), product);
    outputs = at::index_select(sorted, 0, at::argsort(order, /*stable=*/true, /*dim=*/0));
  }
  const at::Tensor weighted = outputs * weights.reshape({-1, 1});
  return at::sum(weighted.unflatten_symint(0, {tokens, choices}), {1}).to(hidden.scalar_type());
}

}  // namespace exporters::models
