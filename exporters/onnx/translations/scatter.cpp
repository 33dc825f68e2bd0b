// Writing by index, mask or slice. Programs are functional: each op gives a new tensor.
#include "exporters/onnx/translations/axis_indices.h"
#include "exporters/onnx/translations/floor_divide.h"
#include "exporters/onnx/translations/table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

// ── Along one axis ──

OnnxValue scatter_elements(Context& context, const OpCall& call, const OnnxValue& source, const char* reduction) {
  const TensorMeta& meta = call.meta("self");
  const OnnxValue x = context.computable(call.tensor("self"));
  const OnnxValue updates = context.cast(source, x.dtype);
  OnnxValue index = context.cast(call.tensor("index"), c10::kLong);
  if (meta.dim() == 0) {
    const OnnxValue one = context.reshape(x, {}, {1});
    const OnnxValue flat_index = context.reshape(index, call.meta("index").sizes, {1});
    const OnnxValue flat_updates = context.reshape(updates, {}, {1});
    const OnnxValue result =
        context.emit("ScatterElements", {one, flat_index, flat_updates}, {{"axis", 0}, {"reduction", reduction}});
    return context.reshape(result, {1}, {});
  }
  return context.emit("ScatterElements", {x, index, updates},
                      {{"axis", call.dim("dim", meta.dim())}, {"reduction", reduction}});
}

// torch lets `src` be larger than `index`: what counts is the part of index's sizes.
OnnxValue source_like_index(Context& context, const OpCall& call, const char* name) {
  const TensorMeta& source = call.meta(name);
  const TensorMeta& index = call.meta("index");
  OnnxValue value = call.tensor(name);
  for (size_t axis = 0; axis < index.sizes.size(); ++axis) {
    if (source.sizes[axis] != index.sizes[axis]) {
      value = context.slice(value, static_cast<int64_t>(axis), context.constant(std::vector<int64_t>{0}),
                            context.size(index.sizes[axis]));
    }
  }
  return value;
}

std::string_view reduction_name(const OpCall& call, const std::string& torch_name) {
  if (torch_name == "add" || torch_name == "sum") return "add";
  if (torch_name == "multiply" || torch_name == "prod") return "mul";
  if (torch_name == "amax") return "max";
  if (torch_name == "amin") return "min";
  call.refuse("reduction '" + torch_name + "' has no ONNX counterpart");
}

OnnxValues aten_scatter(Context& context, const OpCall& call) {
  const bool scalar = call.has("value");
  const OnnxValue source = scalar ? context.full(call.meta("index").sizes,
                                                 call.operand("value", Context::compute_dtype(call.result().dtype)))
                                  : source_like_index(context, call, "src");
  const std::string reduction = call.has("reduce") ? std::string(reduction_name(call, call.string("reduce"))) : "none";
  return {scatter_elements(context, call, source, reduction.c_str())};
}

OnnxValues aten_scatter_add(Context& context, const OpCall& call) {
  return {scatter_elements(context, call, source_like_index(context, call, "src"), "add")};
}

// Note [scatter_reduce without self]
// With include_self=False a slot that something is scattered to starts from the reduction's neutral element; one that
// nothing reaches keeps its value. A second scatter counts how many reach each slot.
c10::Scalar neutral(const std::string& reduction, c10::ScalarType dtype) {
  if (reduction == "sum" || reduction == "mean") return int64_t{0};
  if (reduction == "prod") return int64_t{1};
  if (c10::isFloatingType(dtype)) return reduction == "amax" ? -HUGE_VAL : HUGE_VAL;
  switch (dtype) {
    case c10::kByte:
      return reduction == "amax" ? int64_t{0} : int64_t{255};
    case c10::kChar:
      return reduction == "amax" ? int64_t{-128} : int64_t{127};
    case c10::kShort:
      return reduction == "amax" ? int64_t{-32768} : int64_t{32767};
    case c10::kInt:
      return int64_t{reduction == "amax" ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int32_t>::max()};
    default:
      return reduction == "amax" ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  }
}

