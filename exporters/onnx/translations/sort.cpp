// Sorting, the k largest, running extrema, counting.
#include "exporters/onnx/translations/table.h"

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

// TopK orders every type but bool; of equal elements the one with the lower index comes first, so it is stable.
OnnxValues top(Context& context, const OpCall& call, int64_t axis, const Expr& k, bool largest, bool sorted) {
  const c10::ScalarType dtype = call.meta("self").dtype;
  const OnnxValue x =
      context.cast(call.tensor("self"), dtype == c10::kBool ? c10::kByte : Context::compute_dtype(dtype));
  OnnxValues results =
      context.emit_many("TopK", {x, context.size(k)}, {{"axis", axis}, {"largest", largest}, {"sorted", sorted}}, 2);
  results[1].dtype = c10::kLong;
  return results;
}

OnnxValues sorted(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  if (meta.dim() == 0) {
    return {call.tensor("self"), context.constant(int64_t{0})};
  }
  const int64_t axis = call.dim("dim", meta.dim());
  return top(context, call, axis, meta.sizes[static_cast<size_t>(axis)], call.boolean("descending"), true);
}

OnnxValues aten_sort(Context& context, const OpCall& call) { return sorted(context, call); }

OnnxValues aten_argsort(Context& context, const OpCall& call) { return {sorted(context, call)[1]}; }

// Sorted also where torch need not: the runtime's unsorted order differs between providers.
OnnxValues aten_topk(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  if (meta.dim() == 0) {
    return {call.tensor("self"), context.constant(int64_t{0})};
  }
  return top(context, call, call.dim("dim", meta.dim()), call.expr("k"), call.boolean("largest"), true);
}

// The k-th smallest, counted from 1.
OnnxValues aten_kthvalue(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  if (meta.dim() == 0) {
    return {call.tensor("self"), context.constant(int64_t{0})};
  }
  const int64_t axis = call.dim("dim", meta.dim());
  const Expr k = call.expr("k");
  OnnxValues results = top(context, call, axis, k, false, true);
  for (OnnxValue& result : results) {
    const OnnxValue last = context.size_scalar(k - Expr(1));
    result = call.boolean("keepdim") ? context.slice(result, axis, context.size(k - Expr(1)), context.size(k))
                                     : context.emit("Gather", {result, last}, {{"axis", axis}});
  }
  return results;
}

// ── How many elements of a sorted sequence stand below ──

OnnxValue count_below(Context& context, const OnnxValue& boundaries, const OnnxValue& values, bool right) {
  const OnnxValue below =
      right ? context.emit("LessOrEqual", {boundaries, values}) : context.emit("Less", {boundaries, values});
  return context.emit("ReduceSum", {context.cast(below, c10::kLong), context.constant(std::vector<int64_t>{-1})},
                      {{"keepdims", 0}});
}

OnnxValues aten_bucketize(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = Context::compute_dtype(call.promote({"self", "boundaries"}));
  const OnnxValue values = context.unsqueeze(call.operand("self", dtype), {-1});
  return {count_below(context, call.operand("boundaries", dtype), values, call.boolean("right"))};
}

OnnxValues aten_searchsorted(Context& context, const OpCall& call) {
  if (call.has("sorter")) {
    call.refuse("a sorter is not supported", "Sort the sequence first.");
  }
  const c10::ScalarType dtype = Context::compute_dtype(call.promote({"self", "sorted_sequence"}));
  const bool right = call.boolean("right") || (call.has("side") && call.string("side") == "right");
  OnnxValue sequence = call.operand("sorted_sequence", dtype);
  const OnnxValue values = context.unsqueeze(call.operand("self", dtype), {-1});
  const int64_t rank = call.meta("sorted_sequence").dim();
  if (rank > 1) {  // one sequence for each row of values
    sequence = context.unsqueeze(sequence, {rank - 1});
  }
  return {count_below(context, sequence, values, right)};
}

