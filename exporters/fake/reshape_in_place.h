#pragma once

#include "exporters/fake/fake_tensor.h"

namespace exporters {

/// Gives a fake tensor other sizes, strides and offset over the same storage, as `unsqueeze_` does.
void reshape_in_place(const at::Tensor& fake, TensorMeta meta);

}  // namespace exporters
