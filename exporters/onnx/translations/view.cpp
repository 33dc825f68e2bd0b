// Views: reshapes, permutations, expansion, slices; and what copies without change.
#include "exporters/onnx/translations/table.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

// Every op whose result has the operand's elements in order: the traced sizes say all.
OnnxValues aten_reshape(Context& context, const OpCall& call) {
  return {context.reshape(call.tensor("self"), call.meta("self").sizes, call.result().sizes)};
}

OnnxValues aten_view_dtype(Context&, const OpCall& call) {
  if (call.meta("self").dtype != call.result().dtype) {
    call.refuse("a view as another dtype has no ONNX counterpart",
                "Convert the values with to(dtype) if that is meant.");
  }
  return {call.tensor("self")};
}

OnnxValues aten_identity(Context&, const OpCall& call) { return {call.tensor("self")}; }

// The converter casts to the output's dtype.
OnnxValues aten_to(Context& context, const OpCall& call) {
  const c10::ScalarType from = call.meta("self").dtype;
  const c10::ScalarType to = call.result().dtype;
  if (c10::isComplexType(from) != c10::isComplexType(to)) {
    call.refuse("conversions from and to complex numbers have no ONNX operators");
  }
  return {context.cast(call.tensor("self"), to)};
}

OnnxValues aten_type_as(Context& context, const OpCall& call) {
  return {context.cast(call.tensor("self"), call.result().dtype)};
}

// self.copy(src): src's values in self's shape and dtype.
OnnxValues aten_copy(Context& context, const OpCall& call) {
  const OnnxValue source = context.cast(call.tensor("src"), call.result().dtype);
  return {context.expand(source, call.meta("src").sizes, call.result().sizes)};
}

// ── Permutations ──

OnnxValue permute(Context& context, const OpCall& call, const std::vector<int64_t>& perm) {
  return context.transpose(call.tensor("self"), perm);
}

std::vector<int64_t> identity_perm(int64_t rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

OnnxValues aten_permute(Context& context, const OpCall& call) {
  return {permute(context, call, call.dims("dims", call.meta("self").dim()))};
}

OnnxValues swap(Context& context, const OpCall& call, const char* first, const char* second) {
  const int64_t rank = call.meta("self").dim();
  std::vector<int64_t> perm = identity_perm(rank);
  if (rank > 0) {
    std::swap(perm[static_cast<size_t>(call.dim(first, rank))], perm[static_cast<size_t>(call.dim(second, rank))]);
  }
  return {permute(context, call, perm)};
}

OnnxValues aten_transpose(Context& context, const OpCall& call) { return swap(context, call, "dim0", "dim1"); }
OnnxValues aten_swapaxes(Context& context, const OpCall& call) { return swap(context, call, "axis0", "axis1"); }

OnnxValues aten_t(Context& context, const OpCall& call) {
  std::vector<int64_t> perm = identity_perm(call.meta("self").dim());
  std::reverse(perm.begin(), perm.end());
  return {permute(context, call, perm)};
}

OnnxValues aten_mT(Context& context, const OpCall& call) {
  std::vector<int64_t> perm = identity_perm(call.meta("self").dim());
  std::swap(perm.at(perm.size() - 1), perm.at(perm.size() - 2));
  return {permute(context, call, perm)};
}

OnnxValues aten_movedim(Context& context, const OpCall& call) {
  const int64_t rank = call.meta("self").dim();
  const std::vector<int64_t> source = call.dims("source", rank);
  const std::vector<int64_t> destination = call.dims("destination", rank);
  std::vector<int64_t> perm(static_cast<size_t>(rank), -1);
  std::vector<bool> taken(static_cast<size_t>(rank), false);
  for (size_t i = 0; i < source.size(); ++i) {
    perm[static_cast<size_t>(destination[i])] = source[i];
    taken[static_cast<size_t>(source[i])] = true;
  }
  int64_t next = 0;
  for (int64_t& axis : perm) {
    if (axis < 0) {
      while (taken[static_cast<size_t>(next)]) {
        ++next;
      }
      axis = next++;
    }
  }
  return {permute(context, call, perm)};
}

// ── Expansion ──

OnnxValues aten_expand(Context& context, const OpCall& call) {
  return {context.expand(call.tensor("self"), call.meta("self").sizes, call.result().sizes)};
}

// Every tensor of the list in the sizes that the trace found.
OnnxValues aten_broadcast_tensors(Context& context, const OpCall& call) {
  const OnnxValues tensors = call.tensors("tensors");
  const auto metas = call.metas("tensors");
  OnnxValues results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    results.push_back(context.expand(tensors[i], metas[i]->sizes, call.output().elements().at(i)->meta().sizes));
  }
  return results;
}

