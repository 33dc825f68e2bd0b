#include "exporters/executorch/edge/decompositions.h"

#include "exporters/passes/decompositions/support.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

namespace exporters::executorch {
namespace {

using decompositions::arange_like;
using decompositions::cast;
using decompositions::in_opmath;
using decompositions::opmath_dtype;
using decompositions::scalar_like;
using decompositions::scalar_of;
using decompositions::zero_like;

// ── Attention ──
//
// Note [Rows that see nothing]
// A query whose mask hides every key has zeros for a result. ATen finds such rows by their scores, which are all minus
// infinity; done so after each product of scores that costs four passes over the largest tensor of the model, with ops
// that no delegate runs. Here the mask is looked at instead, once for all layers that share it, since equal calls are
// merged: a hidden key's score gets half the lowest number, from which exp makes 0 and whose sum with a score stays
// finite also in half precision; and what comes out is multiplied by 0 for rows that see nothing.

struct MaskTerms {
  at::Tensor bias;     // what scores get added
  at::Tensor visible;  // [..., queries, 1]: 1 for a row that sees a key, else 0; undefined where every row does
};

double hidden_score(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return -32752.0;
    case at::kDouble:
      return std::numeric_limits<double>::lowest() / 2;
    default:
      return std::numeric_limits<float>::lowest() / 2;  // of bfloat16, too
  }
}

at::Tensor visible_rows(const at::Tensor& mask, c10::ScalarType dtype) { return cast(mask.any(-1, true), dtype); }

MaskTerms terms_of(const at::Tensor& mask, const at::Tensor& like) {
  const c10::ScalarType dtype = like.scalar_type();
  const at::Tensor hidden = scalar_like(like, hidden_score(dtype));
  if (mask.scalar_type() == at::kBool) {
    return {at::where(mask, zero_like(like), hidden), visible_rows(mask, dtype)};
  }
  const double nothing = -std::numeric_limits<double>::infinity();
  return {at::maximum(cast(mask, dtype), hidden), visible_rows(at::ne(mask, nothing), dtype)};
}

// Row i sees the keys up to i, so every row sees the first.
MaskTerms causal_terms(const at::Tensor& query, const at::Tensor& key) {
  const at::Tensor rows = arange_like(query, query.sym_size(-2)).unsqueeze(-1);
  const at::Tensor seen = arange_like(query, key.sym_size(-2)) <= rows;
  return {at::where(seen, zero_like(query), scalar_like(query, hidden_score(query.scalar_type()))), {}};
}

at::Tensor scaled(const DecompositionCall& in, const at::Tensor& query) {
  if (in.has("scale")) {
    const double scale = in.floating("scale");
    return scale == 1.0 ? query : query * scale;
  }
  const Expr head = meta_of(query).sizes.back();
  if (const auto size = head.as_int()) {
    return query * (1.0 / std::sqrt(static_cast<double>(*size)));
  }
  return query * scalar_like(query, to_sym_int(head, in.shared_env())).rsqrt();
}

// [..., heads, length, d] → [..., heads / group, group, length, d]
at::Tensor grouped(const at::Tensor& x, const c10::SymInt& group) {
  std::vector<c10::SymInt> sizes(x.sym_sizes().begin(), x.sym_sizes().end() - 3);
  sizes.insert(sizes.end(), {x.sym_size(-3) / group, group, x.sym_size(-2), x.sym_size(-1)});
  return x.reshape_symint(sizes);
}

// The axis of groups among those of a mask that has heads.
at::Tensor grouped_mask(const at::Tensor& mask, const at::Tensor& query, const c10::SymInt& group) {
  if (!mask.defined() || mask.dim() < 3) {
    return mask;
  }
  const bool has_heads = meta_of(mask).sizes[mask.dim() - 3] == meta_of(query).sizes[query.dim() - 3];
  return has_heads ? grouped(mask, group) : mask.unsqueeze(-3);
}

Results attention(const DecompositionCall& in) {
  if (in.floating("dropout_p") > 0) {
    in.refuse("attention with dropout has no kernel", "Export the model in evaluation mode.");
  }
  const c10::ScalarType dtype = in.tensor("query").scalar_type();
  const c10::ScalarType computed = opmath_dtype(dtype);
  at::Tensor query = cast(in.tensor("query"), computed);
  at::Tensor key = cast(in.tensor("key"), computed);
  at::Tensor value = cast(in.tensor("value"), computed);
  const std::vector<c10::SymInt> out_sizes = [&] {
    std::vector<c10::SymInt> sizes(query.sym_sizes().begin(), query.sym_sizes().end() - 1);
    sizes.push_back(value.sym_size(-1));
    return sizes;
  }();
  MaskTerms mask;
  if (in.boolean("is_causal")) {
    mask = causal_terms(query, key);
  } else if (const auto given = in.optional_tensor("attn_mask")) {
    mask = terms_of(*given, query);
  }
  query = scaled(in, query);
  const bool is_grouped =
      in.boolean("enable_gqa") && !(meta_of(query).sizes[query.dim() - 3] == meta_of(key).sizes[key.dim() - 3]);
  if (is_grouped) {
    const c10::SymInt group = query.sym_size(-3) / key.sym_size(-3);
    mask = {grouped_mask(mask.bias, query, group), grouped_mask(mask.visible, query, group)};
    query = grouped(query, group);
    key = key.unsqueeze(-3);
    value = value.unsqueeze(-3);
  }
  at::Tensor scores = query.matmul(key.transpose(-2, -1));
  if (mask.bias.defined()) {
    scores = scores + mask.bias;
  }
  at::Tensor result = scores.softmax(-1, c10::nullopt).matmul(value);
  if (mask.visible.defined()) {
    result = result * mask.visible;
  }
  return {cast(is_grouped ? result.reshape_symint(out_sizes) : result, dtype)};
}

// ── Repetitions ──

Results repeat_interleave(const DecompositionCall& in) {
  const bool is_flat = !in.has("dim");
  const at::Tensor x = is_flat ? in.tensor("self").reshape({-1}) : in.tensor("self");
  const int64_t dim = is_flat ? 0 : in.dim("dim", x.dim());
  const c10::SymInt repeats = in.sym("repeats");
  std::vector<c10::SymInt> wide(x.sym_sizes().begin(), x.sym_sizes().end());
  std::vector<c10::SymInt> joined = wide;
  wide.insert(wide.begin() + dim + 1, repeats);
  joined[static_cast<size_t>(dim)] = joined[static_cast<size_t>(dim)] * repeats;
  return {x.unsqueeze(dim + 1).expand_symint(wide).reshape_symint(joined)};
}

// ── Bicubic interpolation ──

// Of the cubic convolution that ATen's kernels compute.
constexpr double kCubic = -0.75;

// The weight of a sample at a distance up to 1, and of one from 1 to 2 (Keys 1981).
at::Tensor near_weight(const at::Tensor& x) { return (x * (kCubic + 2) - (kCubic + 3)) * x * x + 1; }
at::Tensor far_weight(const at::Tensor& x) { return ((x - 5) * x + 8) * x * kCubic - 4 * kCubic; }

// Where each of the `size` results lies among the samples of an axis of this length. A factor that the caller gives
// counts, even if the sizes say another one.
at::Tensor source_positions(const at::Tensor& like, const c10::SymInt& length, const c10::SymInt& size,
                            bool align_corners, std::optional<double> factor) {
  const at::Tensor places = cast(arange_like(like, size), like.scalar_type());
  if (align_corners) {
    const at::Tensor gaps = at::clamp_min(scalar_like(like, size - 1), 1);
    return places * (scalar_like(like, length - 1) / gaps);
  }
  const at::Tensor step = factor ? scalar_like(like, 1 / *factor) : scalar_like(like, length) / scalar_like(like, size);
  return (places + 0.5) * step - 0.5;
}

// Each of the `size` results along an axis is a weighted sum of four samples, those at the borders repeated.
at::Tensor interpolate_axis(const at::Tensor& x, int64_t axis, const c10::SymInt& size, bool align_corners,
                            std::optional<double> factor) {
  const at::Tensor source = source_positions(x, x.sym_size(axis), size, align_corners, factor);
  const at::Tensor last = scalar_of(x, x.sym_size(axis) - 1, at::kLong);
  const at::Tensor before = at::minimum(cast(source.floor(), at::kLong), last);
  const at::Tensor part = at::clamp(source - before, 0, 1);
  const at::Tensor rest = scalar_like(part, 1) - part;
  const at::Tensor weights[] = {far_weight(part + 1), near_weight(part), near_weight(rest), far_weight(rest + 1)};
  at::Tensor result;
  for (int64_t tap = 0; tap < 4; ++tap) {
    const at::Tensor index = at::minimum(at::clamp_min(before + (tap - 1), 0), last);
    const at::Tensor weight = axis == -1 ? weights[tap] : weights[tap].unsqueeze(-1);
    const at::Tensor term = at::index_select(x, axis, index) * weight;
    result = result.defined() ? result + term : term;
  }
  return result;
}

Results upsample_bicubic2d(const DecompositionCall& in, const at::Tensor& x, std::optional<double> factor_of_height,
                           std::optional<double> factor_of_width) {
  if (!c10::isFloatingType(x.scalar_type())) {
    in.refuse("bicubic interpolation of integers has no kernel", "Convert the tensor to float32 first.");
  }
  const at::Tensor like = in.inferred().at(0).toTensor();
  const bool align = in.boolean("align_corners");
  return in_opmath(x, [&](const at::Tensor& each) {
    const at::Tensor wide = interpolate_axis(each, -1, like.sym_size(-1), align, factor_of_width);
    return interpolate_axis(wide, -2, like.sym_size(-2), align, factor_of_height);
  });
}

Results upsample_bicubic2d_default(const DecompositionCall& in) {
  const auto factor = [&](const char* name) { return in.has(name) ? std::optional(in.floating(name)) : std::nullopt; };
  return upsample_bicubic2d(in, in.tensor("self"), factor("scales_h"), factor("scales_w"));
}

Results upsample_bicubic2d_vec(const DecompositionCall& in) {
  if (!in.has("scale_factors")) {
    return upsample_bicubic2d(in, in.tensor("input"), std::nullopt, std::nullopt);
  }
  const std::vector<double> factors = in.value("scale_factors").toDoubleVector();
  return upsample_bicubic2d(in, in.tensor("input"), factors.at(0), factors.at(1));
}

// ── Weight norm ──

// v scaled so that each of its parts along `dim` has the length g; all of it together for -1.
Results weight_norm(const DecompositionCall& in) {
  const at::Tensor v = in.tensor("v");
  const int64_t dim = in.integer("dim");
  std::vector<int64_t> others;
  for (int64_t axis = 0; axis < v.dim(); ++axis) {
    if (dim == -1 || axis != dim) {
      others.push_back(axis);
    }
  }
  return {v * (in.tensor("g") / (v * v).sum(others, true, c10::nullopt).sqrt())};
}

}  // namespace

DecompositionTable edge_decompositions() {
  DecompositionTable table = core_aten_decompositions();
  table.keep("aten.linear.default");
  table.add("aten._weight_norm.default", weight_norm);
  table.add("aten.repeat_interleave.self_int", repeat_interleave);
  table.add("aten.scaled_dot_product_attention.default", attention);
  table.add("aten.upsample_bicubic2d.default", upsample_bicubic2d_default);
  table.add("aten.upsample_bicubic2d.vec", upsample_bicubic2d_vec);
  return table;
}

}  // namespace exporters::executorch
