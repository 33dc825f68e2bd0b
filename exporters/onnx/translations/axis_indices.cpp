#include "exporters/onnx/translations/axis_indices.h"

#include <ATen/ops/broadcast_tensors.h>
#include <ATen/ops/stack.h>

#include <algorithm>

namespace exporters::onnx {

AxisIndices::AxisIndices(TranslationContext& context, const OpCall& call) {
  const OnnxValues tensors = call.tensors("indices");
  const auto metas = call.metas("indices");
  int64_t axis = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].present()) {
      ++axis;
      continue;
    }
    if (!is_mask(*metas[i])) {
      indices_.push_back({axis++, context.cast(tensors[i], c10::kLong), metas[i]->dim()});
      continue;
    }
    if (metas[i]->dim() == 0) {
      call.refuse("a 0-d mask as an index is not supported");
    }
    const OnnxValue coordinates = context.emit("NonZero", {context.cast(tensors[i], c10::kBool)});
    for (int64_t row = 0; row < metas[i]->dim(); ++row) {
      indices_.push_back({axis++, context.emit("Gather", {coordinates, context.constant(row)}, {{"axis", 0}}), 1});
    }
  }
}

bool AxisIndices::adjacent() const {
  for (size_t i = 1; i < indices_.size(); ++i) {
    if (indices_[i].axis != indices_[0].axis + static_cast<int64_t>(i)) {
      return false;
    }
  }
  return true;
}

int64_t AxisIndices::rank() const {
  int64_t rank = 0;
  for (const AxisIndex& index : indices_) {
    rank = std::max(rank, index.rank);
  }
  return rank;
}

std::vector<int64_t> AxisIndices::to_front(int64_t rank) const {
  std::vector<int64_t> perm;
  for (const AxisIndex& index : indices_) {
    perm.push_back(index.axis);
  }
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::find(perm.begin(), perm.begin() + count(), axis) == perm.begin() + count()) {
      perm.push_back(axis);
    }
  }
  return perm;
}

OnnxValue AxisIndices::shape(TranslationContext& context) const {
  OnnxValue sum = indices_.front().index;
  for (size_t i = 1; i < indices_.size(); ++i) {
    sum = context.emit("Add", {sum, indices_[i].index});
  }
  return context.emit("Shape", {sum});
}

// What `stacked` gives, where all indices are known; else undefined.
at::Tensor AxisIndices::stacked_constants(TranslationContext& context) const {
  std::vector<at::Tensor> known;
  for (const AxisIndex& index : indices_) {
    known.push_back(context.constant_tensor(index.index));
    if (!known.back().defined()) {
      return {};
    }
  }
  return at::stack(at::broadcast_tensors(known), -1);
}

OnnxValue AxisIndices::stacked(TranslationContext& context) const {
  if (const at::Tensor known = stacked_constants(context); known.defined()) {
    return context.constant(known);
  }
  const OnnxValue full = shape(context);
  OnnxValues columns;
  for (const AxisIndex& index : indices_) {
    columns.push_back(context.unsqueeze(context.emit("Expand", {index.index, full}), {-1}));
  }
  return context.emit("Concat", columns, {{"axis", -1}});
}

}  // namespace exporters::onnx