// Grid i varies along axis i ("xy": the first two swapped).
OnnxValues aten_meshgrid(Context& context, const OpCall& call) {
  const OnnxValues tensors = call.tensors("tensors");
  const auto metas = call.metas("tensors");
  const bool swapped = call.has("indexing") && call.string("indexing") == "xy" && tensors.size() > 1;
  OnnxValues results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t axis = swapped && i < 2 ? 1 - i : i;
    Sizes column(tensors.size(), Expr(1));
    column[axis] = metas[i]->numel();
    const OnnxValue grid = context.reshape(tensors[i], metas[i]->sizes, column);
    results.push_back(context.expand(grid, column, call.output().elements().at(i)->meta().sizes));
  }
  return results;
}

OnnxValues aten_repeat(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const Sizes repeats = call.exprs("repeats");
  Sizes padded(repeats.size() - meta.sizes.size(), Expr(1));
  padded.insert(padded.end(), meta.sizes.begin(), meta.sizes.end());
  const OnnxValue x = context.reshape(call.tensor("self"), meta.sizes, padded);
  const bool widen = x.dtype == c10::kBFloat16;
  return {context.emit("Tile", {widen ? context.cast(x, c10::kFloat) : x, context.sizes(repeats)})};
}

// ── Slices ──

// ONNX's Slice clamps as torch does; its end may lie past the axis.
OnnxValues aten_slice(Context& context, const OpCall& call) {
  const int64_t axis = call.dim("dim", call.meta("self").dim());
  const OnnxValue start =
      call.has("start") ? context.size(call.expr("start")) : context.constant(std::vector<int64_t>{0});
  const OnnxValue end =
      call.has("end") ? context.size(call.expr("end")) : context.constant(std::vector<int64_t>{kToTheEnd});
  const Expr whole = call.meta("self").sizes.at(static_cast<size_t>(axis));
  if (call.result().sizes.at(static_cast<size_t>(axis)) == whole && call.integer("step") == 1) {
    return {call.tensor("self")};
  }
  return {context.slice(call.tensor("self"), axis, start, end, call.integer("step"))};
}

OnnxValue narrow(Context& context, const OnnxValue& x, int64_t axis, const Expr& start, const Expr& length) {
  return context.slice(x, axis, context.size(start), context.size(start + length));
}

OnnxValues aten_narrow(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const int64_t axis = call.dim("dim", meta.dim());
  Expr start = call.expr("start");
  if (!context.at_least(start, 0)) {
    start = start + meta.sizes.at(static_cast<size_t>(axis));
  }
  return {narrow(context, call.tensor("self"), axis, start, call.expr("length"))};
}

// A negative index counts from the end, in Gather too.
OnnxValues aten_select(Context& context, const OpCall& call) {
  const int64_t axis = call.dim("dim", call.meta("self").dim());
  return {context.emit("Gather", {call.tensor("self"), context.size_scalar(call.expr("index"))}, {{"axis", axis}})};
}

// ── Splits: a slice for each part, whose sizes the trace knows ──

OnnxValues aten_split(Context& context, const OpCall& call) {
  const int64_t axis = call.dim("dim", call.meta("self").dim());
  OnnxValues parts;
  Expr start = 0;
  for (const Value* part : call.output().elements()) {
    const Expr length = part->meta().sizes.at(static_cast<size_t>(axis));
    parts.push_back(narrow(context, call.tensor("self"), axis, start, length));
    start = start + length;
  }
  return parts;
}

