// Reading by index or mask.
#include "exporters/onnx/translations/axis_indices.h"
#include "exporters/onnx/translations/table.h"

#include <algorithm>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

OnnxValues aten_embedding(Context& context, const OpCall& call) {
  return {context.emit("Gather", {call.tensor("weight"), call.tensor("indices")})};
}

OnnxValues aten_index_select(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  if (meta.dim() == 0) {
    return {call.tensor("self")};
  }
  const OnnxValue index = context.reshape(call.tensor("index"), call.meta("index").sizes, {call.meta("index").numel()});
  return {context.emit("Gather", {call.tensor("self"), index}, {{"axis", call.dim("dim", meta.dim())}})};
}

OnnxValues aten_gather(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  if (meta.dim() == 0) {
    return {context.expand(call.tensor("self"), {}, call.result().sizes)};
  }
  return {context.emit("GatherElements", {call.tensor("self"), call.tensor("index")},
                       {{"axis", call.dim("dim", meta.dim())}})};
}

OnnxValues aten_take(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const OnnxValue flat = context.reshape(call.tensor("self"), meta.sizes, {meta.numel()});
  return {context.emit("Gather", {flat, call.tensor("index")})};
}

OnnxValues aten_take_along_dim(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const TensorMeta& index = call.meta("indices");
  if (!call.has("dim")) {
    const OnnxValue flat = context.reshape(call.tensor("self"), meta.sizes, {meta.numel()});
    return {context.emit("Gather", {flat, context.reshape(call.tensor("indices"), index.sizes, {index.numel()})})};
  }
  const size_t axis = static_cast<size_t>(call.dim("dim", meta.dim()));
  Sizes data_sizes = call.result().sizes;  // broadcast except along the axis
  data_sizes[axis] = meta.sizes[axis];
  const OnnxValue data = context.expand(call.tensor("self"), meta.sizes, data_sizes);
  const OnnxValue indices = context.expand(call.tensor("indices"), index.sizes, call.result().sizes);
  return {context.emit("GatherElements", {data, indices}, {{"axis", static_cast<int64_t>(axis)}})};
}

// ── x[i, :, j, mask] ──

OnnxValues aten_index(Context& context, const OpCall& call) {
  const AxisIndices indices(context, call);
  const OnnxValue x = call.tensor("self");
  if (indices.empty()) {
    return {x};
  }
  const int64_t lead = indices.front().axis;
  if (indices.count() == 1) {
    return {context.emit("Gather", {x, indices.front().index}, {{"axis", lead}})};
  }
  // The indexed axes to the front, GatherND, and where they stood side by side, the result's new axes back there.
  const OnnxValue front = context.transpose(x, indices.to_front(call.meta("self").dim()));
  const OnnxValue picked = context.emit("GatherND", {front, indices.stacked(context)});
  if (!indices.adjacent() || lead == 0) {
    return {picked};
  }
  const int64_t index_rank = indices.rank();
  const int64_t rank = call.result().dim();
  std::vector<int64_t> back;
  for (int64_t axis = 0; axis < rank; ++axis) {
    back.push_back(axis < lead ? axis + index_rank : axis < lead + index_rank ? axis - lead : axis);
  }
  return {context.transpose(picked, back)};
}

// ── Data-dependent sizes ──

OnnxValues aten_nonzero(Context& context, const OpCall& call) {
  OnnxValue x = call.tensor("self");
  const c10::ScalarType dtype = x.dtype;
  if (dtype != c10::kBool) {
    x = context.cast(x, c10::kBool);
  }
  if (call.meta("self").dim() == 0) {
    call.refuse("nonzero of a 0-d tensor is not supported");
  }
  return {context.transpose(context.emit("NonZero", {x}), {1, 0})};
}

OnnxValues aten_masked_select(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const TensorMeta& mask_meta = call.meta("mask");
  Sizes sizes(std::max(meta.sizes.size(), mask_meta.sizes.size()), Expr(1));
  for (const Sizes* operand : {&meta.sizes, &mask_meta.sizes}) {
    const size_t lead = sizes.size() - operand->size();
    for (size_t i = 0; i < operand->size(); ++i) {
      if ((*operand)[i] != Expr(1)) {
        sizes[lead + i] = (*operand)[i];
      }
    }
  }
  Expr count = 1;
  for (const Expr& size : sizes) {
    count = count * size;
  }
  const OnnxValue x = context.reshape(context.expand(call.tensor("self"), meta.sizes, sizes), sizes, {count});
  const OnnxValue mask = context.reshape(context.expand(call.tensor("mask"), mask_meta.sizes, sizes), sizes, {count});
  return {context.emit("Compress", {x, mask}, {{"axis", 0}})};
}

OnnxValues aten_one_hot(Context& context, const OpCall& call) {
  const OnnxValue x = call.tensor("self");
  OnnxValue depth;
  if (call.expr("num_classes") == Expr(-1)) {
    const OnnxValue top = context.emit("ReduceMax", {x}, {{"keepdims", 0}});
    depth = context.emit("Add", {top, context.constant(int64_t{1})});
  } else {
    depth = context.size_scalar(call.expr("num_classes"));
  }
  return {context.emit("OneHot", {x, depth, context.constant(std::vector<int64_t>{0, 1})})};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.embedding", 18, aten_embedding, "Gather"},
    {"aten.index_select", 18, aten_index_select, "Gather"},
    {"aten.gather", 18, aten_gather, "GatherElements"},
    {"aten.take", 18, aten_take, "Gather Reshape"},
    {"aten.take_along_dim", 18, aten_take_along_dim, "Gather GatherElements Reshape"},
    {"aten.index", 18, aten_index, "Add Concat Expand Gather GatherND NonZero Transpose Unsqueeze"},
    {"aten._unsafe_index", 18, aten_index, "Add Concat Expand Gather GatherND Transpose Unsqueeze"},
    {"aten.nonzero", 18, aten_nonzero, "NonZero Transpose", "0-d tensors"},
    {"aten.masked_select", 18, aten_masked_select, "Compress Expand Reshape"},
    {"aten.one_hot", 18, aten_one_hot, "OneHot"},
};

}  // namespace

std::span<const OnnxTranslationEntry> index_translations() { return kEntries; }

}  // namespace exporters::onnx
