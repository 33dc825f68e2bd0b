// Normalizations.
#include "exporters/onnx/translations/table.h"

#include <ATen/ops/ones.h>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

// A tensor of ones for a norm without a weight.
OnnxValue ones(Context& context, const Sizes& sizes, c10::ScalarType dtype) {
  std::vector<int64_t> numbers;
  for (const Expr& size : sizes) {
    const auto number = size.as_int();
    if (!number) {
      return context.full(sizes, context.constant(1.0, dtype));
    }
    numbers.push_back(*number);
  }
  return context.constant(at::ones(numbers, at::TensorOptions().dtype(dtype)));
}

struct Normalized {
  OnnxValue x;
  OnnxValue weight;
  OnnxValue bias;
  int64_t axis;  // first normalized one, from the end
};

Normalized normalized(Context& context, const OpCall& call, const Sizes& shape) {
  const c10::ScalarType dtype = Context::compute_dtype(call.result().dtype);
  return {call.operand("input", dtype),
          call.has("weight") ? call.operand("weight", dtype) : ones(context, shape, dtype),
          call.has("bias") ? call.operand("bias", dtype) : OnnxValue{}, -static_cast<int64_t>(shape.size())};
}

OnnxValue layer_norm(Context& context, const OpCall& call) {
  const auto [x, weight, bias, axis] = normalized(context, call, call.exprs("normalized_shape"));
  const OnnxValues inputs = bias.present() ? OnnxValues{x, weight, bias} : OnnxValues{x, weight};
  const Attrs attrs = {{"axis", axis}, {"epsilon", call.floating("eps")}};
  return axis == -1 ? context.emit_pointwise("LayerNormalization", inputs, attrs)
                    : context.emit("LayerNormalization", inputs, attrs);
}

OnnxValues aten_layer_norm(Context& context, const OpCall& call) { return {layer_norm(context, call)}; }

// Mean and reciprocal deviation come in float; the CPU provider gives neither.
OnnxValues aten_native_layer_norm(Context& context, const OpCall& call) {
  if (call.output(1).has_users() || call.output(2).has_users()) {
    call.refuse("its mean and reciprocal deviation are not available in ONNX Runtime");
  }
  return {layer_norm(context, call)};
}

double epsilon(const OpCall& call, c10::ScalarType dtype) {
  if (call.has("eps")) {
    return call.floating("eps");
  }
  // torch's default: the machine epsilon of the type it computes in.
  return dtype == c10::kDouble ? 2.220446049250313e-16 : 1.1920928955078125e-07;
}

OnnxValues aten_rms_norm_23(Context& context, const OpCall& call) {
  const Sizes shape = call.exprs("normalized_shape");
  const c10::ScalarType dtype = Context::compute_dtype(call.result().dtype);
  const OnnxValue weight = call.has("weight") ? call.operand("weight", dtype) : ones(context, shape, dtype);
  const OnnxValues inputs = {call.operand("input", dtype), weight};
  const Attrs attrs = {{"axis", -static_cast<int64_t>(shape.size())}, {"epsilon", epsilon(call, dtype)}};
  // Over the last axis alone it is as good as elementwise on rows.
  return {shape.size() == 1 ? context.emit_pointwise("RMSNormalization", inputs, attrs)
                            : context.emit("RMSNormalization", inputs, attrs)};
}

OnnxValues aten_rms_norm(Context& context, const OpCall& call) {
  const Sizes shape = call.exprs("normalized_shape");
  const c10::ScalarType dtype = call.result().dtype == c10::kDouble ? c10::kDouble : c10::kFloat;
  const OnnxValue x = call.operand("input", dtype);
  std::vector<int64_t> axes;
  for (int64_t axis = -static_cast<int64_t>(shape.size()); axis < 0; ++axis) {
    axes.push_back(axis);
  }
  const OnnxValue mean = context.emit("ReduceMean", {context.emit("Mul", {x, x}), context.constant(axes)});
  const OnnxValue shifted = context.emit("Add", {mean, context.constant(epsilon(call, dtype), dtype)});
  const OnnxValue scaled = context.emit("Div", {x, context.emit("Sqrt", {shifted})});
  return {call.has("weight") ? context.emit("Mul", {scaled, call.operand("weight", dtype)}) : scaled};
}

