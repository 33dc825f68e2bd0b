#include "exporters/onnx/quantize/block_quantizer.h"

#include "exporters/support/error.h"

#include <ATen/Parallel.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

namespace exporters::onnx {
namespace {

constexpr int64_t kLargestBlock = 256;
constexpr int64_t kLanes = 16;  // accumulators side by side, which the compiler makes vectors of

struct Extent {
  float lowest = 0;  // never above zero, which has a number of its own
  float highest = 0;
  bool finite = true;
};

// Contraction into fused multiply-adds would make the bytes depend on the processor: AVX2 alone has none.
#if defined(__x86_64__)
#define EXPORTERS_WITH_AVX2 __attribute__((target("avx2")))
#else
#define EXPORTERS_WITH_AVX2
#endif
#define EXPORTERS_INLINE inline __attribute__((always_inline))

template <int64_t kBlock>
EXPORTERS_INLINE Extent extent_of(const float* values) {
  float lowest[kLanes] = {};
  float highest[kLanes] = {};
  float zeros[kLanes] = {};  // NaN from where a value is not finite
  for (int64_t i = 0; i < kBlock; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      lowest[lane] = value < lowest[lane] ? value : lowest[lane];
      highest[lane] = value > highest[lane] ? value : highest[lane];
      zeros[lane] += value * 0.0f;
    }
  }
  Extent extent;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    extent.lowest = std::min(extent.lowest, lowest[lane]);
    extent.highest = std::max(extent.highest, highest[lane]);
    extent.finite = extent.finite && zeros[lane] == 0.0f;
  }
  return extent;
}

// (number − zero point) × scale, with scales that the file can hold.
struct Grid {
  float scale = 0;
  int32_t zero_point = 0;
};

EXPORTERS_INLINE float stored_scale(float scale, bool half) {
  return half ? static_cast<float>(static_cast<c10::Half>(scale)) : scale;
}

EXPORTERS_INLINE Grid grid_of(const Extent& extent, const QuantizationFormat& format, bool half) {
  const auto levels = static_cast<float>(1 << format.bits);
  if (format.symmetric) {
    // One side has a number more than the other: the value of the largest magnitude gets it.
    const float largest = extent.highest > -extent.lowest ? extent.highest : extent.lowest;
    return {stored_scale(largest / (levels / -2), half), 1 << (format.bits - 1)};
  }
  const float scale = stored_scale((extent.highest - extent.lowest) / (levels - 1), half);
  const float zero_point = scale > 0 ? std::nearbyint(-extent.lowest / scale) : 0.0f;
  return {scale, static_cast<int32_t>(std::clamp(zero_point, 0.0f, levels - 1))};
}

template <int64_t kBits, int64_t kBlock>
EXPORTERS_INLINE void write_block(const float* values, const Grid& grid, uint8_t* bytes) {
  constexpr int32_t kHighest = (1 << kBits) - 1;
  const float inverse = grid.scale == 0 ? 0.0f : 1.0f / grid.scale;
  const float offset = static_cast<float>(grid.zero_point) + 0.5f;  // the conversion cuts off
  int32_t numbers[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) {
    const float scaled = values[i] * inverse;
    const float bounded = scaled > -512.0f ? (scaled < 512.0f ? scaled : 512.0f) : -512.0f;
    const auto number = static_cast<int32_t>(bounded + offset);
    numbers[i] = number < 0 ? 0 : (number > kHighest ? kHighest : number);
  }
  if constexpr (kBits == 4) {
    for (int64_t i = 0; i < kBlock / 2; ++i) {
      bytes[i] = static_cast<uint8_t>(numbers[2 * i] | numbers[2 * i + 1] << 4);
    }
  } else {
    for (int64_t i = 0; i < kBlock; ++i) {
      bytes[i] = static_cast<uint8_t>(numbers[i]);
    }
  }
}

struct Row {
  const float* values;
  int64_t columns;
  uint8_t* bytes;
  float* scales;
  uint8_t* zero_points;  // null when symmetric
};

