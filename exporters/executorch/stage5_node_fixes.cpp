// ── Stage 5: Node fixes ──
//
// Rewrites of single nodes, before the program is taken apart into core ATen and after it. To extend:
// register_fx_node_fix("executorch", fix, {.name, .reason, .link}).

#include "exporters/executorch/stages.h"
#include "exporters/passes/emit.h"
#include "exporters/passes/fixes.h"
#include "exporters/passes/scalar_axes.h"

#include <array>
#include <cmath>

namespace exporters::executorch {
namespace {

constexpr int64_t kMostFactors = 4;

// An exponent that is a small whole number.
std::optional<int64_t> factors_of(const Argument& exponent) {
  if (const auto* integer = exponent.get_if<int64_t>()) {
    return *integer >= 1 && *integer <= kMostFactors ? std::optional(*integer) : std::nullopt;
  }
  const auto* real = exponent.get_if<double>();
  if (real == nullptr || *real != std::floor(*real) || *real < 1 || *real > kMostFactors) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*real);
}

// pow of a size, which has no kernel.
bool fix_sym_pow(Graph& graph, Node& node) {
  if (!node.is_call("_operator.pow") || !node.arg(0).is_value()) {
    return false;
  }
  const auto factors = factors_of(node.arg(1));
  if (!factors) {
    return false;
  }
  const Graph::InsertGuard guard(graph, &node);
  Value* base = node.arg(0).value();
  Value* product = base;
  for (int64_t i = 1; i < *factors; ++i) {
    const Expr total = product->sym() * base->sym();
    product = graph.add_output(graph.call("_operator.mul", {product, base}), base->kind());
    product->sym() = total;
  }
  node.value()->replace_all_uses_with(product);
  graph.erase(&node);
  return true;
}

// Floating tensors only: there a product of the same number is what the kernel of pow computes, too.
bool fix_pow(Graph& graph, Node& node) {
  if (!node.is_call("aten.pow.Tensor_Scalar")) {
    return false;
  }
  const auto factors = factors_of(node.arg(1));
  Value* base = node.arg(0).value();
  if (!factors || *factors < 2 || !c10::isFloatingType(base->meta().dtype)) {
    return false;
  }
  const Graph::InsertGuard guard(graph, &node);
  Emit emit(graph, node);
  Value* product = base;
  for (int64_t i = 1; i < *factors; ++i) {
    product = emit.call("aten.mul.Tensor", {product, base}, node.output()->meta());
  }
  node.output()->replace_all_uses_with(product);
  graph.erase(&node);
  return true;
}

// amax and amin of negative axes.
bool fix_negative_dims(Graph&, Node& node) {
  if (!(node.is_call("aten.amax.default") || node.is_call("aten.amin.default")) || node.arg_count() < 2 ||
      !node.arg(1).is_list()) {
    return false;
  }
  const int64_t rank = node.arg(0).value()->meta().dim();
  bool changed = false;
  Argument::List dims;
  for (const Argument& dim : node.arg(1).list()) {
    const auto* axis = dim.get_if<int64_t>();
    if (axis != nullptr && *axis < 0) {
      dims.emplace_back(*axis + rank);
      changed = true;
    } else {
      dims.push_back(dim);
    }
  }
  if (changed) {
    node.set_arg(1, Argument(std::move(dims)));
  }
  return changed;
}

// Kernels and the ops that arithmetic is made of promote two tensors, not an integer tensor and a fraction.
bool fix_fractions(Graph& graph, Node& node) {
  static constexpr std::array<std::string_view, 8> kArithmetic = {
      "aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor",  "aten.sub.Scalar",
      "aten.mul.Tensor", "aten.mul.Scalar", "aten.rsub.Scalar", "aten.div.Scalar"};
  if (std::none_of(kArithmetic.begin(), kArithmetic.end(), [&](std::string_view op) { return node.is_call(op); }) ||
      !node.arg(0).is_value()) {
    return false;
  }
  Value* self = node.arg(0).value();
  const c10::ScalarType dtype = node.output()->meta().dtype;
  if (!c10::isIntegralType(self->meta().dtype, /*includeBool=*/true) || !c10::isFloatingType(dtype) ||
      node.arg(1).is_value()) {
    return false;
  }
  const Graph::InsertGuard guard(graph, &node);
  TensorMeta meta = self->meta();
  meta.dtype = dtype;
  node.set_arg(
      0, Argument(
             Emit(graph, node).call("aten._to_copy.default", {self}, dense_meta(std::move(meta)), {{"dtype", dtype}})));
  return true;
}

// Padding that takes elements away: a slice.
bool fix_negative_padding(Graph& graph, Node& node) {
  if (!node.is_call("aten.constant_pad_nd.default") || !node.arg(1).is_list()) {
    return false;
  }
  Argument::List pads = node.arg(1).list();
  Value* tensor = node.arg(0).value();
  const Graph::InsertGuard guard(graph, &node);
  Emit emit(graph, node);
  bool changed = false;
  for (size_t i = 0; i + 1 < pads.size(); i += 2) {
    const auto taken = [&](size_t at) {
      const auto* pad = pads[at].get_if<int64_t>();
      return pad != nullptr && *pad < 0 ? -*pad : 0;
    };
    const int64_t first = taken(i);
    const int64_t last = taken(i + 1);
    if (first + last == 0) {
      continue;
    }
    const int64_t axis = tensor->meta().dim() - 1 - static_cast<int64_t>(i / 2);
    TensorMeta meta = tensor->meta();
    const Argument end = emit.sum(emit.size(tensor, axis), Argument(-last));
    Expr& size = meta.sizes.at(static_cast<size_t>(axis));
    size = size - Expr(first + last);
    tensor = emit.call("aten.slice.Tensor", {tensor, axis, first, end}, meta);
    pads[i] = first > 0 ? Argument(int64_t{0}) : pads[i];
    pads[i + 1] = last > 0 ? Argument(int64_t{0}) : pads[i + 1];
    changed = true;
  }
  if (changed) {
    node.set_arg(0, Argument(tensor));
    node.set_arg(1, Argument(std::move(pads)));
  }
  return changed;
}

// A start counted from the end of an axis of fixed size.
bool fix_negative_slice_start(Graph&, Node& node) {
  if (!node.is_call("aten.slice.Tensor") || node.arg_count() < 3) {
    return false;
  }
  const auto* start = node.arg(2).get_if<int64_t>();
  const TensorMeta& meta = node.arg(0).value()->meta();
  int64_t axis = node.arg(1).as<int64_t>();
  axis = axis < 0 ? axis + meta.dim() : axis;
  const auto size = meta.sizes.at(static_cast<size_t>(axis)).as_int();
  if (start == nullptr || *start >= 0 || !size) {
    return false;
  }
  node.set_arg(2, Argument(std::max<int64_t>(0, *start + *size)));
  return true;
}

}  // namespace