OnnxValues aten_scatter_reduce(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  if (meta.dim() == 0) {
    call.refuse("a 0-d tensor is not supported");
  }
  const std::string reduction = call.string("reduce");
  const bool mean = reduction == "mean";
  const bool include_self = call.boolean("include_self");
  const int64_t axis = call.dim("dim", meta.dim());
  const OnnxValue self = context.computable(call.tensor("self"));
  const OnnxValue index = call.tensor("index");
  const OnnxValue source = context.cast(source_like_index(context, call, "src"), self.dtype);
  const std::string onnx_reduction(reduction_name(call, mean ? "sum" : reduction));
  const auto scatter = [&](const OnnxValue& into, const OnnxValue& updates, const std::string& how) {
    return context.emit("ScatterElements", {into, index, updates}, {{"axis", axis}, {"reduction", how}});
  };
  const OnnxValue start = include_self
                              ? self
                              : scatter(self,
                                        context.full(call.meta("index").sizes,
                                                     context.constant(neutral(reduction, self.dtype), self.dtype)),
                                        "none");
  const OnnxValue reduced = scatter(start, source, onnx_reduction);
  if (!mean) {
    return {reduced};
  }
  const OnnxValue one = context.constant(int64_t{1}, self.dtype);
  const OnnxValue ones = context.full(call.meta("index").sizes, one);
  const OnnxValue base = context.full(meta.sizes, context.constant(int64_t{include_self ? 1 : 0}, self.dtype));
  const OnnxValue count = context.emit("Max", {scatter(base, ones, "add"), one});
  return {c10::isFloatingType(self.dtype) ? context.emit("Div", {reduced, count})
                                          : floor_divide(context, reduced, count)};
}

// ── Rows along an axis ──

// The order of axes that brings one to the front.
std::vector<int64_t> axis_first(int64_t axis, int64_t rank) {
  std::vector<int64_t> perm = {axis};
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) {
      perm.push_back(i);
    }
  }
  return perm;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& perm) {
  std::vector<int64_t> back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  return back;
}

// index_add, index_copy, index_fill: the index is 1-d; the axis comes first, ScatterND, and back.
OnnxValue scatter_rows(Context& context, const OpCall& call, const OnnxValue& rows, const char* reduction) {
  const TensorMeta& meta = call.meta("self");
  const std::vector<int64_t> perm = axis_first(call.dim("dim", meta.dim()), meta.dim());
  const OnnxValue x = context.computable(call.tensor("self"));
  const OnnxValue index = context.reshape(context.cast(call.tensor("index"), c10::kLong), call.meta("index").sizes,
                                          {call.meta("index").numel(), 1});
  const OnnxValue result = context.emit(
      "ScatterND", {context.transpose(x, perm), index, context.transpose(context.cast(rows, x.dtype), perm)},
      {{"reduction", reduction}});
  return context.transpose(result, inverse(perm));
}

OnnxValues aten_index_add(Context& context, const OpCall& call) {
  OnnxValue source = context.computable(call.tensor("source"));
  const Argument& alpha = call.arg("alpha");
  if (!(alpha == Argument(int64_t{1}) || alpha == Argument(1.0))) {
    source = context.emit("Mul", {source, call.operand("alpha", source.dtype)});
  }
  return {scatter_rows(context, call, source, "add")};
}

// ScatterElements instead of rows: it leaves the axes where they are, and writes in place where a runtime lets input
// and output share their memory, as a cache of fixed length does.
OnnxValues aten_index_copy(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const TensorMeta& source = call.meta("source");
  const auto dim = call.dim("dim", meta.dim());
  if (dim == 0 || source.dim() != meta.dim()) {
    return {scatter_rows(context, call, call.tensor("source"), "none")};
  }
  Sizes along(static_cast<size_t>(meta.dim()), Expr(1));
  along[static_cast<size_t>(dim)] = call.meta("index").numel();
  const OnnxValue index =
      context.reshape(context.cast(call.tensor("index"), c10::kLong), call.meta("index").sizes, along);
  const OnnxValue x = context.computable(call.tensor("self"));
  return {context.emit(
      "ScatterElements",
      {x, context.emit("Expand", {index, context.sizes(source.sizes)}), context.cast(call.tensor("source"), x.dtype)},
      {{"axis", dim}})};
}

OnnxValues aten_index_fill(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  Sizes sizes = meta.sizes;
  sizes.at(static_cast<size_t>(call.dim("dim", meta.dim()))) = call.meta("index").numel();
  const OnnxValue value = call.operand("value", Context::compute_dtype(meta.dtype));
  return {scatter_rows(context, call, context.full(sizes, value), "none")};
}

// ── x[i, :, mask] = values ──