OnnxValue batch_norm(Context& context, const OpCall& call) {
  if (call.has("training") && call.boolean("training")) {
    call.refuse("the module was traced in training mode: batch statistics would be live in the exported graph",
                "Call eval() on the module before the export.");
  }
  if (!call.has("running_mean") || !call.has("running_var")) {
    call.refuse("a batch norm without running statistics normalizes by the batch, which is not supported");
  }
  const c10::ScalarType dtype = Context::compute_dtype(call.result().dtype);
  const Sizes channels = call.meta("running_mean").sizes;
  const OnnxValue weight = call.has("weight") ? call.operand("weight", dtype) : ones(context, channels, dtype);
  const OnnxValue bias = call.has("bias") ? call.operand("bias", dtype) : context.emit("Sub", {weight, weight});
  return context.emit("BatchNormalization",
                      {call.operand("input", dtype), weight, bias, call.operand("running_mean", dtype),
                       call.operand("running_var", dtype)},
                      {{"epsilon", call.floating("eps")}});
}

OnnxValues aten_batch_norm(Context& context, const OpCall& call) { return {batch_norm(context, call)}; }

// Per sample and group; then weight and bias per channel (axis 1).
OnnxValue per_channel(Context& context, const OnnxValue& parameter, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = 1; axis < rank - 1; ++axis) {
    axes.push_back(axis);
  }
  return context.unsqueeze(parameter, axes);
}

OnnxValue affine(Context& context, const OpCall& call, OnnxValue x, int64_t rank) {
  if (call.has("weight")) {
    x = context.emit("Mul", {x, per_channel(context, call.operand("weight", x.dtype), rank)});
  }
  if (call.has("bias")) {
    x = context.emit("Add", {x, per_channel(context, call.operand("bias", x.dtype), rank)});
  }
  return x;
}

// InstanceNormalization over [batch, groups, rest]: each group is a channel.
OnnxValue group_norm(Context& context, const OpCall& call, const TensorMeta& meta, const Expr& groups) {
  const c10::ScalarType dtype = Context::compute_dtype(call.result().dtype);
  const OnnxValue x = call.operand("input", dtype);
  Expr rest = 1;
  for (size_t axis = 2; axis < meta.sizes.size(); ++axis) {
    rest = rest * meta.sizes[axis];
  }
  const Sizes folded = {meta.sizes.at(0), groups, floordiv(meta.sizes.at(1), groups) * rest};
  const OnnxValue one = ones(context, {groups}, dtype);
  const OnnxValue zero = context.emit("Sub", {one, one});
  const OnnxValue normal = context.emit("InstanceNormalization", {context.reshape(x, meta.sizes, folded), one, zero},
                                        {{"epsilon", call.floating("eps")}});
  return affine(context, call, context.reshape(normal, folded, meta.sizes), meta.dim());
}

OnnxValues aten_group_norm(Context& context, const OpCall& call) {
  return {group_norm(context, call, call.meta("input"), call.integer("num_groups"))};
}

OnnxValues aten_native_group_norm(Context& context, const OpCall& call) {
  if (call.output(1).has_users() || call.output(2).has_users()) {
    call.refuse("its mean and reciprocal deviation are not available");
  }
  return {group_norm(context, call, call.meta("input"), call.integer("group"))};
}

OnnxValues aten_instance_norm(Context& context, const OpCall& call) {
  if (!call.boolean("use_input_stats")) {
    return {batch_norm(context, call)};
  }
  const TensorMeta& meta = call.meta("input");
  return {group_norm(context, call, meta, meta.sizes.at(1))};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.layer_norm", 18, aten_layer_norm, "LayerNormalization"},
    {"aten.native_layer_norm", 18, aten_native_layer_norm, "LayerNormalization", "its mean and reciprocal deviation"},
    {"aten.rms_norm", 18, aten_rms_norm, "Add Div Mul ReduceMean Sqrt"},
    {"aten.rms_norm", 23, aten_rms_norm_23, "RMSNormalization"},
    {"aten._fused_rms_norm", 18, aten_rms_norm, "Add Div Mul ReduceMean Sqrt", "its reciprocal deviation"},
    {"aten._fused_rms_norm", 23, aten_rms_norm_23, "RMSNormalization", "its reciprocal deviation"},
    {"aten.batch_norm", 18, aten_batch_norm, "BatchNormalization"},
    {"aten._native_batch_norm_legit_no_training", 18, aten_batch_norm, "BatchNormalization", "its saved statistics"},
    {"aten.group_norm", 18, aten_group_norm, "Add InstanceNormalization Mul Reshape Unsqueeze"},
    {"aten.native_group_norm", 18, aten_native_group_norm, "Add InstanceNormalization Mul Reshape Unsqueeze",
     "its mean and reciprocal deviation"},
    {"aten.instance_norm", 18, aten_instance_norm, "Add BatchNormalization InstanceNormalization Mul Unsqueeze"},
};

}  // namespace

std::span<const OnnxTranslationEntry> norm_translations() { return kEntries; }

}  // namespace exporters::onnx
