#pragma once

#include <ATen/core/Tensor.h>

namespace exporters {

/// int64 [batch, length]: each token's position among those of its row that are not padding; 0 for padding.
/// @param mask [batch, length], 0 for padding
at::Tensor positions_of(const at::Tensor& mask);

}  // namespace exporters
