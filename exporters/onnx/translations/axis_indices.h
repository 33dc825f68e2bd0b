#pragma once

#include "exporters/onnx/translations/op_call.h"

#include <cstdint>
#include <vector>

namespace exporters::onnx {

/// One int64 tensor that indexes one axis.
struct AxisIndex {
  int64_t axis;
  OnnxValue index;
  int64_t rank;
};

/// What x[i, :, j, mask] indexes, axis by axis: the argument "indices" of aten.index and its kin. A bool mask of rank r
/// stands for r axes and becomes r vectors of coordinates.
class AxisIndices {
 public:
  /// Refuses a 0-d mask.
  AxisIndices(TranslationContext& context, const OpCall& call);

  bool empty() const { return indices_.empty(); }
  int64_t count() const { return static_cast<int64_t>(indices_.size()); }
  const AxisIndex& front() const { return indices_.front(); }
  /// The indexed axes stand side by side.
  bool adjacent() const;
  /// The rank that the indices have once they are broadcast against each other.
  int64_t rank() const;
  /// Which axes of a tensor of `rank` come first when the indexed ones move to the front.
  std::vector<int64_t> to_front(int64_t rank) const;
  /// The shape of the broadcast indices, as a 1-d value.
  OnnxValue shape(TranslationContext& context) const;
  /// The broadcast indices, one beside the other along a new last axis: what GatherND and ScatterND take.
  OnnxValue stacked(TranslationContext& context) const;

 private:
  at::Tensor stacked_constants(TranslationContext& context) const;

  std::vector<AxisIndex> indices_;
};

inline bool is_mask(const TensorMeta& meta) { return meta.dtype == c10::kBool || meta.dtype == c10::kByte; }

}  // namespace exporters::onnx