OnnxValues aten_unbind(Context& context, const OpCall& call) {
  const int64_t axis = call.dim("dim", call.meta("self").dim());
  OnnxValues parts;
  for (size_t i = 0; i < call.output().elements().size(); ++i) {
    const OnnxValue index = context.constant(static_cast<int64_t>(i));
    parts.push_back(context.emit("Gather", {call.tensor("self"), index}, {{"axis", axis}}));
  }
  return parts;
}

// ── Order ──

OnnxValues aten_flip(Context& context, const OpCall& call) {
  const std::vector<int64_t> axes = call.dims("dims", call.meta("self").dim());
  if (axes.empty()) {
    return {call.tensor("self")};
  }
  const std::vector<int64_t> ones(axes.size(), -1);
  const std::vector<int64_t> ends(axes.size(), std::numeric_limits<int64_t>::min());
  return {context.emit("Slice", {call.tensor("self"), context.constant(ones), context.constant(ends),
                                 context.constant(axes), context.constant(ones)})};
}

// Windows of `size` every `step`, moved to a last axis: Gather at start + offset.
OnnxValues aten_unfold(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const int64_t rank = meta.dim();
  const int64_t axis = call.dim("dimension", rank);
  const Expr count = call.result().sizes.at(static_cast<size_t>(axis));
  const OnnxValue starts = context.emit("Mul", {context.iota(count), context.constant(call.integer("step"))});
  const OnnxValue offsets = context.iota(call.integer("size"));
  const OnnxValue indices = context.emit("Add", {context.unsqueeze(starts, {1}), context.unsqueeze(offsets, {0})});
  const OnnxValue windows = context.emit("Gather", {call.tensor("self"), indices}, {{"axis", axis}});
  std::vector<int64_t> perm = identity_perm(rank + 1);  // the offsets stand after `axis`: to the end
  perm.erase(perm.begin() + axis + 1);
  perm.push_back(axis + 1);
  return {context.transpose(windows, perm)};
}

