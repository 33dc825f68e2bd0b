// Sums, means, norms, and whatever takes axes away.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <limits>

namespace exporters::decompositions {
namespace {

c10::ScalarType sum_dtype(const DecompositionCall& in, const at::Tensor& x) {
  const c10::ScalarType promoted = c10::isIntegralType(x.scalar_type(), true) ? at::kLong : x.scalar_type();
  return in.dtype().value_or(promoted);
}

Results sum_all(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {x.sum(at::IntArrayRef{}, false, in.dtype())};
}

Results nansum(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const at::Tensor known = c10::isFloatingType(x.scalar_type()) ? at::where(x.isnan(), zero_like(x), x) : x;
  return {known.sum(in.dims("dim", x.dim()), in.boolean("keepdim"), sum_dtype(in, x))};
}

// ── all: no element is not so ──

at::Tensor negated(const DecompositionCall& in) { return in.tensor("self").logical_not(); }
// uint8 gives uint8, everything else bool.
Results negated_again(const DecompositionCall& in, const at::Tensor& any_not) {
  const at::Tensor all = any_not.logical_not();
  return {in.tensor("self").scalar_type() == at::kByte ? cast(all, at::kByte) : all};
}

Results all_of(const DecompositionCall& in) { return negated_again(in, negated(in).any()); }
Results all_of_dim(const DecompositionCall& in) {
  return negated_again(in, negated(in).any(in.integer("dim"), in.boolean("keepdim")));
}
Results all_of_dims(const DecompositionCall& in) {
  return negated_again(in, negated(in).any(in.dims("dim", in.tensor("self").dim()), in.boolean("keepdim")));
}

Results count_nonzero_dims(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {(x != 0).sum(in.dims("dim", x.dim()), false, c10::nullopt)};
}

Results count_nonzero(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const auto dim = in.optional_integer("dim");
  return {(x != 0).sum(dim ? std::vector<int64_t>{*dim} : std::vector<int64_t>{}, false, c10::nullopt)};
}

// ── Extremes ──

Results max_all(const DecompositionCall& in) { return {in.tensor("self").amax()}; }
Results min_all(const DecompositionCall& in) { return {in.tensor("self").amin()}; }

Results aminmax(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const auto dim = in.optional_integer("dim");
  const std::vector<int64_t> dims = dim ? std::vector<int64_t>{*dim} : std::vector<int64_t>{};
  return {x.amin(dims, in.boolean("keepdim")), x.amax(dims, in.boolean("keepdim"))};
}

// ── Moments ──

at::Tensor variance(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const auto correction = in.optional_scalar("correction");
  return x.var(in.dims("dim", x.dim()), correction.value_or(1), in.boolean("keepdim"));
}

at::Tensor average(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return x.mean(in.dims("dim", x.dim()), in.boolean("keepdim"));
}

Results std_deviation(const DecompositionCall& in) { return {variance(in).sqrt()}; }
Results var_mean(const DecompositionCall& in) { return {variance(in), average(in)}; }
Results std_mean(const DecompositionCall& in) { return {variance(in).sqrt(), average(in)}; }

// ── Logs of sums ──

Results logsumexp(const DecompositionCall& in) {
  const at::Tensor x = as_floating(in.tensor("self"));
  const std::vector<int64_t> dims = in.dims("dim", x.dim());
  const at::Tensor most = x.amax(dims, true);
  // An infinite maximum is not subtracted from itself.
  const at::Tensor shift = at::where(most.abs() == std::numeric_limits<double>::infinity(), zero_like(most), most);
  const at::Tensor sum = (x - shift).exp().sum(dims, true, c10::nullopt).log() + shift;
  return {in.boolean("keepdim") || x.dim() == 0 ? sum : sum.squeeze(dims)};
}

// ── Norms ──

at::Tensor norm_of(const at::Tensor& x, double p, const std::vector<int64_t>& dims, bool keepdim) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (p == 0.0) {
    return cast(x != 0, x.scalar_type()).sum(dims, keepdim, c10::nullopt);
  }
  if (p == 1.0) {
    return x.abs().sum(dims, keepdim, c10::nullopt);
  }
  if (p == 2.0) {
    return (x * x).sum(dims, keepdim, c10::nullopt).sqrt();
  }
  if (p == kInfinity) {
    return x.abs().amax(dims, keepdim);
  }
  if (p == -kInfinity) {
    return x.abs().amin(dims, keepdim);
  }
  return x.abs().pow(p).sum(dims, keepdim, c10::nullopt).pow(1.0 / p);
}

Results norm(const DecompositionCall& in, const at::Tensor& self, double p, bool keepdim) {
  if (self.is_complex()) {
    in.refuse("norms of complex numbers have no core form", "Keep the op whole: DecompositionTable::keep.");
  }
  const c10::ScalarType dtype = in.has("dtype") ? *in.dtype() : self.scalar_type();
  const at::Tensor x = cast(cast(self, dtype), opmath_dtype(dtype));
  return {cast(norm_of(x, p, in.dims("dim", x.dim()), keepdim), dtype)};
}

Results vector_norm(const DecompositionCall& in) {
  return norm(in, in.tensor("self"), in.scalar("ord").toDouble(), in.boolean("keepdim"));
}

Results dim_norm(const DecompositionCall& in) {
  const auto p = in.optional_scalar("p");
  return norm(in, in.tensor("self"), p ? p->toDouble() : 2.0, in.has("keepdim") && in.boolean("keepdim"));
}

Results whole_norm(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const auto p = in.optional_scalar("p");
  std::vector<int64_t> every;
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    every.push_back(axis);
  }
  const c10::ScalarType dtype = in.has("dtype") ? *in.dtype() : x.scalar_type();
  return {cast(norm_of(cast(x, opmath_dtype(dtype)), p ? p->toDouble() : 2.0, every, false), dtype)};
}

