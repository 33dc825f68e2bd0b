// Products of matrices, attention and convolution.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace exporters::decompositions {
namespace {

using SymInts = std::vector<c10::SymInt>;

SymInts leading(const at::Tensor& x, int64_t dropped) {
  return SymInts(x.sym_sizes().begin(), x.sym_sizes().end() - dropped);
}

SymInts with(SymInts sizes, std::initializer_list<c10::SymInt> more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}

// All axes but the last one as one.
at::Tensor rows_of(const at::Tensor& x) {
  c10::SymInt rows = 1;
  for (const c10::SymInt& size : leading(x, 1)) {
    rows = rows * size;
  }
  return x.dim() == 2 ? x : x.reshape_symint({rows, x.sym_size(-1)});
}

Results linear(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("input");
  const at::Tensor weight = in.tensor("weight");
  const auto bias = in.optional_tensor("bias");
  if (weight.dim() == 1) {
    const at::Tensor product = x.matmul(weight);
    return {bias ? product + *bias : product};
  }
  const at::Tensor columns = weight.permute({1, 0});
  const at::Tensor rows = x.dim() == 1 ? x.unsqueeze(0) : rows_of(x);
  const at::Tensor product = bias ? at::addmm(*bias, rows, columns) : at::mm(rows, columns);
  return {x.dim() == 2 ? product : product.view_symint(with(leading(x, 1), {weight.sym_size(0)}))};
}

at::Tensor as_batch(const at::Tensor& x, const SymInts& batch) {
  c10::SymInt count = 1;
  for (const c10::SymInt& size : batch) {
    count = count * size;
  }
  const at::Tensor expanded = x.expand_symint(with(batch, {x.sym_size(-2), x.sym_size(-1)}));
  return batch.size() == 1 ? expanded : expanded.reshape_symint({count, x.sym_size(-2), x.sym_size(-1)});
}

at::Tensor product_of_matrices(const DecompositionCall& in, const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() == 2 && b.dim() == 2) {
    return at::mm(a, b);
  }
  // One matrix for the whole batch: one product.
  if (b.dim() == 2) {
    return at::mm(rows_of(a), b).view_symint(with(leading(a, 1), {b.sym_size(1)}));
  }
  TensorMeta a_batch = meta_of(a);
  TensorMeta b_batch = meta_of(b);
  for (TensorMeta* meta : {&a_batch, &b_batch}) {
    meta->sizes.resize(meta->sizes.size() - 2);
  }
  SymInts batch;
  for (const Expr& size : broadcast_sizes(in.env(), {a_batch, b_batch})) {
    batch.push_back(to_sym_int(size, in.shared_env()));
  }
  const at::Tensor product = at::bmm(as_batch(a, batch), as_batch(b, batch));
  return batch.size() == 1 ? product : product.view_symint(with(batch, {a.sym_size(-2), b.sym_size(-1)}));
}

Results matmul(const DecompositionCall& in) {
  const at::Tensor a = in.tensor("self");
  const at::Tensor b = in.tensor("other");
  if (a.dim() == 1 && b.dim() == 1) {
    return {(a * b).sum()};
  }
  const at::Tensor left = a.dim() == 1 ? a.unsqueeze(0) : a;
  const at::Tensor right = b.dim() == 1 ? b.unsqueeze(1) : b;
  at::Tensor product = product_of_matrices(in, left, right);
  product = a.dim() == 1 ? product.squeeze(-2) : product;
  return {b.dim() == 1 ? product.squeeze(-1) : product};
}

// beta * self + alpha * product; a beta of 0 takes no part, not even when self is NaN.
at::Tensor added(const DecompositionCall& in, const at::Tensor& product) {
  const at::Scalar beta = in.scalar("beta");
  const at::Scalar alpha = in.scalar("alpha");
  const at::Tensor scaled = is_one(alpha) ? product : product * alpha;
  if (is_zero(beta)) {
    return scaled;
  }
  const at::Tensor self = in.tensor("self");
  return is_one(beta) ? self + scaled : self * beta + scaled;
}

Results baddbmm(const DecompositionCall& in) { return {added(in, at::bmm(in.tensor("batch1"), in.tensor("batch2")))}; }

Results addbmm(const DecompositionCall& in) {
  return {added(in, at::bmm(in.tensor("batch1"), in.tensor("batch2")).sum(at::IntArrayRef{0}, false, c10::nullopt))};
}

