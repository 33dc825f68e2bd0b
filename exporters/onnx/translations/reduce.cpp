// Reductions and running sums.
#include "exporters/onnx/translations/table.h"

#include <cmath>
#include <numeric>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

bool is_integer(c10::ScalarType dtype) { return c10::isIntegralType(dtype, /*includeBool=*/true); }

// The axes of a reduction: none given, or an empty list, means all.
std::vector<int64_t> axes_of(const OpCall& call, const char* name, int64_t rank) {
  std::vector<int64_t> axes;
  if (call.has(name)) {
    axes = call.dims(name, rank);
  }
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

bool keeps(const OpCall& call) { return call.has("keepdim") && call.boolean("keepdim"); }

OnnxValue reduce(Context& context, std::string_view op, const OnnxValue& x, const std::vector<int64_t>& axes,
                 bool keep) {
  if (axes.empty()) {
    return x;  // 0-d
  }
  return context.emit(op, {x, context.constant(axes)}, {{"keepdims", keep}});
}

Expr count(const TensorMeta& meta, const std::vector<int64_t>& axes) {
  Expr n = 1;
  for (int64_t axis : axes) {
    n = n * meta.sizes[static_cast<size_t>(axis)];
  }
  return n;
}

struct Reduction {
  OnnxValue x;
  std::vector<int64_t> axes;
  bool keep;
};

// Operand in the dtype that the result is computed in, where the provider reduces 32- and 64-bit integers only.
Reduction reduction(Context& context, const OpCall& call, c10::ScalarType dtype) {
  const TensorMeta& meta = call.meta("self");
  if (c10::isComplexType(meta.dtype)) {
    call.refuse("complex tensors have no ONNX operators");
  }
  if (is_integer(dtype) && dtype != c10::kLong) {
    dtype = c10::kInt;
  }
  return {context.cast(call.tensor("self"), Context::compute_dtype(dtype)), axes_of(call, "dim", meta.dim()),
          keeps(call)};
}

OnnxValues aten_sum(Context& context, const OpCall& call) {
  const auto [x, axes, keep] = reduction(context, call, call.result().dtype);
  return {reduce(context, "ReduceSum", x, axes, keep)};
}

OnnxValues aten_mean(Context& context, const OpCall& call) {
  const auto [x, axes, keep] = reduction(context, call, call.result().dtype);
  return {reduce(context, "ReduceMean", x, axes, keep)};
}

OnnxValues aten_prod(Context& context, const OpCall& call) {
  const auto [x, axes, keep] = reduction(context, call, call.result().dtype);
  return {reduce(context, "ReduceProd", x, axes, keep)};
}

// int16 has no kernel, bool none before opset 20.
c10::ScalarType ordered(Context& context, c10::ScalarType dtype) {
  if (dtype == c10::kShort) {
    return c10::kInt;
  }
  return dtype == c10::kBool && context.opset() < 20 ? c10::kByte : Context::compute_dtype(dtype);
}

template <OpName kOp>
OnnxValues aten_extremum(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const OnnxValue x = context.cast(call.tensor("self"), ordered(context, meta.dtype));
  return {reduce(context, kOp.str(), x, axes_of(call, "dim", meta.dim()), keeps(call))};
}

// Values and indices along one axis. torch gives the first of equal values on the CPU.
template <OpName kReduce, OpName kArg>
OnnxValues aten_extremum_dim(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const OnnxValue x = context.cast(call.tensor("self"), ordered(context, meta.dtype));
  if (meta.dim() == 0) {
    return {x, context.constant(int64_t{0})};
  }
  const int64_t axis = call.dim("dim", meta.dim());
  const OnnxValue values = reduce(context, kReduce.str(), x, {axis}, keeps(call));
  const OnnxValue number = x.dtype == c10::kBool ? context.cast(x, c10::kByte) : x;
  return {values, context.emit(kArg.str(), {number}, {{"axis", axis}, {"keepdims", keeps(call)}})};
}

template <OpName kArg>
OnnxValues aten_arg_extremum(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  OnnxValue x = context.cast(call.tensor("self"), ordered(context, meta.dtype));
  if (x.dtype == c10::kBool) {
    x = context.cast(x, c10::kByte);
  }
  if (meta.dim() == 0) {
    return {context.full(call.result().sizes, context.constant(int64_t{0}))};
  }
  if (!call.has("dim")) {
    const OnnxValue flat = context.reshape(x, meta.sizes, {meta.numel()});
    const OnnxValue index = context.emit(kArg.str(), {flat}, {{"axis", 0}, {"keepdims", 0}});
    return {context.reshape(index, {}, call.result().sizes)};
  }
  return {context.emit(kArg.str(), {x}, {{"axis", call.dim("dim", meta.dim())}, {"keepdims", keeps(call)}})};
}

OnnxValues aten_aminmax(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const OnnxValue x = context.cast(call.tensor("self"), ordered(context, meta.dtype));
  const std::vector<int64_t> axes = axes_of(call, "dim", meta.dim());
  return {reduce(context, "ReduceMin", x, axes, keeps(call)), reduce(context, "ReduceMax", x, axes, keeps(call))};
}

OnnxValues aten_all(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const OnnxValue truth = context.cast(context.cast(call.tensor("self"), c10::kBool), c10::kByte);
  return {context.cast(reduce(context, "ReduceMin", truth, axes_of(call, "dim", meta.dim()), keeps(call)), c10::kBool)};
}

// A sum, so that nothing to reduce gives false.
OnnxValues aten_any(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const OnnxValue truth = context.cast(context.cast(call.tensor("self"), c10::kBool), c10::kLong);
  return {context.cast(reduce(context, "ReduceSum", truth, axes_of(call, "dim", meta.dim()), keeps(call)), c10::kBool)};
}

OnnxValues aten_logsumexp(Context& context, const OpCall& call) {
  const auto [x, axes, keep] = reduction(context, call, call.result().dtype);
  return {reduce(context, "ReduceLogSumExp", x, axes, keep)};
}

// ── Variance ──

struct Variance {
  OnnxValue variance;
  OnnxValue mean;
};

double correction_of(const OpCall& call) {
  if (call.overload().starts_with("correction")) {
    return call.has("correction") ? call.floating("correction") : 1.0;
  }
  return call.boolean("unbiased") ? 1.0 : 0.0;
}

Variance variance(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const OnnxValue x = context.cast(call.tensor("self"), Context::compute_dtype(call.result().dtype));
  const std::vector<int64_t> axes = axes_of(call, "dim", meta.dim());
  const OnnxValue mean = reduce(context, "ReduceMean", x, axes, true);
  const OnnxValue centred = context.emit("Sub", {x, mean});
  const OnnxValue squares = context.emit("Mul", {centred, centred});
  const OnnxValue sum = reduce(context, "ReduceSum", squares, axes, keeps(call));
  const OnnxValue n = context.cast(context.size_scalar(count(meta, axes)), x.dtype);
  const OnnxValue zero = context.constant(0.0, x.dtype);
  const OnnxValue divisor =
      context.emit("Max", {context.emit("Sub", {n, context.constant(correction_of(call), x.dtype)}), zero});
  const OnnxValue kept_mean = keeps(call) ? mean : context.squeeze(mean, axes);
  return {context.emit("Div", {sum, divisor}), kept_mean};
}

OnnxValues aten_var(Context& context, const OpCall& call) { return {variance(context, call).variance}; }
OnnxValues aten_std(Context& context, const OpCall& call) {
  return {context.emit("Sqrt", {variance(context, call).variance})};
}
OnnxValues aten_var_mean(Context& context, const OpCall& call) {
  const Variance result = variance(context, call);
  return {result.variance, result.mean};
}
OnnxValues aten_std_mean(Context& context, const OpCall& call) {
  const Variance result = variance(context, call);
  return {context.emit("Sqrt", {result.variance}), result.mean};
}

// ── Norms of vectors ──

OnnxValue vector_norm(Context& context, const OnnxValue& x, double order, const std::vector<int64_t>& axes, bool keep) {
  if (order == 2.0) return reduce(context, "ReduceL2", x, axes, keep);
  if (order == 1.0) return reduce(context, "ReduceL1", x, axes, keep);
  const OnnxValue magnitude = context.emit("Abs", {x});
  if (std::isinf(order)) {
    return reduce(context, order > 0 ? "ReduceMax" : "ReduceMin", magnitude, axes, keep);
  }
  if (order == 0.0) {
    const OnnxValue nonzero = context.emit("Not", {context.emit("Equal", {x, context.constant(0.0, x.dtype)})});
    return reduce(context, "ReduceSum", context.cast(nonzero, x.dtype), axes, keep);
  }
  const OnnxValue powers = context.emit("Pow", {magnitude, context.constant(order, x.dtype)});
  const OnnxValue sum = reduce(context, "ReduceSum", powers, axes, keep);
  return context.emit("Pow", {sum, context.constant(1.0 / order, x.dtype)});
}

OnnxValues aten_linalg_vector_norm(Context& context, const OpCall& call) {
  const auto [x, axes, keep] = reduction(context, call, call.result().dtype);
  return {vector_norm(context, x, call.floating("ord"), axes, keep)};
}

OnnxValues aten_norm(Context& context, const OpCall& call) {
  const auto [x, axes, keep] = reduction(context, call, call.result().dtype);
  return {vector_norm(context, x, call.has("p") ? call.floating("p") : 2.0, axes, keep)};
}

// ── Running sums and products ──

OnnxValues aten_cumsum(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = call.result().dtype;
  const bool narrow = is_integer(dtype) && dtype != c10::kLong;
  const OnnxValue x = context.cast(call.tensor("self"), narrow ? c10::kInt : Context::compute_dtype(dtype));
  if (call.meta("self").dim() == 0) {
    return {x};
  }
  return {context.emit("CumSum", {x, context.constant(call.dim("dim", call.meta("self").dim()))})};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.sum", 18, aten_sum, "ReduceSum"},
    {"aten.mean", 18, aten_mean, "ReduceMean"},
    {"aten.prod", 18, aten_prod, "ReduceProd"},
    {"aten.amax", 18, aten_extremum<"ReduceMax">, "ReduceMax"},
    {"aten.amin", 18, aten_extremum<"ReduceMin">, "ReduceMin"},
    {"aten.max.default", 18, aten_extremum<"ReduceMax">, "ReduceMax"},
    {"aten.min.default", 18, aten_extremum<"ReduceMin">, "ReduceMin"},
    {"aten.max.dim", 18, aten_extremum_dim<"ReduceMax", "ArgMax">, "ArgMax ReduceMax"},
    {"aten.min.dim", 18, aten_extremum_dim<"ReduceMin", "ArgMin">, "ArgMin ReduceMin"},
    {"aten.argmax", 18, aten_arg_extremum<"ArgMax">, "ArgMax"},
    {"aten.argmin", 18, aten_arg_extremum<"ArgMin">, "ArgMin Reshape"},
    {"aten.aminmax", 18, aten_aminmax, "ReduceMax ReduceMin"},
    {"aten.all", 18, aten_all, "ReduceMin"},
    {"aten.any", 18, aten_any, "ReduceSum"},
    {"aten.logsumexp", 18, aten_logsumexp, "ReduceLogSumExp"},
    {"aten.var", 18, aten_var, "Div Mul ReduceMean ReduceSum Sub"},
    {"aten.std", 18, aten_std, "Div Mul ReduceMean ReduceSum Sqrt Sub"},
    {"aten.var_mean", 18, aten_var_mean, "Div Mul ReduceMean ReduceSum Squeeze Sub"},
    {"aten.std_mean", 18, aten_std_mean, "Div Mul ReduceMean ReduceSum Sqrt Squeeze Sub"},
    {"aten.linalg_vector_norm", 18, aten_linalg_vector_norm,
     "Abs Equal Not Pow ReduceL1 ReduceL2 ReduceMax ReduceMin ReduceSum"},
    {"aten.norm", 18, aten_norm, "Abs Equal Not Pow ReduceL1 ReduceL2 ReduceMax ReduceMin ReduceSum"},
    {"aten.cumsum", 18, aten_cumsum, "CumSum"},
};

}  // namespace

std::span<const OnnxTranslationEntry> reduce_translations() { return kEntries; }

}  // namespace exporters::onnx
