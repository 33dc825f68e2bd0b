#pragma once

#include "exporters/models/layers/activations.h"
#include "exporters/models/module.h"
#include "exporters/patching/patch_point.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>

namespace exporters::models {

/// How the products of tokens with their experts' matrices are computed, as the reference's `experts_implementation`.
/// Neither asks how many tokens an expert got: one graph serves every choice.
enum class ExpertsKind {
  kBatchedMm,  ///< each token with a copy of the matrices it chose
  kGroupedMm,  ///< tokens in the order of their experts, one product; rows of matrices are multiples of 16 bytes
};
/// What is taken of them, given what the config asks for: a backend without grouped products patches it
/// ("models.Experts.kind").
extern const PatchPoint<ExpertsKind(ExpertsKind)> experts_kind_point;
/// "batched_mm", "grouped_mm", or "eager", which computes the same as them. Throws Error for another name.
ExpertsKind parse_experts_kind(std::string_view name);

struct ExpertsOptions {
  std::string class_name;
  int64_t num_experts = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  Activation activation = nullptr;
  ExpertsKind kind = ExpertsKind::kGroupedMm;
  bool has_bias = false;
  /// The matrices are [in, out], not [out, in].
  bool is_transposed = false;
  /// What becomes of gate and up, [..., 2 * intermediate_size] → [..., intermediate_size]; empty: act(gate) · up, with
  /// the gate in the first half.
  std::function<at::Tensor(const at::Tensor&)> join = {};
};

/// Gated MLPs side by side, of which each token takes some: down(act(gate(x)) · up(x)), weighted and added up.
/// Parameters: gate_up_proj [experts, 2 * intermediate_size, hidden_size], down_proj [experts, hidden_size,
/// intermediate_size], and gate_up_proj_bias, down_proj_bias.
class Experts : public Module {
 public:
  Experts(Scope scope, const ExpertsOptions& options);

  /// @param hidden [tokens, hidden_size]
  /// @param chosen int64 [tokens, choices]: numbers of experts
  /// @param weights [tokens, choices]
  /// @return of the sizes and dtype of `hidden`
  at::Tensor operator()(const at::Tensor& hidden, const at::Tensor& chosen, const at::Tensor& weights) const;

 private:
  /// Products of `states` [pairs of token and choice, …] with the matrices of their experts.
  struct Products {
    ExpertsKind kind;
    bool is_transposed;
    at::Tensor experts;  ///< of each pair
    at::Tensor ends;     ///< kGroupedMm: int32, the end of each expert's pairs
    at::Tensor operator()(const at::Tensor& states, const at::Tensor& matrices, const at::Tensor& bias) const;
  };
  at::Tensor mlp(const at::Tensor& states, const Products& product) const;

  ExpertsOptions options_;
  at::Tensor gate_up_proj_;
  at::Tensor gate_up_proj_bias_;
  at::Tensor down_proj_;
  at::Tensor down_proj_bias_;
};

}  // namespace exporters::models