Results mv(const DecompositionCall& in) {
  return {at::mm(in.tensor("self"), in.tensor("vec").unsqueeze(1)).squeeze(1)};
}

Results addmv(const DecompositionCall& in) {
  return {added(in, at::mm(in.tensor("mat"), in.tensor("vec").unsqueeze(1)).squeeze(1))};
}

Results addr(const DecompositionCall& in) { return {added(in, in.tensor("vec1").unsqueeze(1) * in.tensor("vec2"))}; }

Results dot(const DecompositionCall& in) {
  return {(in.tensor("self") * in.tensor("tensor")).sum(at::IntArrayRef{0}, false, c10::nullopt)};
}

Results vdot(const DecompositionCall& in) {
  if (in.tensor("self").is_complex()) {
    in.refuse("products of complex numbers have no core form", "Keep the op whole: DecompositionTable::keep.");
  }
  return {(in.tensor("self") * in.tensor("other")).sum(at::IntArrayRef{0}, false, c10::nullopt)};
}

// A tensor as a matrix: the axes of `rows` as one, those of `columns` as the other.
at::Tensor as_matrix(const at::Tensor& x, const std::vector<int64_t>& rows, const std::vector<int64_t>& columns) {
  std::vector<int64_t> order = rows;
  order.insert(order.end(), columns.begin(), columns.end());
  const auto product = [&](const std::vector<int64_t>& axes) {
    c10::SymInt size = 1;
    for (const int64_t axis : axes) {
      size = size * x.sym_size(axis);
    }
    return size;
  };
  return x.permute(order).reshape_symint({product(rows), product(columns)});
}

std::vector<int64_t> other_axes(const at::Tensor& x, const std::vector<int64_t>& axes) {
  std::vector<int64_t> others;
  for (int64_t axis = 0; axis < x.dim(); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      others.push_back(axis);
    }
  }
  return others;
}

Results tensordot(const DecompositionCall& in) {
  at::Tensor a = in.tensor("self");
  at::Tensor b = in.tensor("other");
  std::vector<int64_t> dims_a;
  std::vector<int64_t> dims_b;
  for (const int64_t dim : in.integers("dims_self")) {
    dims_a.push_back(wrap_dim(dim, a.dim()));
  }
  for (const int64_t dim : in.integers("dims_other")) {
    dims_b.push_back(wrap_dim(dim, b.dim()));
  }
  // An axis of length 1 goes with each element of a longer one.
  for (size_t i = 0; i < dims_a.size(); ++i) {
    const Expr size_a = meta_of(a).sizes[dims_a[i]];
    const Expr size_b = meta_of(b).sizes[dims_b.at(i)];
    if (size_a == Expr(1) && !(size_b == Expr(1))) {
      b = b.sum(dims_b[i], true);
    } else if (size_b == Expr(1) && !(size_a == Expr(1))) {
      a = a.sum(dims_a[i], true);
    }
  }
  const std::vector<int64_t> rows = other_axes(a, dims_a);
  const std::vector<int64_t> columns = other_axes(b, dims_b);
  SymInts sizes;
  for (const int64_t axis : rows) {
    sizes.push_back(a.sym_size(axis));
  }
  for (const int64_t axis : columns) {
    sizes.push_back(b.sym_size(axis));
  }
  return {at::mm(as_matrix(a, rows, dims_a), as_matrix(b, dims_b, columns)).view_symint(sizes)};
}

// Each element of the first against the whole second, axis by axis.
Results kron(const DecompositionCall& in) {
  at::Tensor a = in.tensor("self");
  at::Tensor b = in.tensor("other");
  while (a.dim() < b.dim()) {
    a = a.unsqueeze(0);
  }
  while (b.dim() < a.dim()) {
    b = b.unsqueeze(0);
  }
  SymInts sizes;
  const int64_t rank = a.dim();
  for (int64_t axis = 0; axis < rank; ++axis) {
    sizes.push_back(a.sym_size(2 * axis) * b.sym_size(2 * axis));
    a = a.unsqueeze(2 * axis + 1);
    b = b.unsqueeze(2 * axis);
  }
  return {(a * b).reshape_symint(sizes)};
}