// One mask alone with a value that broadcasts: a selection, whatever the mask holds.
std::optional<OnnxValue> masked_assignment(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const TensorMeta& values = call.meta("values");
  const auto metas = call.metas("indices");
  int64_t lead = -1;
  const TensorMeta* mask_meta = nullptr;
  for (size_t i = 0; i < metas.size(); ++i) {
    if (metas[i] == nullptr) {
      continue;
    }
    if (mask_meta != nullptr || !is_mask(*metas[i])) {
      return std::nullopt;
    }
    mask_meta = metas[i];
    lead = static_cast<int64_t>(i);
  }
  // Values of the selected positions' own count can't be broadcast beforehand; those with size 1 there can.
  const int64_t tail = meta.dim() - lead - (mask_meta == nullptr ? 0 : mask_meta->dim());
  const int64_t selected_from_end = tail + 1;
  const bool broadcasts = values.dim() < selected_from_end ||
                          values.sizes[static_cast<size_t>(values.dim() - selected_from_end)] == Expr(1);
  if (mask_meta == nullptr || !broadcasts || call.boolean("accumulate") || lead < 0) {
    return std::nullopt;
  }
  Sizes mask_sizes = mask_meta->sizes;
  mask_sizes.insert(mask_sizes.end(), static_cast<size_t>(tail), Expr(1));
  const OnnxValue mask = context.reshape(
      context.cast(call.tensors("indices").at(static_cast<size_t>(lead)), c10::kBool), mask_meta->sizes, mask_sizes);
  // [lead…, 1 for the selected, tail…] → a 1 for each axis of the mask.
  Sizes value_sizes = values.sizes;
  if (values.dim() >= selected_from_end) {
    value_sizes.insert(value_sizes.end() - tail - 1, static_cast<size_t>(mask_meta->dim() - 1), Expr(1));
  }
  const OnnxValue value = context.reshape(context.cast(call.tensor("values"), meta.dtype), values.sizes, value_sizes);
  return context.where(mask, value, call.tensor("self"));
}

OnnxValues aten_index_put(Context& context, const OpCall& call) {
  if (const auto selected = masked_assignment(context, call)) {
    return {*selected};
  }
  const TensorMeta& meta = call.meta("self");
  const AxisIndices indices(context, call);
  if (indices.empty()) {
    call.refuse("no axis is indexed");
  }
  const int64_t count = indices.count();
  const std::vector<int64_t> perm = indices.to_front(meta.dim());
  const OnnxValue x = context.transpose(context.computable(call.tensor("self")), perm);
  const OnnxValue index_shape = indices.shape(context);
  const OnnxValue positions = indices.stacked(context);

  // Values broadcast to torch's result of reading there; with the index axes first they are what ScatterND takes.
  OnnxValue values = context.cast(call.tensor("values"), x.dtype);
  const int64_t wide = indices.rank();
  const int64_t lead = indices.adjacent() ? indices.front().axis : 0;
  const int64_t result_rank = wide + meta.dim() - count;
  Sizes rest;
  for (int64_t i = count; i < meta.dim(); ++i) {
    rest.push_back(meta.sizes[static_cast<size_t>(perm[static_cast<size_t>(i)])]);
  }
  OnnxValues shape_parts;
  const Sizes before(rest.begin(), rest.begin() + lead);
  const Sizes after(rest.begin() + lead, rest.end());
  if (!before.empty()) {
    shape_parts.push_back(context.sizes(before));
  }
  shape_parts.push_back(index_shape);
  if (!after.empty()) {
    shape_parts.push_back(context.sizes(after));
  }
  const OnnxValue shape = shape_parts.size() == 1 ? shape_parts[0] : context.emit("Concat", shape_parts, {{"axis", 0}});
  values = context.emit("Expand", {values, shape});
  if (lead > 0) {
    std::vector<int64_t> forward;
    for (int64_t i = 0; i < wide; ++i) {
      forward.push_back(lead + i);
    }
    for (int64_t i = 0; i < result_rank; ++i) {
      if (i < lead || i >= lead + wide) {
        forward.push_back(i);
      }
    }
    values = context.transpose(values, forward);
  }
  const OnnxValue result =
      context.emit("ScatterND", {x, positions, values}, {{"reduction", call.boolean("accumulate") ? "add" : "none"}});
  return {context.transpose(result, inverse(perm))};
}

// ── x[start:end:step] = src, x[i] = src ──

