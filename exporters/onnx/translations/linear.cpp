// Matrix products. Weights stay as the checkpoint has them ([out, in]): Gemm(transB=1), never a Transpose of a weight.
#include "exporters/onnx/translations/table.h"

#include <algorithm>
#include <cctype>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

bool has_gemm(c10::ScalarType dtype) { return c10::isFloatingType(dtype); }

c10::ScalarType product_dtype(const OpCall& call) {
  const c10::ScalarType dtype = call.result().dtype;
  if (c10::isComplexType(dtype)) {
    call.refuse("complex tensors have no ONNX operators");
  }
  // The CPU provider multiplies matrices of 32- and 64-bit integers.
  return c10::isIntegralType(dtype, true) && dtype != c10::kLong ? c10::kInt : Context::compute_dtype(dtype);
}

// x [..., in] · weightᵀ (+ bias), weight [out, in].
OnnxValue linear(Context& context, const OnnxValue& x, const Sizes& sizes, const OnnxValue& weight,
                 const OnnxValue& bias, const Expr& features) {
  if (!has_gemm(x.dtype)) {
    const OnnxValue product = context.emit("MatMul", {x, context.transpose(weight, {1, 0})});
    return bias.present() ? context.emit("Add", {product, bias}) : product;
  }
  Sizes result(sizes.begin(), sizes.end() - 1);
  Expr rows = 1;
  for (const Expr& size : result) {
    rows = rows * size;
  }
  result.push_back(features);
  const OnnxValue matrix = context.as_matrix(x, sizes);
  const OnnxValue product = context.emit("Gemm", {matrix, weight, bias}, {{"transB", 1}});
  return context.reshape(product, {rows, features}, result);
}

OnnxValues aten_linear(Context& context, const OpCall& call) {
  const TensorMeta& weight = call.meta("weight");
  if (weight.dim() != 2) {
    call.refuse("a weight that is not a matrix is not supported");
  }
  const c10::ScalarType dtype = product_dtype(call);
  const OnnxValue bias = call.has("bias") ? call.operand("bias", dtype) : OnnxValue{};
  return {linear(context, call.operand("input", dtype), call.meta("input").sizes, call.operand("weight", dtype), bias,
                 weight.sizes[0])};
}

// A 2-D transpose of something, which Gemm takes as it is.
std::optional<OnnxValue> untransposed(const Context& context, const OnnxValue& value) {
  const auto* transposed = context.transposed_from(value);
  if (transposed != nullptr && transposed->perm == std::vector<int64_t>{1, 0}) {
    return transposed->source;
  }
  return std::nullopt;
}

OnnxValue matmul(Context& context, const OpCall& call, const char* first, const char* second) {
  const c10::ScalarType dtype = product_dtype(call);
  const OnnxValue a = call.operand(first, dtype);
  const OnnxValue b = call.operand(second, dtype);
  const TensorMeta& a_meta = call.meta(first);
  const TensorMeta& b_meta = call.meta(second);
  if (b_meta.dim() == 2 && a_meta.dim() >= 2 && has_gemm(dtype)) {
    if (const auto weight = untransposed(context, b)) {
      return linear(context, a, a_meta.sizes, *weight, {}, b_meta.sizes[1]);
    }
  }
  return context.emit("MatMul", {a, b});
}

OnnxValues aten_matmul(Context& context, const OpCall& call) { return {matmul(context, call, "self", "other")}; }
OnnxValues aten_mm(Context& context, const OpCall& call) { return {matmul(context, call, "self", "mat2")}; }
OnnxValues aten_mv(Context& context, const OpCall& call) { return {matmul(context, call, "self", "vec")}; }
OnnxValues aten_dot(Context& context, const OpCall& call) { return {matmul(context, call, "self", "tensor")}; }

OnnxValues aten_outer(Context& context, const OpCall& call) {
  const char* other = "vec2";
  const c10::ScalarType dtype = call.result().dtype;
  return {context.emit("Mul", {context.unsqueeze(call.operand("self", dtype), {1}),
                               context.unsqueeze(call.operand(other, dtype), {0})})};
}

OnnxValue scaled(Context& context, const OpCall& call, const OnnxValue& x, const char* factor) {
  const Argument& value = call.arg(factor);
  if (value == Argument(int64_t{1}) || value == Argument(1.0)) {
    return x;
  }
  return context.emit("Mul", {x, call.operand(factor, x.dtype)});
}

// beta * self + alpha * product. With beta 0, self is not looked at: its NaNs don't count.
OnnxValue plus_self(Context& context, const OpCall& call, const OnnxValue& product) {
  const OnnxValue right = scaled(context, call, product, "alpha");
  const Argument& beta = call.arg("beta");
  if (beta == Argument(int64_t{0}) || beta == Argument(0.0)) {
    return right;
  }
  return context.emit("Add", {scaled(context, call, call.operand("self", right.dtype), "beta"), right});
}

OnnxValues aten_addmm(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = product_dtype(call);
  const bool plain_beta = call.arg("beta") == Argument(int64_t{1}) || call.arg("beta") == Argument(1.0);
  const bool plain_alpha = call.arg("alpha") == Argument(int64_t{1}) || call.arg("alpha") == Argument(1.0);
  if (!has_gemm(dtype) || !plain_beta || !plain_alpha) {
    return {plus_self(context, call, matmul(context, call, "mat1", "mat2"))};
  }
  const OnnxValue a = call.operand("mat1", dtype);
  const OnnxValue b = call.operand("mat2", dtype);
  const OnnxValue c = call.operand("self", dtype);
  if (const auto weight = untransposed(context, b)) {
    return {context.emit("Gemm", {a, *weight, c}, {{"transB", 1}})};
  }
  return {context.emit("Gemm", {a, b, c})};
}

