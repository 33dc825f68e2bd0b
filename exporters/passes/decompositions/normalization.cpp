// Normalization. Running statistics that a norm updates are written to in place, where functionalization sees it.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_native_batch_norm_legit_no_training.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/core/WrapDimMinimal.h>

#include <limits>

namespace exporters::decompositions {
namespace {

struct Norm {
  at::Tensor input;
  std::optional<at::Tensor> weight;
  std::optional<at::Tensor> bias;
  std::optional<at::Tensor> mean;
  std::optional<at::Tensor> var;
  bool training;
  double momentum;
  double eps;
};

// Every axis but the channels'.
std::vector<int64_t> batch_dims(const at::Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    if (axis != 1) {
      dims.push_back(axis);
    }
  }
  return dims;
}

// Running statistics move by the momentum to those of the batch; the variance is the unbiased one.
void update_statistics(const Norm& norm) {
  const std::vector<int64_t> dims = batch_dims(norm.input);
  const auto move = [&](const at::Tensor& running, const at::Tensor& batch) {
    running.mul_(1 - norm.momentum).add_(cast(batch, running.scalar_type()) * norm.momentum);
  };
  move(*norm.mean, norm.input.mean(dims));
  move(*norm.var, norm.input.var(dims, at::Scalar(1)));
}

// A tensor of the channels against all other axes.
at::Tensor by_channel(const at::Tensor& values, int64_t rank) {
  std::vector<c10::SymInt> sizes(rank, 1);
  sizes.at(1) = values.sym_size(0);
  return values.view_symint(sizes);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> by_batch_statistics(const Norm& norm) {
  const at::Tensor x = cast(norm.input, opmath_dtype(norm.input.scalar_type()));
  const std::vector<int64_t> dims = batch_dims(x);
  const at::Tensor mean = x.mean(dims);
  const at::Tensor rstd = (x.var(dims, at::Scalar(0)) + norm.eps).rsqrt();
  at::Tensor result = (x - by_channel(mean, x.dim())) * by_channel(rstd, x.dim());
  if (norm.weight) {
    result = result * by_channel(*norm.weight, x.dim());
  }
  if (norm.bias) {
    result = result + by_channel(*norm.bias, x.dim());
  }
  return {cast(result, norm.input.scalar_type()), mean, rstd};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> normalized(const DecompositionCall& in, const Norm& norm) {
  if (!norm.training) {
    if (!norm.mean || !norm.var) {
      in.refuse("running statistics are missing, and the norm is not in training mode", "Give them, or train.");
    }
    return at::_native_batch_norm_legit_no_training(norm.input, norm.weight, norm.bias, *norm.mean, *norm.var,
                                                    norm.momentum, norm.eps);
  }
  if (norm.mean && norm.var) {
    update_statistics(norm);
  }
  return by_batch_statistics(norm);
}

Norm norm_of(const DecompositionCall& in, bool training, double momentum) {
  return {in.tensor("input"),
          in.optional_tensor("weight"),
          in.optional_tensor("bias"),
          in.optional_tensor("running_mean"),
          in.optional_tensor("running_var"),
          training,
          momentum,
          in.floating("eps")};
}

Results batch_norm(const DecompositionCall& in) {
  return {std::get<0>(normalized(in, norm_of(in, in.boolean("training"), in.floating("momentum"))))};
}

Results native_batch_norm(const DecompositionCall& in) {
  const auto [output, mean, rstd] = normalized(in, norm_of(in, in.boolean("training"), in.floating("momentum")));
  return {output, mean, rstd};
}

// Every instance is a channel of its own in one batch.
Results instance_norm(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("input");
  const bool use_input = in.boolean("use_input_stats");
  if (use_input && in.optional_tensor("running_mean")) {
    in.refuse("it updates running statistics", "Export the model in evaluation mode.");
  }
  const c10::SymInt batch = x.sym_size(0);
  const c10::SymInt channels = x.sym_size(1);
  std::vector<c10::SymInt> sizes{c10::SymInt(1), batch * channels};
  sizes.insert(sizes.end(), x.sym_sizes().begin() + 2, x.sym_sizes().end());
  const auto repeated = [&](const char* name) -> std::optional<at::Tensor> {
    const auto tensor = in.optional_tensor(name);
    return tensor ? std::optional(tensor->repeat_symint({batch})) : std::nullopt;
  };
  const at::Tensor result =
      at::batch_norm(x.reshape_symint(sizes), repeated("weight"), repeated("bias"), repeated("running_mean"),
                     repeated("running_var"), use_input, in.floating("momentum"), in.floating("eps"), false);
  return {result.reshape_symint(x.sym_sizes())};
}

Results rms_norm(const DecompositionCall& in) {
  const at::Tensor self = in.tensor("input");
  const c10::ScalarType dtype = self.scalar_type();
  const at::Tensor x = cast(self, opmath_dtype(dtype));
  std::vector<int64_t> dims;
  const auto axes = static_cast<int64_t>(in.sym_ints("normalized_shape").size());
  for (int64_t axis = self.dim() - axes; axis < self.dim(); ++axis) {
    dims.push_back(axis);
  }
  const double smallest = dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                                               : static_cast<double>(std::numeric_limits<float>::epsilon());
  const double eps = in.has("eps") ? in.floating("eps") : smallest;
  at::Tensor scale = ((x * x).mean(dims, true) + eps).rsqrt();
  at::Tensor result = x * scale;
  if (const auto weight = in.optional_tensor("weight")) {
    result = result * *weight;
  }
  return {cast(result, dtype)};
}

// v · g / ‖v‖, with the norms over all axes but one; and these norms.
Results weight_norm(const DecompositionCall& in) {
  const at::Tensor v = in.tensor("v");
  const int64_t kept = c10::maybe_wrap_dim(in.integer("dim"), v.dim());
  std::vector<int64_t> dims;
  for (int64_t axis = 0; axis < v.dim(); ++axis) {
    if (axis != kept) {
      dims.push_back(axis);
    }
  }
  const at::Tensor norms = at::linalg_vector_norm(v, 2, dims, /*keepdim=*/true);
  return {v * (in.tensor("g") / norms), norms};
}

}  // namespace

Table normalization() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.batch_norm.default", batch_norm},
      {"aten.native_batch_norm.default", native_batch_norm},
      {"aten.cudnn_batch_norm.default", nullptr},
      {"aten.miopen_batch_norm.default", nullptr},
      {"aten.instance_norm.default", instance_norm},
      {"aten.rms_norm.default", rms_norm},
      {"aten._weight_norm_interface.default", weight_norm},
  });
  return kTable;
}

}  // namespace exporters::decompositions
