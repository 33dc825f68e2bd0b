// Views and copies: what core ATen says with view, permute, expand, slice and select.
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/decompositions/support.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/where.h>

#include <numeric>

namespace exporters::decompositions {
namespace {

std::vector<int64_t> identity_order(int64_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

at::Tensor swapped(const at::Tensor& x, int64_t a, int64_t b) {
  std::vector<int64_t> order = identity_order(x.dim());
  if (order.size() < 2) {
    return x;
  }
  std::swap(order[a], order[b]);
  return x.permute(order);
}

Results itself(const DecompositionCall& in) { return {in.tensor("self")}; }
Results copy_of(const DecompositionCall& in) { return {in.tensor("self").clone()}; }

Results t(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {x.dim() < 2 ? x : x.permute({1, 0})};
}

Results transpose(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {swapped(x, in.dim("dim0", x.dim()), in.dim("dim1", x.dim()))};
}

Results view(const DecompositionCall& in) { return {in.tensor("self").view_symint(in.syms("size"))}; }

std::vector<c10::SymInt> sizes_of(const DecompositionCall& in, const at::Tensor& tensor) {
  std::vector<c10::SymInt> sizes;
  for (const Expr& size : meta_of(tensor).sizes) {
    sizes.push_back(to_sym_int(size, in.shared_env()));
  }
  return sizes;
}

// Not is_alias_of, which asks for data.
bool shares_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

// Whether the elements lie so that it is a view, the op's shape function knows.
Results reshape(const DecompositionCall& in) {
  const at::Tensor x = in.arguments()[0].toTensor();
  const at::Tensor shown = in.inferred().at(0).toTensor();
  const bool is_view = shares_storage(shown, x);
  if (is_view && meta_of(shown).sizes == meta_of(x).sizes) {
    return {x};
  }
  const at::Tensor dense = is_view ? x : x.clone(at::MemoryFormat::Contiguous);
  return {dense.view_symint(sizes_of(in, shown))};
}

Results expand(const DecompositionCall& in) {
  const at::Tensor x = in.arguments()[0].toTensor();
  return {x.expand_symint(sizes_of(in, in.inferred().at(0).toTensor()))};
}

Results broadcast_tensors(const DecompositionCall& in) {
  const std::vector<at::Tensor> shown = in.inferred().at(0).toTensorVector();
  std::vector<at::Tensor> results = in.tensors("tensors");
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = results[i].expand_symint(sizes_of(in, shown[i]));
  }
  return {results};
}

// Axes whose size is known to be 1.
Results squeeze(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const TensorMeta meta = meta_of(x);
  std::vector<int64_t> ones;
  for (int64_t axis = 0; axis < meta.dim(); ++axis) {
    if (in.env().evaluate(eq(meta.sizes[axis], 1))) {
      ones.push_back(axis);
    }
  }
  return {ones.empty() ? x : x.squeeze(ones)};
}

Results unbind(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t dim = in.dim("dim", x.dim());
  const int64_t count = in.env().specialize(meta_of(x).sizes[dim]);
  std::vector<at::Tensor> pieces;
  for (int64_t i = 0; i < count; ++i) {
    pieces.push_back(x.select(dim, i));
  }
  return {pieces};
}

// As many pieces as the program takes; only the last may be shorter.
Results split(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t dim = in.dim("dim", x.dim());
  const Expr total = meta_of(x).sizes[dim];
  const Expr length = in.sym_int("split_size");
  if (length == Expr(0)) {
    return {std::vector<at::Tensor>{x}};
  }
  const int64_t count = std::max<int64_t>(in.env().specialize(ceildiv(total, length)), 1);
  std::vector<c10::SymInt> lengths(count, to_sym_int(length, in.shared_env()));
  lengths.back() = to_sym_int(total - length * Expr(count - 1), in.shared_env());
  return {x.split_with_sizes_symint(lengths, dim)};
}

Results split_with_sizes(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  return {x.split_with_sizes_symint(in.syms("split_sizes"), in.dim("dim", x.dim()))};
}

Results diag_embed(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t offset = in.integer("offset");
  const int64_t rank = x.dim() + 1;
  const int64_t dim1 = in.dim("dim1", rank);
  const int64_t dim2 = in.dim("dim2", rank);
  const c10::SymInt length = x.sym_size(-1) + std::abs(offset);
  // A row for each element, in which it stands where row and column agree.
  const at::Tensor rows = arange_like(x, length);
  const at::Tensor columns = rows + offset;
  const at::Tensor at_diagonal = rows.unsqueeze(0) == columns.unsqueeze(1);
  const at::Tensor padded = at::constant_pad_nd(x, {std::max<int64_t>(offset, 0), std::max<int64_t>(-offset, 0)}, 0);
  const at::Tensor matrix = at::where(at_diagonal, padded.unsqueeze(-2), zero_like(x));
  return {matrix.movedim({-2, -1}, {dim1, dim2})};
}

Results pixel_shuffle(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t r = in.integer("upscale_factor");
  const int64_t c = x.dim() - 3;
  std::vector<c10::SymInt> split(x.sym_sizes().begin(), x.sym_sizes().end() - 3);
  std::vector<c10::SymInt> joined = split;
  const c10::SymInt channels = x.sym_size(-3) / (r * r);
  split.insert(split.end(), {channels, r, r, x.sym_size(-2), x.sym_size(-1)});
  joined.insert(joined.end(), {channels, x.sym_size(-2) * r, x.sym_size(-1) * r});
  std::vector<int64_t> order = identity_order(c);
  order.insert(order.end(), {c, c + 3, c + 1, c + 4, c + 2});
  return {x.view_symint(split).permute(order).reshape_symint(joined)};
}

Results pixel_unshuffle(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t r = in.integer("downscale_factor");
  const int64_t c = x.dim() - 3;
  std::vector<c10::SymInt> split(x.sym_sizes().begin(), x.sym_sizes().end() - 3);
  std::vector<c10::SymInt> joined = split;
  split.insert(split.end(), {x.sym_size(-3), x.sym_size(-2) / r, r, x.sym_size(-1) / r, r});
  joined.insert(joined.end(), {x.sym_size(-3) * (r * r), x.sym_size(-2) / r, x.sym_size(-1) / r});
  std::vector<int64_t> order = identity_order(c);
  order.insert(order.end(), {c, c + 2, c + 4, c + 1, c + 3});
  return {x.view_symint(split).permute(order).reshape_symint(joined)};
}

Results channel_shuffle(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const c10::SymInt groups = in.sym("groups");
  std::vector<c10::SymInt> split{x.sym_size(0), groups, x.sym_size(1) / groups};
  split.insert(split.end(), x.sym_sizes().begin() + 2, x.sym_sizes().end());
  return {swapped(x.view_symint(split), 1, 2).reshape_symint(x.sym_sizes())};
}

Results roll(const DecompositionCall& in) {
  at::Tensor x = in.tensor("self");
  const std::vector<c10::SymInt> shifts = in.syms("shifts");
  const std::vector<int64_t> dims = in.integers("dims");
  if (dims.empty()) {
    const at::Tensor flat = x.reshape({-1});
    return {flat.roll_symint(shifts, {0}).view_symint(x.sym_sizes())};
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = wrap_dim(dims[i], x.dim());
    if (in.env().is_true(eq(to_expr(shifts[i]), 0))) {
      continue;
    }
    // What index i held goes to (i + shift) mod length.
    const at::Tensor from = (arange_like(x, x.sym_size(dim)) - shifts[i]).remainder(x.sym_size(dim));
    x = x.index_select(dim, from);
  }
  return {x.is_same(in.tensor("self")) ? x.clone() : x};
}

Results rot90(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const std::vector<int64_t> dims = in.integers("dims");
  const int64_t a = wrap_dim(dims.at(0), x.dim());
  const int64_t b = wrap_dim(dims.at(1), x.dim());
  switch (((in.integer("k") % 4) + 4) % 4) {
    case 1:
      return {swapped(x.flip({b}), a, b)};
    case 2:
      return {x.flip({a, b})};
    case 3:
      return {swapped(x.flip({a}), a, b)};
    default:
      return {x.clone()};
  }
}

// ── Triangles ──

// `distance` of column and row that still belongs to the triangle.
at::Tensor triangle(const at::Tensor& x, const c10::SymInt& diagonal, bool lower) {
  const at::Tensor rows = arange_like(x, x.sym_size(-2)).unsqueeze(-1);
  const at::Tensor distance = arange_like(x, x.sym_size(-1)) - rows;
  return at::where(lower ? distance <= diagonal : distance >= diagonal, x, zero_like(x));
}

Results tril(const DecompositionCall& in) { return {triangle(in.tensor("self"), in.sym("diagonal"), true)}; }
Results triu(const DecompositionCall& in) { return {triangle(in.tensor("self"), in.sym("diagonal"), false)}; }

Results diagonal_scatter(const DecompositionCall& in) {
  const at::Tensor x = in.tensor("self");
  const int64_t dim1 = in.dim("dim1", x.dim());
  const int64_t dim2 = in.dim("dim2", x.dim());
  const int64_t offset = in.integer("offset");
  // With the two axes last, the diagonal lies where column and row differ by the offset.
  const at::Tensor moved = x.movedim({dim1, dim2}, {-2, -1});
  const at::Tensor rows = arange_like(x, moved.sym_size(-2)).unsqueeze(-1);
  const at::Tensor columns = arange_like(x, moved.sym_size(-1));
  const at::Tensor source = in.tensor("src");
  // Element k of the diagonal is at row k (offset ≥ 0) or at column k.
  const at::Tensor position = offset >= 0 ? rows.expand_symint({moved.sym_size(-2), moved.sym_size(-1)})
                                          : columns.expand_symint({moved.sym_size(-2), moved.sym_size(-1)});
  const at::Tensor clamped = position.minimum(scalar_of(x, 0, at::kLong).add(source.sym_size(-1) - 1));
  const at::Tensor spread = source.index_select(-1, clamped.reshape({-1}));
  std::vector<c10::SymInt> sizes(moved.sym_sizes().begin(), moved.sym_sizes().end());
  const at::Tensor result = at::where((columns - rows) == offset, spread.view_symint(sizes), moved);
  return {result.movedim({-2, -1}, {dim1, dim2})};
}

}  // namespace

Table layouts() {
  static constexpr auto kTable = std::to_array<DecompositionEntry>({
      {"aten.alias.default", itself},
      {"aten.detach.default", itself},
      {"aten.lift_fresh.default", itself},
      {"aten.lift.default", itself},
      {"aten.lift_fresh_copy.default", copy_of},
      {"aten.alias_copy.default", copy_of},
      {"aten.detach_copy.default", copy_of},
      {"aten.t.default", t},
      {"aten.transpose.int", transpose},
      {"aten._unsafe_view.default", view},
      {"aten._reshape_alias.default", view},
      {"aten.reshape.default", reshape},
      {"aten.reshape_as.default", reshape},
      {"aten.view_as.default", reshape},
      {"aten.flatten.using_ints", reshape},
      {"aten.unflatten.int", reshape},
      {"aten.ravel.default", reshape},
      {"aten.expand_as.default", expand},
      {"aten.broadcast_to.default", expand},
      {"aten.broadcast_tensors.default", broadcast_tensors},
      {"aten.squeeze.default", squeeze},
      {"aten.unbind.int", unbind},
      {"aten.split.Tensor", split},
      {"aten.unsafe_split.Tensor", split},
      {"aten.unsafe_split_with_sizes.default", split_with_sizes},
      {"aten.diag_embed.default", diag_embed},
      {"aten.pixel_shuffle.default", pixel_shuffle},
      {"aten.pixel_unshuffle.default", pixel_unshuffle},
      {"aten.channel_shuffle.default", channel_shuffle},
      {"aten.native_channel_shuffle.default", channel_shuffle},
      {"aten.roll.default", roll},
      {"aten.rot90.default", rot90},
      {"aten.tril.default", tril},
      {"aten.triu.default", triu},
      {"aten.diagonal_scatter.default", diagonal_scatter},
  });
  return kTable;
}

}  // namespace exporters::decompositions