OnnxValues aten_baddbmm(Context& context, const OpCall& call) {
  return {plus_self(context, call, matmul(context, call, "batch1", "batch2"))};
}

OnnxValues aten_addbmm(Context& context, const OpCall& call) {
  const OnnxValue products = matmul(context, call, "batch1", "batch2");
  return {
      plus_self(context, call,
                context.emit("ReduceSum", {products, context.constant(std::vector<int64_t>{0})}, {{"keepdims", 0}}))};
}

OnnxValues aten_addmv(Context& context, const OpCall& call) {
  return {plus_self(context, call, matmul(context, call, "mat", "vec"))};
}

// torch allows upper-case letters and spaces, ONNX's Einsum too; the provider has no kernel for narrow types.
OnnxValues aten_einsum(Context& context, const OpCall& call) {
  const c10::ScalarType dtype = product_dtype(call);
  OnnxValues operands;
  for (const OnnxValue& tensor : call.tensors("tensors")) {
    operands.push_back(context.cast(tensor, dtype));
  }
  std::string equation = call.string("equation");
  equation.erase(std::remove_if(equation.begin(), equation.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
                 equation.end());
  return {context.emit("Einsum", operands, {{"equation", equation}})};
}

// Rows of `input` [S, K] stand next to each other by group, up to the group's number in `offs` [E]: a product with the
// group's matrix of `weight` [E, K, N] for each, also for those without rows, one below the other. Rows behind the last
// group are zeros.
OnnxValue grouped_product(Context& context, const OpCall& call, const char* input, const char* weight) {
  const TensorMeta& rows = call.meta(input);
  const TensorMeta& matrices = call.meta(weight);
  const auto groups = matrices.sizes.front().as_int();
  if (rows.dim() != 2 || matrices.dim() != 3 || !groups || *groups < 1) {
    call.refuse("only groups of rows, each with a matrix of its own, are supported");
  }
  const c10::ScalarType dtype = product_dtype(call);
  const OnnxValue self = call.operand(input, dtype);
  OnnxValue stack = call.operand(weight, dtype);
  const auto* transposed = context.transposed_from(stack);
  const bool is_transposed = transposed != nullptr && transposed->perm == std::vector<int64_t>{0, 2, 1};
  stack = is_transposed ? transposed->source : stack;
  const OnnxValue ends = context.cast(call.tensor("offs"), c10::kLong);
  OnnxValue start = context.constant(std::vector<int64_t>{0});
  OnnxValues products;
  for (int64_t group = 0; group < *groups; ++group) {
    const OnnxValue end = context.slice(ends, 0, context.constant(std::vector<int64_t>{group}),
                                        context.constant(std::vector<int64_t>{group + 1}));
    const OnnxValue matrix = context.emit("Gather", {stack, context.constant(group)}, {{"axis", 0}});
    products.push_back(context.emit("Gemm", {context.slice(self, 0, start, end), matrix}, {{"transB", is_transposed}}));
    start = end;
  }
  const OnnxValue rest = context.emit("Sub", {context.size(rows.sizes[0]), start});
  const OnnxValue shape = context.emit("Concat", {rest, context.size(matrices.sizes[2])}, {{"axis", 0}});
  products.push_back(context.emit("Expand", {context.constant(0.0, dtype), shape}));
  return context.emit("Concat", products, {{"axis", 0}});
}

OnnxValues aten_grouped_mm(Context& context, const OpCall& call) {
  return {grouped_product(context, call, "self", "mat2")};
}

OnnxValues transformers_grouped_mm_fallback(Context& context, const OpCall& call) {
  return {grouped_product(context, call, "input", "weight")};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.linear", 18, aten_linear, "Add Gemm MatMul Reshape Transpose", "a weight that is no matrix"},
    {"aten.matmul", 18, aten_matmul, "MatMul"},
    {"aten.mm", 18, aten_mm, "MatMul"},
    {"aten.bmm", 18, aten_mm, "MatMul"},
    {"aten.mv", 18, aten_mv, "MatMul"},
    {"aten.dot", 18, aten_dot, "MatMul"},
    {"aten.outer", 18, aten_outer, "Mul Unsqueeze"},
    {"aten.addmm", 18, aten_addmm, "Add Gemm MatMul Mul"},
    {"aten.baddbmm", 18, aten_baddbmm, "Add MatMul Mul"},
    {"aten.addbmm", 18, aten_addbmm, "Add MatMul Mul ReduceSum"},
    {"aten.addmv", 18, aten_addmv, "Add MatMul Mul"},
    {"aten.einsum", 18, aten_einsum, "Einsum"},
    {"aten.linalg_matmul", 18, aten_matmul, "MatMul"},
    // Experts.
    {"aten._grouped_mm", 18, aten_grouped_mm, "Concat Expand Gather Gemm Slice Sub",
     "other forms than groups of rows, each with a matrix of its own, as many as the trace knows"},
    {"transformers.grouped_mm_fallback", 18, transformers_grouped_mm_fallback, "Concat Expand Gather Gemm Slice Sub",
     "groups that are not as many as the trace knows"},
};

}  // namespace

std::span<const OnnxTranslationEntry> linear_translations() { return kEntries; }

}  // namespace exporters::onnx
