// Ops that move elements.
#include "exporters/executorch/xnnpack/graph_builder.h"

#include <algorithm>
#include <array>
#include <limits>

namespace exporters::executorch::xnnpack {
namespace {

// The size of an axis that is taken whole, however long it is at run time.
constexpr uint32_t kWhole = 0;
constexpr size_t kMostJoined = 5;

bool may_be_empty(const TensorMeta& meta) {
  return std::any_of(meta.sizes.begin(), meta.sizes.end(), [](const Expr& size) { return size == Expr(0); });
}

// ── view ──

// Note [Heads of attention]
// XNNPACK infers one size of a reshape. Where batch and length are both open, the views that part the heads of
// attention and join them again have two, and so stand between delegates, as et_view, which moves nothing. Forms
// without such views were measured on six layers of attention of all-MiniLM-L6-v2's sizes, in turns on one thread, in
// processor time, at (batch, length) of (1, 128) and (8, 32). Against these 13 delegates:
// - weights as [heads, in, width], the heads of the result sliced and joined, one delegate: 0.96 and 1.02, since biases
//   are a pass of their own and joining copies twice;
// - such weights, and the views back outside, 12 delegates: 1.00 and 0.97;
// - every size fixed, one delegate, with neither views outside nor copies: 0.94 and 0.92. Of the whole model, which is
//   mostly products, that leaves 0.98 at (1, 128).
// That is not worth a rewrite of products.
std::string refuse_view(const OpCall& call, const EdgeProgram&) {
  if (symbolic_axes(call.result()) > 1) {
    return "a reshape to more than one size that is not fixed";
  }
  return may_be_empty(call.result()) ? "it has no elements" : "";
}

std::vector<uint32_t> shape_of(const TensorMeta& meta) {
  std::vector<uint32_t> shape;
  for (const Expr& size : meta.sizes) {
    shape.push_back(static_cast<uint32_t>(size.as_int().value_or(kWhole)));  // 0: what remains
  }
  return shape;
}

void lower_view(GraphBuilder& builder, const OpCall& call) {
  const uint32_t input = builder.value(*call.tensor("self"));
  builder.add(Reshape{shape_of(call.result()), input, builder.result(call)});
}

// ── permute ──

std::string refuse_permute(const OpCall& call, const EdgeProgram&) {
  return call.integers("dims") ? "" : "its order of axes is not known";
}

void lower_permute(GraphBuilder& builder, const OpCall& call) {
  Transpose node;
  const auto rank = call.result().dim();
  const std::vector<int64_t> dims = *call.integers("dims");
  for (const int64_t axis : dims) {
    node.permutation.push_back(static_cast<uint32_t>(axis < 0 ? axis + rank : axis));
  }
  node.input = builder.value(*call.tensor("self"));
  node.output = builder.result(call);
  builder.add(std::move(node));
}

// ── slice, select ──

struct Cut {
  int64_t axis = 0;
  int64_t start = 0;
  int64_t size = 0;
};

// A part of fixed size from a fixed place. Where the length of the axis is not known, it holds the part all the same:
// the op itself asks for that.
std::optional<Cut> cut_of(const OpCall& call, int64_t start, int64_t size) {
  const TensorMeta& meta = call.tensor("self")->meta();
  const int64_t axis = call.dim("dim", meta.dim());
  const auto length = meta.sizes[static_cast<size_t>(axis)].as_int();
  if (size < 1 || (!length && start < 0)) {
    return std::nullopt;
  }
  start = start < 0 ? start + *length : start;
  const bool fits = start >= 0 && (!length || start + size <= *length);
  return fits ? std::optional(Cut{axis, start, size}) : std::nullopt;
}

std::optional<Cut> slice_cut(const OpCall& call) {
  const auto start = call.is_none("start") ? std::optional<int64_t>(0) : call.integer("start");
  const int64_t axis = call.dim("dim", call.result().dim());
  const auto size = call.result().sizes[static_cast<size_t>(axis)].as_int();
  return start && size && call.integer("step") == 1 ? cut_of(call, *start, *size) : std::nullopt;
}

std::string refuse_slice(const OpCall& call, const EdgeProgram&) {
  return slice_cut(call) ? "" : "what it takes is not fixed, or it takes steps";
}

uint32_t add_slice(GraphBuilder& builder, const exporters::Value& self, const Cut& cut, uint32_t output) {
  Slice node;
  node.offsets.assign(self.meta().sizes.size(), 0);
  node.sizes.assign(self.meta().sizes.size(), kWhole);
  node.offsets[static_cast<size_t>(cut.axis)] = static_cast<uint32_t>(cut.start);
  node.sizes[static_cast<size_t>(cut.axis)] = static_cast<uint32_t>(cut.size);
  node.input = builder.value(self);
  node.output = output;
  builder.add(std::move(node));
  return output;
}

void lower_slice(GraphBuilder& builder, const OpCall& call) {
  add_slice(builder, *call.tensor("self"), *slice_cut(call), builder.result(call));
}

std::optional<Cut> select_cut(const OpCall& call) {
  const auto index = call.integer("index");
  return index ? cut_of(call, *index, 1) : std::nullopt;
}

std::string refuse_select(const OpCall& call, const EdgeProgram& edge) {
  return select_cut(call) ? refuse_view(call, edge) : "what it takes is not fixed";
}

void lower_select(GraphBuilder& builder, const OpCall& call) {
  const exporters::Value& self = *call.tensor("self");
  const Cut cut = *select_cut(call);
  std::vector<uint32_t> dims = builder.dims(self);
  dims[static_cast<size_t>(cut.axis)] = 1;
  const uint32_t part = add_slice(builder, self, cut, builder.temporary(self.meta(), dims));
  builder.add(Reshape{shape_of(call.result()), part, builder.result(call)});
}

// ── cat ──

std::string refuse_cat(const OpCall& call, const EdgeProgram&) {
  for (const exporters::Value* tensor : call.tensors("tensors")) {
    if (tensor->meta().dim() != call.result().dim()) {
      return "it joins a tensor of another rank";
    }
  }
  return {};
}

void lower_cat(GraphBuilder& builder, const OpCall& call) {
  const std::vector<exporters::Value*> tensors = call.tensors("tensors");
  const int64_t axis = call.dim("dim", call.result().dim());
  if (tensors.size() == 1) {
    builder.add(UnaryNode{Unary::kCopy, builder.value(*tensors[0]), builder.result(call)});
    return;
  }
  // At most five at a time: what is joined already is the first of the next ones.
  uint32_t joined = builder.value(*tensors[0]);
  std::vector<uint32_t> dims = builder.dims(*tensors[0]);
  for (size_t next = 1; next < tensors.size();) {
    Concatenate node;
    node.axis = static_cast<uint32_t>(axis);
    node.inputs.push_back(joined);
    for (; next < tensors.size() && node.inputs.size() < kMostJoined; ++next) {
      node.inputs.push_back(builder.value(*tensors[next]));
      dims[static_cast<size_t>(axis)] += builder.dims(*tensors[next])[static_cast<size_t>(axis)];
    }
    node.output = next == tensors.size() ? builder.result(call) : builder.temporary(call.result(), dims);
    joined = node.output;
    builder.add(std::move(node));
  }
}

// ── pad ──

std::string refuse_pad(const OpCall& call, const EdgeProgram&) {
  const auto pad = call.integers("pad");
  const bool fixed = pad && std::all_of(pad->begin(), pad->end(), [](int64_t size) { return size >= 0; });
  return fixed && call.number("value") ? "" : "its widths or its value are not known, or it cuts";
}

void lower_pad(GraphBuilder& builder, const OpCall& call) {
  const std::vector<int64_t> pad = *call.integers("pad");  // last axis first
  const auto rank = static_cast<size_t>(call.result().dim());
  Pad node;
  node.before.assign(rank, 0);
  node.after.assign(rank, 0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    node.before[rank - 1 - i] = static_cast<uint32_t>(pad[2 * i]);
    node.after[rank - 1 - i] = static_cast<uint32_t>(pad[2 * i + 1]);
  }
  node.value = static_cast<float>(*call.number("value"));
  node.input = builder.value(*call.tensor("self"));
  node.output = builder.result(call);
  builder.add(std::move(node));
}

}  // namespace

std::span<const NodeLowering> layout_lowerings() {
  static constexpr auto kTable = std::to_array<NodeLowering>({
      {"aten.view_copy.default", refuse_view, lower_view},
      {"aten.permute_copy.default", refuse_permute, lower_permute, true},  // its kernel is slow
      {"aten.slice_copy.Tensor", refuse_slice, lower_slice},
      {"aten.select_copy.int", refuse_select, lower_select},
      {"aten.cat.default", refuse_cat, lower_cat},
      {"aten.constant_pad_nd.default", refuse_pad, lower_pad},
  });
  return kTable;
}

}  // namespace exporters::executorch::xnnpack
