// Random tensors. A program draws anew in each run, as torch does; the numbers themselves are the runtime's.
#include "exporters/onnx/translations/table.h"

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

// Uniform in [0, 1), or normal with mean 0 and deviation 1.
OnnxValue draw(Context& context, const char* op, const Sizes& sizes, c10::ScalarType dtype) {
  const OnnxValue like = context.full(sizes, context.constant(0.0, dtype));
  return context.emit(op, {like}, {{"dtype", dtype}});
}

template <OpName kOp>
OnnxValues aten_draw(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = Context::compute_dtype(call.result().dtype);
  return {draw(context, kOp.text, call.result().sizes, dtype)};
}

// low + floor(u * (high - low)), in double so that every integer of a wide range can come.
OnnxValues aten_randint(Context& context, const OpCall& call) {
  const OnnxValue u = draw(context, "RandomUniformLike", call.result().sizes, c10::kDouble);
  const OnnxValue high = context.cast(context.size_scalar(call.expr("high")), c10::kDouble);
  if (!call.has("low")) {
    return {context.emit("Floor", {context.emit("Mul", {u, high})})};
  }
  const OnnxValue low = context.cast(context.size_scalar(call.expr("low")), c10::kDouble);
  const OnnxValue scaled = context.emit("Mul", {u, context.emit("Sub", {high, low})});
  return {context.emit("Add", {context.emit("Floor", {scaled}), low})};
}

OnnxValues aten_bernoulli(Context& context, const OpCall& call) {
  const TensorMeta& meta = call.meta("self");
  const c10::ScalarType dtype = Context::compute_dtype(meta.dtype);
  const OnnxValue u = draw(context, "RandomUniformLike", meta.sizes, dtype);
  const OnnxValue p = call.operand(call.has("p") ? "p" : "self", dtype);
  return {context.emit("Less", {u, p})};
}

// ONNX Runtime 1.32 has no kernel for the random operators as opset 22 declares them.
OnnxValues refused(Context&, const OpCall& call) {
  call.refuse("ONNX Runtime does not run the random operators of opset 22 and newer",
              "Export with opset_version = 21.");
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.rand", 18, aten_draw<"RandomUniformLike">, "Concat Expand RandomUniformLike"},
    {"aten.rand", 22, refused, "", "all: ONNX Runtime has no kernel of the random operators from opset 22 on"},
    {"aten.rand_like", 18, aten_draw<"RandomUniformLike">, "Expand RandomUniformLike"},
    {"aten.rand_like", 22, refused, "", "all: ONNX Runtime has no kernel of the random operators from opset 22 on"},
    {"aten.randn", 18, aten_draw<"RandomNormalLike">, "Concat Expand RandomNormalLike"},
    {"aten.randn", 22, refused, "", "all: ONNX Runtime has no kernel of the random operators from opset 22 on"},
    {"aten.randn_like", 18, aten_draw<"RandomNormalLike">, "Expand RandomNormalLike"},
    {"aten.randn_like", 22, refused, "", "all: ONNX Runtime has no kernel of the random operators from opset 22 on"},
    {"aten.randint", 18, aten_randint, "Add Cast Concat Expand Floor Mul RandomUniformLike Sub"},
    {"aten.randint", 22, refused, "", "all: ONNX Runtime has no kernel of the random operators from opset 22 on"},
    {"aten.randint_like", 18, aten_randint, "Cast Expand Floor Mul RandomUniformLike"},
    {"aten.randint_like", 22, refused, "", "all: ONNX Runtime has no kernel of the random operators from opset 22 on"},
    {"aten.bernoulli", 18, aten_bernoulli, "Cast Expand Less RandomUniformLike"},
    {"aten.bernoulli", 22, refused, "", "all: ONNX Runtime has no kernel of the random operators from opset 22 on"},
};

}  // namespace

std::span<const OnnxTranslationEntry> random_translations() { return kEntries; }

}  // namespace exporters::onnx
