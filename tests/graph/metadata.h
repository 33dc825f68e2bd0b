#pragma once

#include "exporters/graph/graph.h"

#include <vector>

namespace exporters {

/// Metadata of a contiguous CPU tensor.
inline TensorMeta meta_of(std::vector<int64_t> sizes, c10::ScalarType dtype = c10::ScalarType::Float) {
  TensorMeta meta;
  meta.dtype = dtype;
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    meta.sizes.insert(meta.sizes.begin(), Expr(sizes[i]));
    meta.strides.insert(meta.strides.begin(), Expr(stride));
    stride *= sizes[i];
  }
  return meta;
}

}  // namespace exporters
