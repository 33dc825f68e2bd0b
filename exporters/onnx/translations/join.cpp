// cat, stack, padding, rolling.
#include "exporters/onnx/translations/table.h"

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

// torch lets a 1-d tensor of no elements stand among tensors of any rank: it adds nothing.
OnnxValues aten_cat(Context& context, const OpCall& call) {
  const std::vector<const TensorMeta*> metas = call.metas("tensors");
  const OnnxValues tensors = call.tensors("tensors");
  const int64_t rank = call.result().dim();
  OnnxValues parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (metas[i]->dim() == rank) {
      parts.push_back(context.cast(tensors[i], call.result().dtype));
    }
  }
  if (parts.size() == 1) {
    return parts;
  }
  return {context.emit("Concat", parts, {{"axis", call.dim("dim", rank)}})};
}

OnnxValues aten_stack(Context& context, const OpCall& call) {
  const int64_t axis = call.dim("dim", call.result().dim());
  OnnxValues parts;
  for (const OnnxValue& tensor : call.tensors("tensors")) {
    parts.push_back(context.unsqueeze(context.cast(tensor, call.result().dtype), {axis}));
  }
  return {parts.size() == 1 ? parts.front() : context.emit("Concat", parts, {{"axis", axis}})};
}

// torch lists (before, after) from the last axis on; ONNX all befores, then all afters, from the first axis on.
OnnxValue pads(Context& context, const Sizes& amounts, int64_t rank) {
  Sizes before(static_cast<size_t>(rank), Expr(0));
  Sizes after = before;
  for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
    const size_t axis = static_cast<size_t>(rank) - 1 - i / 2;
    before[axis] = amounts[i];
    after[axis] = amounts[i + 1];
  }
  before.insert(before.end(), after.begin(), after.end());
  return context.sizes(before);
}

c10::ScalarType paddable(c10::ScalarType dtype) {
  return dtype == c10::kShort ? c10::kInt : TranslationContext::compute_dtype(dtype);
}

OnnxValue constant_pad(Context& context, const OpCall& call, const OnnxValue& value) {
  const OnnxValue x = context.cast(call.tensor("self"), value.dtype);
  return context.emit("Pad", {x, pads(context, call.exprs("pad"), call.meta("self").dim()), value},
                      {{"mode", "constant"}});
}

OnnxValues aten_constant_pad_nd(Context& context, const OpCall& call) {
  return {constant_pad(context, call, call.operand("value", paddable(call.result().dtype)))};
}

OnnxValue mode_pad(Context& context, const OpCall& call, const char* argument, const char* mode) {
  const OnnxValue x = context.cast(call.tensor("self"), paddable(call.result().dtype));
  return context.emit("Pad", {x, pads(context, call.exprs(argument), call.meta("self").dim())}, {{"mode", mode}});
}

OnnxValues aten_pad(Context& context, const OpCall& call) {
  const std::string mode = call.string("mode");
  if (mode == "constant") {
    const c10::ScalarType dtype = paddable(call.result().dtype);
    return {constant_pad(context, call,
                         call.has("value") ? call.operand("value", dtype) : context.constant(int64_t{0}, dtype))};
  }
  if (mode == "circular" && context.opset() < 19) {
    call.refuse("circular padding needs opset 19", "Export with opset_version 19 or newer.");
  }
  return {mode_pad(context, call, "pad", mode == "reflect" ? "reflect" : mode == "replicate" ? "edge" : "wrap")};
}

OnnxValues aten_reflection_pad(Context& context, const OpCall& call) {
  return {mode_pad(context, call, "padding", "reflect")};
}
OnnxValues aten_replication_pad(Context& context, const OpCall& call) {
  return {mode_pad(context, call, "padding", "edge")};
}

// The last `shift` elements first. Sizes are symbolic, so the cut is at size - shift mod size.
OnnxValue roll(Context& context, const OnnxValue& x, int64_t axis, const Expr& size, const Expr& shift) {
  const OnnxValue length = context.size(size);
  const OnnxValue amount =
      context.emit("Mod", {context.size(shift), context.emit("Max", {length, context.size(Expr(1))})});
  const OnnxValue cut = context.emit("Sub", {length, amount});
  const OnnxValue tail = context.slice(x, axis, cut, length);
  const OnnxValue head = context.slice(x, axis, context.size(Expr(0)), cut);
  return context.emit("Concat", {tail, head}, {{"axis", axis}});
}

OnnxValues aten_roll(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const Sizes shifts = call.exprs("shifts");
  const std::vector<int64_t> axes = call.dims("dims", meta.dim());
  if (axes.empty()) {
    const OnnxValue flat = context.reshape(call.tensor("self"), meta.sizes, {meta.numel()});
    const OnnxValue rolled = roll(context, flat, 0, meta.numel(), shifts.at(0));
    return {context.reshape(rolled, {meta.numel()}, meta.sizes)};
  }
  OnnxValue x = call.tensor("self");
  for (size_t i = 0; i < axes.size(); ++i) {
    x = roll(context, x, axes[i], meta.sizes.at(static_cast<size_t>(axes[i])), shifts.at(i));
  }
  return {x};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.cat", 18, aten_cat, "Concat"},
    {"aten.concat", 18, aten_cat, "Concat"},
    {"aten.concatenate", 18, aten_cat, "Concat"},
    {"aten.stack", 18, aten_stack, "Concat Unsqueeze"},
    {"aten.constant_pad_nd", 18, aten_constant_pad_nd, "Pad"},
    {"aten.pad", 18, aten_pad, "Pad", "circular padding below opset 19"},
    {"aten.reflection_pad1d", 18, aten_reflection_pad, "Pad"},
    {"aten.reflection_pad2d", 18, aten_reflection_pad, "Pad"},
    {"aten.reflection_pad3d", 18, aten_reflection_pad, "Pad"},
    {"aten.replication_pad1d", 18, aten_replication_pad, "Pad"},
    {"aten.replication_pad2d", 18, aten_replication_pad, "Pad"},
    {"aten.replication_pad3d", 18, aten_replication_pad, "Pad"},
    {"aten.roll", 18, aten_roll, "Concat Reshape Slice"},
};

}  // namespace

std::span<const OnnxTranslationEntry> join_translations() { return kEntries; }

}  // namespace exporters::onnx
