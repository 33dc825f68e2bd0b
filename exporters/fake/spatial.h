#pragma once

#include "exporters/fake/shape_call.h"

// What ops on images, sequences and volumes share: a batch axis (optional), a channel axis, then the spatial ones.
namespace exporters {

/// The tensor seen with an axis of size 1 at that place, with the stride that ATen's unsqueeze gives it.
TensorMeta with_axis(TensorMeta meta, size_t axis);
void drop_axis(TensorMeta& meta, size_t axis);

/// An argument with one number for each spatial axis, where one number stands for all of them.
/// Nothing given: `otherwise`, repeated where it is one. Throws Error for another count.
std::vector<int64_t> per_axis(const ShapeCall& call, const char* name, size_t count, std::vector<int64_t> otherwise);

/// Throws Error unless the tensor has `spatial` axes behind channel and optional batch.
void require_spatial_rank(const ShapeCall& call, const TensorMeta& meta, size_t spatial);

/// The sizes with the last ones replaced.
std::vector<Expr> with_spatial(const TensorMeta& meta, const std::vector<Expr>& spatial);

}  // namespace exporters
