#include "exporters/passes/view_ops.h"

#include "exporters/graph/op_name.h"
#include "exporters/support/error.h"

#include <ATen/TensorUtils.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace exporters {
namespace {

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

/// A view node's arguments by name, with the schema's defaults.
class Arguments {
 public:
  explicit Arguments(const Node& node)
      : node_(node), op_(lookup_operator(node.target())), bound_(bind_arguments(node, op_.schema())) {}

  Argument get(std::string_view name) const {
    const auto index = op_.schema().argumentIndexWithName(name);
    ensure(index.has_value(), "{} has no argument '{}'", node_.describe(), name);
    return bound_[*index] != nullptr ? *bound_[*index] : default_of(op_.schema().arguments()[*index]);
  }

  int64_t integer(std::string_view name) const {
    const Argument argument = get(name);
    ensure(argument.is<int64_t>(), "{}: '{}' is not a plain number", node_.describe(), name);
    return argument.as<int64_t>();
  }

  bool flag(std::string_view name) const {
    const Argument argument = get(name);
    return argument.is<bool>() && argument.as<bool>();
  }

  std::vector<int64_t> integers(std::string_view name) const {
    std::vector<int64_t> values;
    const Argument argument = get(name);
    ensure(argument.is_list(), "{}: '{}' is not a list", node_.describe(), name);
    for (const Argument& item : argument.list()) {
      ensure(item.is<int64_t>(), "{}: '{}' is not a list of plain numbers", node_.describe(), name);
      values.push_back(item.as<int64_t>());
    }
    return values;
  }

 private:
  Argument default_of(const c10::Argument& formal) const {
    ensure(formal.default_value().has_value(), "{} lacks the argument '{}'", node_.describe(), formal.name());
    const c10::IValue& value = *formal.default_value();
    if (value.isInt()) {
      return Argument(value.toInt());
    }
    if (value.isBool()) {
      return Argument(value.toBool());
    }
    ensure(value.isNone(), "{}: the default of '{}' is of an unexpected kind", node_.describe(), formal.name());
    return {};
  }