Results linalg_cross(const DecompositionCall& in) {
  const at::Tensor a = in.tensor("self");
  const at::Tensor b = in.tensor("other");
  const int64_t dim = in.dim("dim", std::max(a.dim(), b.dim()));
  const auto rolled = [&](const at::Tensor& x, int64_t first) {
    const at::Tensor order = (arange_like(x, 3) + first).remainder(3);
    return x.index_select(dim, order);
  };
  return {rolled(a, 1) * rolled(b, 2) - rolled(a, 2) * rolled(b, 1)};
}

// ── Attention ──

// Each head of keys and values serves as many heads of queries, one after the other.
at::Tensor shared_heads(const at::Tensor& x, const at::Tensor& query) {
  const c10::SymInt groups = query.sym_size(-3) / x.sym_size(-3);
  SymInts grouped = with(leading(x, 2), {groups, x.sym_size(-2), x.sym_size(-1)});
  const at::Tensor repeated = x.unsqueeze(-3).expand_symint(grouped);
  return repeated.reshape_symint(with(leading(x, 3), {query.sym_size(-3), x.sym_size(-2), x.sym_size(-1)}));
}

at::Tensor causal_mask(const at::Tensor& query, const at::Tensor& key) {
  const at::Tensor rows = arange_like(query, query.sym_size(-2)).unsqueeze(-1);
  return arange_like(query, key.sym_size(-2)) <= rows;
}

// By default over the root of the head's size, which may depend on the input.
at::Tensor scaled_query(const DecompositionCall& in, const at::Tensor& query) {
  if (in.has("scale")) {
    return query * in.floating("scale");
  }
  const Expr head = meta_of(query).sizes.back();
  if (const auto size = head.as_int()) {
    return query * (1.0 / std::sqrt(static_cast<double>(*size)));
  }
  return query * scalar_like(query, to_sym_int(head, in.shared_env())).rsqrt();
}

Results attention(const DecompositionCall& in) {
  const at::Tensor query = in.tensor("query");
  at::Tensor key = in.tensor("key");
  at::Tensor value = in.tensor("value");
  if (in.floating("dropout_p") > 0) {
    in.refuse("attention with dropout has no core form", "Export the model in evaluation mode.");
  }
  if (in.boolean("enable_gqa")) {
    key = shared_heads(key, query);
    value = shared_heads(value, query);
  }
  const c10::ScalarType dtype = query.scalar_type();
  const c10::ScalarType computed = opmath_dtype(dtype);
  at::Tensor scores = scaled_query(in, cast(query, computed)).matmul(cast(key, computed).transpose(-2, -1));
  std::optional<at::Tensor> mask = in.optional_tensor("attn_mask");
  if (in.boolean("is_causal")) {
    mask = causal_mask(query, key);
  }
  const double lowest = -std::numeric_limits<double>::infinity();
  if (mask && mask->scalar_type() == at::kBool) {
    scores = at::where(*mask, scores, scalar_like(scores, lowest));
  } else if (mask) {
    scores = scores + *mask;
  }
  at::Tensor weights = scores.softmax(-1, c10::nullopt);
  if (mask) {
    // A query that may look at nothing gets zeros.
    const at::Tensor blind = (scores == lowest).logical_not().any(-1, true).logical_not();
    weights = at::where(blind, zero_like(weights), weights);
  }
  return {cast(weights.matmul(cast(value, computed)), dtype)};
}

// ── Convolution ──

Results convolution(const DecompositionCall& in) {
  return {at::convolution_symint(in.tensor("input"), in.tensor("weight"), in.optional_tensor("bias"), in.syms("stride"),
                                 in.syms("padding"), in.syms("dilation"), in.boolean("transposed"),
                                 in.syms("output_padding"), in.sym("groups"))};
}

}  // namespace

Table products() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.linear.default", linear},
      {"aten.matmul.default", matmul},
      {"aten.baddbmm.default", baddbmm},
      {"aten.addbmm.default", addbmm},
      {"aten.mv.default", mv},
      {"aten.addmv.default", addmv},
      {"aten.addr.default", addr},
      {"aten.dot.default", dot},
      {"aten.vdot.default", vdot},
      {"aten.tensordot.default", tensordot},
      {"aten.kron.default", kron},
      {"aten.linalg_cross.default", linalg_cross},
      {"aten.scaled_dot_product_attention.default", attention},
      {"aten._convolution.default", convolution},
  });
  return kTable;
}

}  // namespace exporters::decompositions