template <int64_t kBits, int64_t kBlock>
EXPORTERS_INLINE bool quantize_row(const Row& row, const QuantizationFormat& format, bool half) {
  bool finite = true;
  const int64_t blocks = format.blocks(row.columns);
  for (int64_t block = 0; block < blocks; ++block) {
    const float* values = row.values + block * kBlock;
    std::array<float, kLargestBlock> padded;
    if (const int64_t left = row.columns - block * kBlock; left < kBlock) {
      padded.fill(0);
      std::copy_n(values, left, padded.begin());
      values = padded.data();
    }
    const Extent extent = extent_of<kBlock>(values);
    finite = finite && extent.finite;
    const Grid grid = grid_of(extent, format, half);
    write_block<kBits, kBlock>(values, grid, row.bytes + block * kBlock * kBits / 8);
    row.scales[block] = grid.scale;
    if (row.zero_points != nullptr) {
      const bool upper = kBits == 4 && block % 2 == 1;
      row.zero_points[block * kBits / 8] |= static_cast<uint8_t>(grid.zero_point << (upper ? 4 : 0));
    }
  }
  return finite;
}

template <int64_t kBits>
EXPORTERS_INLINE bool quantize_row_of(const Row& row, const QuantizationFormat& format, bool half) {
  switch (format.block_size) {
    case 16:
      return quantize_row<kBits, 16>(row, format, half);
    case 32:
      return quantize_row<kBits, 32>(row, format, half);
    case 64:
      return quantize_row<kBits, 64>(row, format, half);
    case 128:
      return quantize_row<kBits, 128>(row, format, half);
    default:
      return quantize_row<kBits, 256>(row, format, half);
  }
}

using QuantizeRow = bool (*)(const Row&, const QuantizationFormat&, bool);

bool quantize_anywhere(const Row& row, const QuantizationFormat& format, bool half) {
  return format.bits == 4 ? quantize_row_of<4>(row, format, half) : quantize_row_of<8>(row, format, half);
}

EXPORTERS_WITH_AVX2 bool quantize_with_avx2(const Row& row, const QuantizationFormat& format, bool half) {
  return format.bits == 4 ? quantize_row_of<4>(row, format, half) : quantize_row_of<8>(row, format, half);
}

QuantizeRow fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) {
    return quantize_with_avx2;
  }
#endif
  return quantize_anywhere;
}

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
  const QuantizeRow quantize = fastest();
  const auto count = columns == 0 ? 0 : static_cast<int64_t>(values.size()) / columns;
  std::fill(rows.zero_points.begin(), rows.zero_points.end(), 0);
  std::atomic<bool> finite = true;
  at::parallel_for(0, count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Row row{values.data() + i * columns, columns, rows.values.data() + i * format.value_bytes(columns),
                    rows.scales.data() + i * format.blocks(columns),
                    format.symmetric ? nullptr : rows.zero_points.data() + i * format.zero_point_bytes(columns)};
      if (!quantize(row, format, scale_dtype == c10::kHalf)) {
        finite = false;
      }
    }
  });
  ensure(finite, "values that are not finite cannot be rounded to {} bits", format.bits);
}

void dequantize_rows(const QuantizedRows& rows, int64_t columns, const QuantizationFormat& format,
                     std::span<float> values) {
  const auto count = columns == 0 ? 0 : static_cast<int64_t>(values.size()) / columns;
  const int64_t blocks = format.blocks(columns);
  const auto number = [&](const uint8_t* bytes, int64_t index) -> int32_t {
    return format.bits == 8 ? bytes[index] : bytes[index / 2] >> (index % 2 == 0 ? 0 : 4) & 15;
  };
  at::parallel_for(0, count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const uint8_t* bytes = rows.values.data() + row * format.value_bytes(columns);
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t block = column / format.block_size;
        const int32_t zero_point =
            format.symmetric ? 1 << (format.bits - 1)
                             : number(rows.zero_points.data() + row * format.zero_point_bytes(columns), block);
        values[static_cast<size_t>(row * columns + column)] = static_cast<float>(number(bytes, column) - zero_point) *
                                                              rows.scales[static_cast<size_t>(row * blocks + block)];
      }
    }
  });
}

}  // namespace exporters::onnx
