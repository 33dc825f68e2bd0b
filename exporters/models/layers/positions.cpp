#include "exporters/models/layers/positions.h"

#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace exporters::models {

at::Tensor sinusoids(int64_t count, int64_t width) {
  at::Tensor table = at::empty({count, width}, at::TensorOptions().dtype(c10::ScalarType::Float));
  auto* values = table.mutable_data_ptr<float>();
  const int64_t sines = (width + 1) / 2;
  for (int64_t position = 0; position < count; ++position) {
    for (int64_t i = 0; i < width; ++i) {
      const int64_t pair = i < sines ? i : i - sines;
      const double exponent = static_cast<double>(2 * pair) / static_cast<double>(width);
      const double angle = static_cast<double>(position) / std::pow(10000.0, exponent);
      values[position * width + i] = static_cast<float>(i < sines ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

at::Tensor tensor2tensor_sinusoids(int64_t count, int64_t width, std::optional<int64_t> zero_row) {
  const int64_t half = width / 2;
  ensure(half >= 2, "sinusoidal positions of width {} are too narrow: they have at least 4 entries", width);
  const auto int64 = at::TensorOptions().dtype(c10::ScalarType::Long);
  const double step = std::log(10000.0) / static_cast<double>(half - 1);
  const at::Tensor frequencies = at::exp(at::arange(half, int64).to(c10::ScalarType::Float) * -step);
  const at::Tensor angles = at::arange(count, int64).to(c10::ScalarType::Float).unsqueeze(1) * frequencies.unsqueeze(0);
  at::Tensor table = at::cat({at::sin(angles), at::cos(angles)}, 1);
  if (width % 2 == 1) {
    table = at::cat({table, at::zeros({count, 1})}, 1);
  }
  if (zero_row) {
    table.select(0, *zero_row).zero_();
  }
  return table;
}

}  // namespace exporters::models
