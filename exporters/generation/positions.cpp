#include "exporters/generation/positions.h"

#include "exporters/models/operators.h"

#include <ATen/ops/cumsum.h>

namespace exporters {

at::Tensor positions_of(const at::Tensor& mask) {
  return (at::cumsum(mask.to(at::kLong), -1) - 1).masked_fill(mask.eq(0), 0);
}

}  // namespace exporters