  const Node& node_;
  c10::OperatorHandle op_;
  std::vector<const Argument*> bound_;
};

int64_t wrap(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

// ── Inverses ──

struct Write {
  Emit& emit;
  const Node& view;
  const Value& out;
  Value* base;
  Value* contents;

  Arguments args() const { return Arguments(view); }
  int64_t rank() const { return base->meta().dim(); }
  TensorMeta whole() const { return dense_meta(base->meta()); }
};

using Inverse = Value* (*)(const Write&);

Value* write_all(const Write& w) { return w.contents; }

Value* write_reshaped(const Write& w) {
  if (w.contents->meta().sizes == w.base->meta().sizes) {
    return w.contents;
  }
  return w.emit.call("aten.reshape.default", {w.contents, w.emit.sizes(w.base)}, contiguous_meta(w.base->meta()));
}

Value* write_select(const Write& w) {
  const Arguments args = w.args();
  return w.emit.call("aten.select_scatter.default", {w.base, w.contents, args.get("dim"), args.get("index")},
                     w.whole());
}

Value* write_unbind(const Write& w) {
  return w.emit.call("aten.select_scatter.default",
                     {w.base, w.contents, w.args().get("dim"), static_cast<int64_t>(w.out.output_index())}, w.whole());
}

Value* write_slice(const Write& w) {
  const Arguments args = w.args();
  return w.emit.call("aten.slice_scatter.default",
                     {w.base, w.contents, args.get("dim"), args.get("start"), args.get("end"), args.get("step")},
                     w.whole());
}

Value* write_narrow(const Write& w) {
  const Arguments args = w.args();
  const int64_t dim = wrap(args.integer("dim"), w.rank());
  Argument start = args.get("start");
  if (start.is<int64_t>() && start.as<int64_t>() < 0) {
    start = w.emit.sum(w.emit.size(w.base, dim), start);
  }
  const Argument end = w.emit.sum(start, args.get("length"));
  return w.emit.call("aten.slice_scatter.default", {w.base, w.contents, dim, start, end}, w.whole());
}

int64_t split_axis(const Write& w) {
  const std::string& target = w.view.target();
  if (target.starts_with("aten.hsplit.")) {
    return w.rank() == 1 ? 0 : 1;
  }
  if (target.starts_with("aten.vsplit.")) {
    return 0;
  }
  if (target.starts_with("aten.dsplit.")) {
    return 2;
  }
  return wrap(w.args().integer("dim"), w.rank());
}

// The pieces lie one after the other.
Value* write_piece(const Write& w) {
  const int64_t dim = split_axis(w);
  const std::vector<Value*>& pieces = w.out.list()->elements();
  Argument start = 0;
  for (size_t i = 0; i < w.out.output_index(); ++i) {
    start = w.emit.sum(start, w.emit.size(pieces[i], dim));
  }
  const bool is_last = w.out.output_index() + 1 == pieces.size();
  const Argument end =
      is_last ? Argument(kToTheEnd) : w.emit.sum(start, w.emit.size(pieces[w.out.output_index()], dim));
  return w.emit.call("aten.slice_scatter.default", {w.base, w.contents, dim, start, end}, w.whole());
}

Value* write_unsqueezed(const Write& w) {
  return w.emit.call("aten.squeeze.dim", {w.contents, w.args().get("dim")}, w.whole());
}

Value* write_squeezed(const Write& w) {
  if (w.out.meta().dim() == w.rank()) {
    return w.contents;
  }
  return w.emit.call("aten.unsqueeze.default", {w.contents, w.args().get("dim")}, w.whole());
}

Value* write_transposed(const Write& w) {
  const std::vector<Argument>& args = w.view.args();
  std::vector<Argument> again = {w.contents};
  again.insert(again.end(), args.begin() + 1, args.end());
  Value* result = w.emit.call(w.view.target(), std::move(again), w.whole());
  result->node()->set_kwargs(w.view.kwargs());
  return result;
}

// Axes are reversed (numpy_T), or the last two swapped (mT), with complex values conjugated (mH).
Value* write_swapped(const Write& w) { return w.emit.call(w.view.target(), {w.contents}, w.whole()); }

Value* write_permuted(const Write& w) {
  const std::vector<int64_t> order = w.args().integers("dims");
  Argument::List inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[wrap(order[i], w.rank())] = Argument(static_cast<int64_t>(i));
  }
  return w.emit.call("aten.permute.default", {w.contents, std::move(inverse)}, w.whole());
}

Value* write_moved(const Write& w) {
  const Arguments args = w.args();
  return w.emit.call(w.view.target(), {w.contents, args.get("destination"), args.get("source")}, w.whole());
}

// An expanded tensor has several elements in one place and cannot be written to, unless nothing is repeated.
Value* write_expanded(const Write& w) {
  ensure(w.out.meta().numel() == w.base->meta().numel(), "{} is written through, where several elements share a place",
         w.view.describe());
  return write_reshaped(w);
}

Value* write_diagonal(const Write& w) {
  const Arguments args = w.args();
  return w.emit.call("aten.diagonal_scatter.default",
                     {w.base, w.contents, args.get("offset"), args.get("dim1"), args.get("dim2")}, w.whole());
}

// as_strided speaks of storage, so that storage has to be the tensor that is viewed and nothing else.
Value* write_strided(const Write& w) {
  const TensorMeta& meta = w.view.arg(0).value()->meta();
  ensure(meta.strides == contiguous_meta(meta).strides && meta.storage_offset == Expr(0),
         "{} is written through, which can be done only where it views a whole contiguous tensor", w.view.describe());
  const Arguments args = w.args();
  return w.emit.call("aten.as_strided_scatter.default",
                     {w.base, w.contents, args.get("size"), args.get("stride"), args.get("storage_offset")}, w.whole());
}

// Elements of another size are parts of the last axis, which therefore has to lie in one piece.
Value* write_dtype(const Write& w) {
  const bool same_size = c10::elementSize(w.out.meta().dtype) == c10::elementSize(w.base->meta().dtype);
  if (!same_size) {
    Value* whole = w.emit.call("aten.clone.default", {w.contents}, contiguous_meta(w.contents->meta()),
                               {{"memory_format", c10::MemoryFormat::Contiguous}});
    return w.emit.call("aten.view.dtype", {whole, w.base->meta().dtype}, contiguous_meta(w.base->meta()));
  }
  return w.emit.call("aten.view.dtype", {w.contents, w.base->meta().dtype}, w.whole());
}

Value* write_real_pairs(const Write& w) { return w.emit.call("aten.view_as_complex.default", {w.contents}, w.whole()); }
Value* write_complex(const Write& w) { return w.emit.call("aten.view_as_real.default", {w.contents}, w.whole()); }

Value* write_part(const Write& w, bool is_real) {
  if (!c10::isComplexType(w.base->meta().dtype)) {
    return w.contents;
  }
  TensorMeta part = contiguous_meta(w.out.meta());
  Value* other = w.emit.call(is_real ? "aten.imag.default" : "aten.real.default", {w.base}, part);
  Value* real = is_real ? w.contents : other;
  return w.emit.call("aten.complex.default", {real, is_real ? other : w.contents}, contiguous_meta(w.base->meta()));
}
Value* write_real(const Write& w) { return write_part(w, true); }
Value* write_imaginary(const Write& w) { return write_part(w, false); }

// Windows that do not overlap: their first elements lie `step` apart, so do their second ones, and so on.
Value* write_windows(const Write& w) {
  const Arguments args = w.args();
  const int64_t dim = wrap(args.integer("dimension"), w.rank());
  const int64_t size = args.integer("size");
  const int64_t step = args.integer("step");
  const auto windows = w.out.meta().sizes[dim].as_int();
  ensure(size <= step, "{} is written through, where windows share elements", w.view.describe());
  ensure(windows.has_value(), "{} is written through, with an unknown number of windows", w.view.describe());
  Value* result = w.base;
  TensorMeta column = w.contents->meta();
  column.sizes.pop_back();
  column.strides.pop_back();
  for (int64_t i = 0; i<size&& * windows> 0; ++i) {
    Value* elements = w.emit.call("aten.select.int", {w.contents, -1, i}, contiguous_meta(column));
    const int64_t end = i + (*windows - 1) * step + 1;
    result = w.emit.call("aten.slice_scatter.default", {result, elements, dim, i, end, step}, w.whole());
  }
  return result;
}

Value* write_conjugated(const Write& w) {
  if (!c10::isComplexType(w.base->meta().dtype)) {
    return w.contents;
  }
  return w.emit.call("aten.conj_physical.default", {w.contents}, w.whole());
}

const std::unordered_map<std::string_view, Inverse>& inverses() {
  static const std::unordered_map<std::string_view, Inverse> table = {
      {"aten.alias.default", write_all},
      {"aten.detach.default", write_all},
      {"aten.lift_fresh.default", write_all},
      {"aten.contiguous.default", write_all},
      {"aten.to.device", write_all},
      {"aten.to.dtype", write_all},
      {"aten.to.dtype_layout", write_all},
      {"aten.to.other", write_all},
      {"aten.type_as.default", write_all},
      {"aten.positive.default", write_all},
      {"aten.resolve_conj.default", write_all},
      {"aten.resolve_neg.default", write_all},
      {"aten.dropout.default", write_all},
      {"aten.alpha_dropout.default", write_all},
      {"aten.feature_dropout.default", write_all},
      {"aten.feature_alpha_dropout.default", write_all},
      {"aten.conj.default", write_conjugated},
      {"aten._conj.default", write_conjugated},
      {"aten.view.default", write_reshaped},
      {"aten._unsafe_view.default", write_reshaped},
      {"aten._reshape_alias.default", write_reshaped},
      {"aten.view_as.default", write_reshaped},
      {"aten.reshape.default", write_reshaped},
      {"aten.reshape_as.default", write_reshaped},
      {"aten.flatten.using_ints", write_reshaped},
      {"aten.unflatten.int", write_reshaped},
      {"aten.ravel.default", write_reshaped},
      {"aten.squeeze.default", write_reshaped},
      {"aten.squeeze.dims", write_reshaped},
      {"aten.atleast_1d.default", write_reshaped},
      {"aten.atleast_2d.default", write_reshaped},
      {"aten.atleast_3d.default", write_reshaped},
      {"aten.squeeze.dim", write_squeezed},
      {"aten.unsqueeze.default", write_unsqueezed},
      {"aten.expand.default", write_expanded},
      {"aten.expand_as.default", write_expanded},
      {"aten.broadcast_to.default", write_expanded},
      {"aten.select.int", write_select},
      {"aten.slice.Tensor", write_slice},
      {"aten.narrow.default", write_narrow},
      {"aten.unbind.int", write_unbind},
      {"aten.split.Tensor", write_piece},
      {"aten.split.sizes", write_piece},
      {"aten.split_with_sizes.default", write_piece},
      {"aten.chunk.default", write_piece},
      {"aten.tensor_split.sections", write_piece},
      {"aten.tensor_split.indices", write_piece},
      {"aten.unsafe_split.Tensor", write_piece},
      {"aten.unsafe_split_with_sizes.default", write_piece},
      {"aten.unsafe_chunk.default", write_piece},
      {"aten.hsplit.int", write_piece},
      {"aten.hsplit.array", write_piece},
      {"aten.vsplit.int", write_piece},
      {"aten.vsplit.array", write_piece},
      {"aten.dsplit.int", write_piece},
      {"aten.dsplit.array", write_piece},
      {"aten.transpose.int", write_transposed},
      {"aten.swapaxes.default", write_transposed},
      {"aten.swapdims.default", write_transposed},
      {"aten.t.default", write_transposed},
      {"aten.numpy_T.default", write_swapped},
      {"aten.mT.default", write_swapped},
      {"aten.mH.default", write_swapped},
      {"aten.matrix_H.default", write_swapped},
      {"aten.adjoint.default", write_swapped},
      {"aten.permute.default", write_permuted},
      {"aten.movedim.int", write_moved},
      {"aten.movedim.intlist", write_moved},
      {"aten.moveaxis.int", write_moved},
      {"aten.moveaxis.intlist", write_moved},
      {"aten.diagonal.default", write_diagonal},
      {"aten.linalg_diagonal.default", write_diagonal},
      {"aten.as_strided.default", write_strided},
      {"aten.view.dtype", write_dtype},
      {"aten.view_as_real.default", write_real_pairs},
      {"aten.real.default", write_real},
      {"aten.imag.default", write_imaginary},
      {"aten.unfold.default", write_windows},
      {"aten.view_as_complex.default", write_complex},
  };
  return table;
}

// ── Ops that view their input only sometimes ──

struct Question {
  const Node& node;
  const TensorMeta& in;
  const TensorMeta& out;
  const SampleSize& sample;
};

using IsView = bool (*)(const Question&);

std::vector<int64_t> samples(const std::vector<Expr>& exprs, const SampleSize& sample) {
  std::vector<int64_t> values;
  std::transform(exprs.begin(), exprs.end(), std::back_inserter(values), sample);
  return values;
}

bool reshape_is_view(const Question& q) {
  if (q.in.strides == contiguous_meta(q.in).strides) {
    return true;
  }
  return at::detail::computeStride(samples(q.in.sizes, q.sample), samples(q.in.strides, q.sample),
                                   samples(q.out.sizes, q.sample))
      .has_value();
}

bool same_layout(const Question& q) {
  return q.in.dtype == q.out.dtype && q.in.device == q.out.device && q.in.strides == q.out.strides;
}

bool to_is_view(const Question& q) { return same_layout(q) && !Arguments(q.node).flag("copy"); }

// Dropout gives its input back when it drops nothing.
bool dropout_is_view(const Question& q) {
  const Arguments args(q.node);
  const Argument p = args.get("p");
  return !args.flag("train") || p == Argument(0.0) || p == Argument(0);
}

bool is_real(const Question& q) { return !c10::isComplexType(q.in.dtype); }
bool always(const Question&) { return true; }

// Also those whose schemas do not say that they give their input back.
const std::unordered_map<std::string_view, IsView>& conditional_views() {
  static const std::unordered_map<std::string_view, IsView> table = {
      {"aten.reshape.default", reshape_is_view},
      {"aten.reshape_as.default", reshape_is_view},
      {"aten.flatten.using_ints", reshape_is_view},
      {"aten.ravel.default", reshape_is_view},
      {"aten.contiguous.default", same_layout},
      {"aten.to.device", to_is_view},
      {"aten.to.dtype", to_is_view},
      {"aten.to.dtype_layout", to_is_view},
      {"aten.to.other", to_is_view},
      {"aten.type_as.default", same_layout},
      {"aten.dropout.default", dropout_is_view},
      {"aten.alpha_dropout.default", dropout_is_view},
      {"aten.feature_dropout.default", dropout_is_view},
      {"aten.feature_alpha_dropout.default", dropout_is_view},
      {"aten.conj_physical.default", is_real},
      {"aten.resolve_conj.default", is_real},
      {"aten.resolve_neg.default", is_real},
      {"aten._unsafe_view.default", always},
      {"aten.unsafe_split.Tensor", always},
      {"aten.unsafe_split_with_sizes.default", always},
      {"aten.unsafe_chunk.default", always},
      {"aten.atleast_1d.default", always},
      {"aten.atleast_2d.default", always},
      {"aten.atleast_3d.default", always},
  };
  return table;
}

constexpr std::string_view kUnsure[] = {
    "aten.atleast_1d.Sequence",       "aten.atleast_2d.Sequence", "aten.atleast_3d.Sequence",
    "aten.broadcast_tensors.default", "aten.einsum.default",      "aten.meshgrid.default",
    "aten.meshgrid.indexing",         "aten.sum_to_size.default", "aten.pin_memory.default",
};

const TensorMeta& first_meta(const Value& output) {
  return output.elements().empty() ? output.meta() : output.elements()[0]->meta();
}

}  // namespace