Results dist(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self") - in.tensor("other");
  std::vector<int64_t> every;
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    every.push_back(axis);
  }
  return {norm_of(x, in.scalar("p").toDouble(), every, false)};
}

// Rows that are minus infinity throughout give zeros.
Results safe_softmax(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t dim = in.dim("dim", x.dim());
  const at::Tensor soft = x.softmax(dim, in.dtype());
  const at::Tensor hidden = (x == -std::numeric_limits<double>::infinity()).logical_not().any(dim, true).logical_not();
  return {at::where(hidden, zero_like(soft), soft)};
}

Results trace(const DecompositionCall& in) { return {in.tensor("self").diagonal(0, 0, 1).sum()}; }

}  // namespace

Table reductions() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.sum.default", sum_all},
      {"aten.nansum.default", nansum},
      {"aten.all.default", all_of},
      {"aten.all.dim", all_of_dim},
      {"aten.all.dims", all_of_dims},
      {"aten.count_nonzero.default", count_nonzero},
      {"aten.count_nonzero.dim_IntList", count_nonzero_dims},
      {"aten.max.default", max_all},
      {"aten.min.default", min_all},
      {"aten.aminmax.default", aminmax},
      {"aten.std.correction", std_deviation},
      {"aten.var_mean.correction", var_mean},
      {"aten.std_mean.correction", std_mean},
      {"aten.logsumexp.default", logsumexp},
      {"aten.linalg_vector_norm.default", vector_norm},
      {"aten.norm.ScalarOpt_dim", dim_norm},
      {"aten.norm.ScalarOpt_dim_dtype", dim_norm},
      {"aten.norm.Scalar", whole_norm},
      {"aten.norm.ScalarOpt_dtype", whole_norm},
      {"aten.dist.default", dist},
      {"aten._safe_softmax.default", safe_softmax},
      {"aten.trace.default", trace},
  });
  return kTable;
}

}  // namespace exporters::decompositions