void register_node_fixes() {
  register_fx_node_fix("executorch", fix_sym_pow,
                       {"fix_sym_pow", "The runtime has no power of sizes; small ones are products."});
  register_fx_node_fix(
      "executorch", fix_pow,
      {"fix_pow", "Small whole powers of tensors are products, which are faster and which delegates run."});
  register_fx_node_fix("executorch", fix_negative_dims,
                       {"fix_negative_dims", "The kernels of amax and amin take axes counted from the first one."});
  register_fx_node_fix("executorch", fix_negative_slice_start,
                       {"fix_negative_slice_start", "Delegates take parts from places counted from the beginning."});
  register_fx_node_fix("executorch", fix_fractions,
                       {"fix_fractions", "The kernels of arithmetic refuse an integer tensor with a fraction."});
  register_fx_node_fix("executorch", fix_negative_padding,
                       {"fix_negative_padding", "The kernel of constant_pad_nd refuses to take elements away."});
  register_fx_node_fix("executorch", give_scalars_an_axis,
                       {"give_scalars_an_axis", "Kernels along axes end the process for a tensor that has none."});
}

Stage node_fixes_stage() {
  return {5, "Node fixes",
          "After the trace, and again after ops are taken apart, each node of the program is offered to these rewrites "
          "until none of them changes anything.",
          "`register_fx_node_fix(\"executorch\", fix, {name, reason, link})`; see docs/adding_a_fix.md.",
          node_fix_entries("executorch")};
}

}  // namespace exporters::executorch