OnnxValue positions_from(Context& context, const Expr& start, const Expr& count, int64_t step) {
  OnnxValue positions = context.iota(count);
  if (step != 1) {
    positions = context.emit("Mul", {positions, context.constant(step)});
  }
  return start == Expr(0) ? positions : context.emit("Add", {positions, context.size_scalar(start)});
}

OnnxValue write_rows(Context& context, const OpCall& call, int64_t axis, const OnnxValue& positions,
                     const OnnxValue& rows) {
  const std::vector<int64_t> perm = axis_first(axis, call.meta("self").dim());
  const OnnxValue x = call.tensor("self");
  const OnnxValue result = context.emit("ScatterND", {context.transpose(x, perm), context.unsqueeze(positions, {1}),
                                                      context.transpose(context.cast(rows, x.dtype), perm)});
  return context.transpose(result, inverse(perm));
}

OnnxValues aten_slice_scatter(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const int64_t axis = call.dim("dim", meta.dim());
  const Expr whole = meta.sizes[static_cast<size_t>(axis)];
  const Sizes source_sizes = call.meta("src").sizes;
  const Expr count = source_sizes.at(static_cast<size_t>(axis));
  if (count == whole && call.integer("step") == 1) {
    return {context.cast(call.tensor("src"), call.result().dtype)};
  }
  Expr start = call.has("start") ? call.expr("start") : Expr(0);
  if (!context.at_least(start, 0)) {
    start = max(start + whole, 0);
  }
  return {write_rows(context, call, axis, positions_from(context, min(start, whole), count, call.integer("step")),
                     call.tensor("src"))};
}

OnnxValues aten_select_scatter(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const int64_t axis = call.dim("dim", meta.dim());
  const OnnxValue position = context.size(call.expr("index"));
  return {write_rows(context, call, axis, position, context.unsqueeze(call.tensor("src"), {axis}))};
}

// ── masked_scatter: the k-th true position takes the k-th element of the source ──

OnnxValues aten_masked_scatter(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const Sizes sizes = call.result().sizes;
  Expr count = 1;
  for (const Expr& size : sizes) {
    count = count * size;
  }
  const OnnxValue mask =
      context.reshape(context.expand(call.tensor("mask"), call.meta("mask").sizes, sizes), sizes, {count});
  const OnnxValue x = context.reshape(context.expand(call.tensor("self"), meta.sizes, sizes), sizes, {count});
  const OnnxValue source =
      context.reshape(call.tensor("source"), call.meta("source").sizes, {call.meta("source").numel()});
  const OnnxValue positions = context.transpose(context.emit("NonZero", {mask}), {1, 0});
  const OnnxValue selected = context.emit("Shape", {positions}, {{"start", 0}, {"end", 1}});
  const OnnxValue head =
      context.slice(context.cast(source, x.dtype), 0, context.constant(std::vector<int64_t>{0}), selected);
  return {context.reshape(context.emit("ScatterND", {x, positions, head}), {count}, sizes)};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.scatter", 18, aten_scatter, "ScatterElements Slice"},
    {"aten.scatter_add", 18, aten_scatter_add, "ScatterElements Slice"},
    {"aten.scatter_reduce", 18, aten_scatter_reduce, "Div Less Max Mul ScatterElements Sign Slice Sub", "0-d tensors"},
    {"aten.index_add", 18, aten_index_add, "Mul Reshape ScatterND Transpose"},
    {"aten.index_copy", 18, aten_index_copy, "Expand Reshape ScatterElements ScatterND"},
    {"aten.index_fill", 18, aten_index_fill, "Reshape ScatterND Transpose"},
    {"aten.index_put", 18, aten_index_put, "Add Concat Expand ScatterND Transpose Unsqueeze Where"},
    {"aten._unsafe_index_put", 18, aten_index_put, "Add Concat Expand ScatterND Transpose Unsqueeze Where"},
    {"aten.slice_scatter", 18, aten_slice_scatter, "ScatterND Transpose"},
    {"aten.select_scatter", 18, aten_select_scatter, "ScatterND Transpose Unsqueeze"},
    {"aten.masked_scatter", 18, aten_masked_scatter, "NonZero Reshape ScatterND Slice Transpose"},
};

}  // namespace

std::span<const OnnxTranslationEntry> scatter_translations() { return kEntries; }

}  // namespace exporters::onnx
