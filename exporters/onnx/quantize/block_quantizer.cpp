#include "exporters/onnx/quantize/block_quantizer.h"

#include "exporters/support/error.h"

#include <ATen/Parallel.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

namespace exporters::onnx {
namespace {

constexpr int64_t kLargestBlock = 256;

// Vectors that the compiler makes two SSE registers of, or one of AVX2. They go by reference: to pass one by value
// depends on which of the two it is.
constexpr int64_t kLanes = 8;
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = int32_t __attribute__((vector_size(4 * kLanes)));
using Bytes = uint8_t __attribute__((vector_size(kLanes)));

struct Extent {
  float lowest = 0;  // never above zero, which has a number of its own
  float highest = 0;
  bool finite = true;
};

// (number − zero point) × scale, with scales that the file can hold.
struct Grid {
  float scale = 0;
  int32_t zero_point = 0;
};

// One row, in either direction.
struct Row {
  float* values;
  int64_t columns;
  uint8_t* bytes;
  float* scales;
  uint8_t* zero_points;  // null when symmetric
  const QuantizationFormat& format;
  bool half_scales;
};

namespace anywhere {
#define EXPORTERS_TARGET
#include "exporters/onnx/quantize/block_kernels.inc"
#undef EXPORTERS_TARGET
}  // namespace anywhere

#if defined(__x86_64__)
// No fused multiply-adds, which AVX2 alone has not: the bytes must not depend on the processor.
namespace with_avx2 {
#define EXPORTERS_TARGET __attribute__((target("avx2")))
#include "exporters/onnx/quantize/block_kernels.inc"
#undef EXPORTERS_TARGET
}  // namespace with_avx2
#endif

enum class Direction { kQuantize, kDequantize };

auto* fastest(Direction direction) {
  const bool quantize = direction == Direction::kQuantize;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) {
    return quantize ? with_avx2::run_row<with_avx2::QuantizeRow> : with_avx2::run_row<with_avx2::DequantizeRow>;
  }
#endif
  return quantize ? anywhere::run_row<anywhere::QuantizeRow> : anywhere::run_row<anywhere::DequantizeRow>;
}

// Gives whether all values are finite.
bool run_rows(Direction direction, float* values, int64_t count, int64_t columns, const QuantizationFormat& format,
              bool half_scales, const QuantizedRows& rows) {
  auto* const run = fastest(direction);
  std::atomic<bool> finite = true;
  at::parallel_for(0, count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Row row{values + i * columns,
                    columns,
                    rows.values.data() + i * format.value_bytes(columns),
                    rows.scales.data() + i * format.blocks(columns),
                    format.symmetric ? nullptr : rows.zero_points.data() + i * format.zero_point_bytes(columns),
                    format,
                    half_scales};
      if (!run(row)) {
        finite = false;
      }
    }
  });
  return finite;
}

int64_t row_count(size_t values, int64_t columns) { return columns == 0 ? 0 : static_cast<int64_t>(values) / columns; }

}  // namespace

void check_format(const QuantizationFormat& format) {
  constexpr std::array<int64_t, 5> kBlocks = {16, 32, 64, 128, kLargestBlock};
  ensure(format.bits == 4 || format.bits == 8, "weights are rounded to 4 or 8 bits, not {}", format.bits);
  ensure(std::find(kBlocks.begin(), kBlocks.end(), format.block_size) != kBlocks.end(),
         "blocks have 16, 32, 64, 128 or 256 weights, not {}", format.block_size);
}

void quantize_rows(std::span<const float> values, int64_t columns, const QuantizationFormat& format,
                   c10::ScalarType scale_dtype, const QuantizedRows& rows) {
  check_format(format);
  std::fill(rows.zero_points.begin(), rows.zero_points.end(), 0);
  // A row has one type for both directions; this one only reads the values.
  auto* const read_only = const_cast<float*>(values.data());
  ensure(run_rows(Direction::kQuantize, read_only, row_count(values.size(), columns), columns, format,
                  scale_dtype == c10::kHalf, rows),
         "values that are not finite cannot be rounded to {} bits", format.bits);
}

void dequantize_rows(const QuantizedRows& rows, int64_t columns, const QuantizationFormat& format,
                     std::span<float> values) {
  check_format(format);
  run_rows(Direction::kDequantize, values.data(), row_count(values.size(), columns), columns, format,
           /*half_scales=*/false, rows);
}

}  // namespace exporters::onnx