AliasInfo aliasing_of(const Node& node, const SampleSize& sample) {
  if (node.kind() != Node::Kind::kCall || !is_dispatcher_target(node.target()) || node.outputs().empty()) {
    return {};
  }
  if (std::find(std::begin(kUnsure), std::end(kUnsure), node.target()) != std::end(kUnsure)) {
    return {Aliasing::kUnsure, 0};
  }
  if (const auto condition = conditional_views().find(node.target()); condition != conditional_views().end()) {
    const auto* input = node.arg_count() > 0 ? node.arg(0).get_if<Value*>() : nullptr;
    if (input == nullptr || !(*input)->is_tensor()) {
      return {};
    }
    const Question question{node, (*input)->meta(), first_meta(*node.output(0)), sample};
    return {condition->second(question) ? Aliasing::kView : Aliasing::kFresh, 0};
  }
  const auto input = aliased_input(lookup_operator(node.target()).schema(), 0);
  return input ? AliasInfo{Aliasing::kView, *input} : AliasInfo{};
}

Value* write_through(Emit& emit, const Node& view, const Value& out, Value* base, Value* contents) {
  const auto inverse = inverses().find(view.target());
  if (inverse == inverses().end()) {
    throw Error("A write to a view cannot be expressed without in-place ops", view.describe(),
                "Write to the viewed tensor, or clone the view before writing.");
  }
  return inverse->second(Write{emit, view, out, base, contents});
}

}  // namespace exporters
