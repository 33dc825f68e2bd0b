#include "exporters/fake/spatial.h"

#include <fmt/format.h>

namespace exporters {

TensorMeta with_axis(TensorMeta meta, size_t axis) {
  const Expr stride = axis < meta.sizes.size() ? meta.sizes[axis] * meta.strides[axis] : Expr(1);
  meta.sizes.insert(meta.sizes.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  meta.strides.insert(meta.strides.begin() + static_cast<std::ptrdiff_t>(axis), stride);
  return meta;
}

void drop_axis(TensorMeta& meta, size_t axis) {
  meta.sizes.erase(meta.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  meta.strides.erase(meta.strides.begin() + static_cast<std::ptrdiff_t>(axis));
}

std::vector<int64_t> per_axis(const ShapeCall& call, const char* name, size_t count, std::vector<int64_t> otherwise) {
  std::vector<int64_t> values = call.integers(name);
  if (values.empty()) {
    values = std::move(otherwise);
  }
  if (values.size() == 1) {
    values.resize(count, values[0]);
  }
  if (values.size() != count) {
    call.refuse(fmt::format("{} has {} numbers for {} spatial axes", name, values.size(), count));
  }
  return values;
}

void require_spatial_rank(const ShapeCall& call, const TensorMeta& meta, size_t spatial) {
  if (meta.sizes.size() != spatial + 1 && meta.sizes.size() != spatial + 2) {
    call.refuse(fmt::format("the input has rank {}, not {} or {}", meta.dim(), spatial + 1, spatial + 2));
  }
}

std::vector<Expr> with_spatial(const TensorMeta& meta, const std::vector<Expr>& spatial) {
  std::vector<Expr> sizes(meta.sizes.begin(), meta.sizes.end() - static_cast<std::ptrdiff_t>(spatial.size()));
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  return sizes;
}

}  // namespace exporters