OnnxValues aten_diagonal(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const int64_t rank = meta.dim();
  const int64_t rows = call.dim("dim1", rank);
  const int64_t columns = call.dim("dim2", rank);
  const int64_t offset = call.integer("offset");
  std::vector<int64_t> perm;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (axis != rows && axis != columns) {
      perm.push_back(axis);
    }
  }
  perm.push_back(rows);
  perm.push_back(columns);
  const OnnxValue matrix = context.transpose(call.tensor("self"), perm);
  const OnnxValue steps = context.iota(call.result().sizes.back());
  const OnnxValue row = context.emit("Add", {steps, context.constant(std::max<int64_t>(-offset, 0))});
  const OnnxValue column = context.emit("Add", {steps, context.constant(std::max<int64_t>(offset, 0))});
  const Expr width = meta.sizes.at(static_cast<size_t>(columns));
  const OnnxValue flat_index = context.emit("Add", {context.emit("Mul", {row, context.size_scalar(width)}), column});
  Sizes from;
  for (int64_t axis : perm) {
    from.push_back(meta.sizes.at(static_cast<size_t>(axis)));
  }
  Sizes to(from.begin(), from.end() - 2);
  to.push_back(from[from.size() - 2] * from.back());
  const OnnxValue flat = context.reshape(matrix, from, to);
  return {context.emit("Gather", {flat, flat_index}, {{"axis", rank - 2}})};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.view.default", 18, aten_reshape, "Reshape"},
    {"aten.view.dtype", 18, aten_view_dtype, "", "another dtype"},
    {"aten.view_copy.default", 18, aten_reshape, "Reshape"},
    {"aten._unsafe_view", 18, aten_reshape, "Reshape"},
    {"aten.reshape", 18, aten_reshape, "Reshape"},
    {"aten._reshape_alias", 18, aten_reshape, "Reshape"},
    {"aten.view_as", 18, aten_reshape, "Reshape"},
    {"aten.reshape_as", 18, aten_reshape, "Reshape"},
    {"aten.flatten", 18, aten_reshape, "Reshape"},
    {"aten.unflatten", 18, aten_reshape, "Reshape"},
    {"aten.ravel", 18, aten_reshape, "Reshape"},
    {"aten.squeeze", 18, aten_reshape, "Reshape"},
    {"aten.squeeze_copy", 18, aten_reshape, "Reshape"},
    {"aten.unsqueeze", 18, aten_reshape, "Reshape"},
    {"aten.unsqueeze_copy", 18, aten_reshape, "Reshape"},
    {"aten.alias", 18, aten_identity},
    {"aten.alias_copy", 18, aten_identity},
    {"aten.clone", 18, aten_identity},
    {"aten.contiguous", 18, aten_identity},
    {"aten.detach", 18, aten_identity},
    {"aten.detach_copy", 18, aten_identity},
    {"aten.lift_fresh", 18, aten_identity},
    {"aten.lift_fresh_copy", 18, aten_identity},
    {"aten.lift", 18, aten_identity},
    {"aten.positive", 18, aten_identity},
    {"aten.to", 18, aten_to, "Cast", "conversions from and to complex numbers"},
    {"aten._to_copy", 18, aten_to, "Cast", "conversions from and to complex numbers"},
    {"aten.type_as", 18, aten_type_as, "Cast"},
    {"aten.copy", 18, aten_copy, "Expand"},
    {"aten.permute", 18, aten_permute, "Transpose"},
    {"aten.permute_copy", 18, aten_permute, "Transpose"},
    {"aten.transpose", 18, aten_transpose, "Transpose"},
    {"aten.transpose_copy", 18, aten_transpose, "Transpose"},
    {"aten.swapaxes", 18, aten_swapaxes, "Transpose"},
    {"aten.swapdims", 18, aten_transpose, "Transpose"},
    {"aten.t", 18, aten_t, "Transpose"},
    {"aten.t_copy", 18, aten_t, "Transpose"},
    {"aten.numpy_T", 18, aten_t, "Transpose"},
    {"aten.mT", 18, aten_mT, "Transpose"},
    {"aten.adjoint", 18, aten_mT, "Transpose"},
    {"aten.movedim", 18, aten_movedim, "Transpose"},
    {"aten.moveaxis", 18, aten_movedim, "Transpose"},
    {"aten.expand", 18, aten_expand, "Expand"},
    {"aten.expand_copy", 18, aten_expand, "Expand"},
    {"aten.expand_as", 18, aten_expand, "Expand"},
    {"aten.broadcast_to", 18, aten_expand, "Expand"},
    {"aten.broadcast_tensors", 18, aten_broadcast_tensors, "Expand"},
    {"aten.meshgrid", 18, aten_meshgrid, "Expand Reshape"},
    {"aten.repeat", 18, aten_repeat, "Reshape Tile"},
    {"aten.slice", 18, aten_slice, "Slice"},
    {"aten.slice_copy", 18, aten_slice, "Slice"},
    {"aten.narrow", 18, aten_narrow, "Slice"},
    {"aten.narrow_copy", 18, aten_narrow, "Slice"},
    {"aten.select", 18, aten_select, "Gather"},
    {"aten.select_copy", 18, aten_select, "Gather"},
    {"aten.split", 18, aten_split, "Slice"},
    {"aten.split_with_sizes", 18, aten_split, "Slice"},
    {"aten.split_with_sizes_copy", 18, aten_split, "Slice"},
    {"aten.chunk", 18, aten_split, "Slice"},
    {"aten.tensor_split", 18, aten_split, "Slice"},
    {"aten.unbind", 18, aten_unbind, "Gather"},
    {"aten.flip", 18, aten_flip, "Slice"},
    {"aten.unfold", 18, aten_unfold, "Gather Transpose"},
    {"aten.diagonal", 18, aten_diagonal, "Gather Reshape Transpose"},
};

}  // namespace

std::span<const OnnxTranslationEntry> view_translations() { return kEntries; }

}  // namespace exporters::onnx