// weights or ones, added up at the places that the elements name.
OnnxValues aten_bincount(Context& context, const OpCall& call) {
  const OnnxValue index = context.cast(call.tensor("self"), c10::kLong);
  const OnnxValue padded = context.emit("Concat", {index, context.constant(std::vector<int64_t>{-1})}, {{"axis", 0}});
  const OnnxValue top_index = context.emit("ReduceMax", {padded, context.constant(std::vector<int64_t>{0})});
  const OnnxValue needed = context.emit("Add", {top_index, context.constant(std::vector<int64_t>{1})});
  const OnnxValue length = context.emit("Max", {needed, context.size(call.expr("minlength"))});
  const c10::ScalarType dtype = call.result().dtype;
  const OnnxValue zeros = context.emit("Expand", {context.constant(int64_t{0}, dtype), length});
  const OnnxValue updates = call.has("weights")
                                ? call.operand("weights", dtype)
                                : context.full(call.meta("self").sizes, context.constant(int64_t{1}, dtype));
  return {context.emit("ScatterElements", {zeros, index, updates}, {{"axis", 0}, {"reduction", "add"}})};
}

// ── Repetition ──

OnnxValues aten_repeat_interleave_int(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const Expr repeats = call.expr("repeats");
  Sizes from = meta.sizes;
  OnnxValue x = call.tensor("self");
  int64_t axis = 0;
  if (call.has("dim")) {
    axis = call.dim("dim", meta.dim());
  } else {
    x = context.reshape(x, from, {meta.numel()});
    from = {meta.numel()};
  }
  if (from.empty()) {
    x = context.reshape(x, {}, {1});
    from = {1};
  }
  Sizes split = from;
  split.insert(split.begin() + axis + 1, Expr(1));
  Sizes wide = split;
  wide[static_cast<size_t>(axis) + 1] = repeats;
  const OnnxValue repeated = context.expand(context.reshape(x, from, split), split, wide);
  return {context.reshape(repeated, wide, call.result().sizes)};
}

// Position p of the result comes from the element whose running count of repeats first exceeds p.
OnnxValue interleaved_index(Context& context, const OnnxValue& repeats) {
  const OnnxValue counts = context.cast(repeats, c10::kLong);
  const OnnxValue ends = context.emit("CumSum", {counts, context.constant(int64_t{0})});
  const OnnxValue total = context.emit("ReduceSum", {counts}, {{"keepdims", 0}});
  const OnnxValue positions =
      context.emit("Range", {context.constant(int64_t{0}), total, context.constant(int64_t{1})});
  return count_below(context, ends, context.unsqueeze(positions, {1}), true);
}

OnnxValues aten_repeat_interleave(Context& context, const OpCall& call) {
  return {interleaved_index(context, call.tensor("repeats"))};
}

OnnxValues aten_repeat_interleave_self(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  OnnxValue x = call.tensor("self");
  int64_t axis = 0;
  Expr length = meta.numel();
  if (call.has("dim")) {
    axis = call.dim("dim", meta.dim());
    length = meta.sizes.at(static_cast<size_t>(axis));
  } else {
    x = context.reshape(x, meta.sizes, {meta.numel()});
  }
  const TensorMeta& repeats_meta = call.meta("repeats");
  const OnnxValue repeats = context.expand(call.tensor("repeats"), repeats_meta.sizes, {length});
  return {context.emit("Gather", {x, interleaved_index(context, repeats)}, {{"axis", axis}})};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.sort", 18, aten_sort, "TopK"},
    {"aten.argsort", 18, aten_argsort, "TopK"},
    {"aten.topk", 18, aten_topk, "TopK"},
    {"aten.kthvalue", 18, aten_kthvalue, "Gather Slice TopK"},
    {"aten.bucketize", 18, aten_bucketize, "Less LessOrEqual ReduceSum Unsqueeze"},
    {"aten.searchsorted", 18, aten_searchsorted, "Less LessOrEqual ReduceSum Unsqueeze", "a sorter"},
    {"aten.bincount", 18, aten_bincount, "Add Concat Expand Max ReduceMax ScatterElements"},
    {"aten.repeat_interleave.Tensor", 18, aten_repeat_interleave, "CumSum LessOrEqual Range ReduceSum Unsqueeze"},
    {"aten.repeat_interleave.self_int", 18, aten_repeat_interleave_int, "Expand Reshape"},
    {"aten.repeat_interleave.self_Tensor", 18, aten_repeat_interleave_self,
     "CumSum Gather LessOrEqual Range ReduceSum Unsqueeze"},
};

}  // namespace

std::span<const OnnxTranslationEntry> sort_translations() { return kEntries; }

}  // namespace exporters::onnx
