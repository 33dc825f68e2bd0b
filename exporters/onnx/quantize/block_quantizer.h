#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

namespace exporters::onnx {

/// How weights are rounded: blocks of `block_size` neighbours in a row share a scale.
struct QuantizationFormat {
  int64_t bits = 4;         ///< 4 or 8
  int64_t block_size = 32;  ///< 16, 32, 64, 128 or 256
  /// The zero point is the middle of the range, 8 or 128, so that none is stored. Otherwise each block has its own, and
  /// uses the whole range from its lowest to its highest value.
  bool symmetric = true;

  int64_t blocks(int64_t columns) const { return (columns + block_size - 1) / block_size; }
  /// Bytes of one row of values, and of one row of zero points: two numbers a byte at 4 bits.
  int64_t value_bytes(int64_t columns) const { return blocks(columns) * block_size * bits / 8; }
  int64_t zero_point_bytes(int64_t columns) const { return (blocks(columns) * bits + 7) / 8; }
};

/// Throws Error for a format that MatMulNBits does not have.
void check_format(const QuantizationFormat& format);

/// Rows of a quantized matrix as MatMulNBits of com.microsoft takes them (ONNX Runtime, docs/ContribOperators.md):
/// value = (number − zero point) × scale. The last block of a row is padded with numbers that stand for zero.
struct QuantizedRows {
  std::span<uint8_t> values;       ///< [rows, blocks, block_size × bits / 8]; the lower four bits come first
  std::span<float> scales;         ///< [rows, blocks]
  std::span<uint8_t> zero_points;  ///< [rows, zero_point_bytes]; empty when symmetric
};

/// Rounds `values`, row-major [rows, columns], with scales that are numbers of `scale_dtype` (float32, or float16 for
/// models of that type). Spread over the threads that libtorch uses; the result does not depend on their number, nor on
/// the processor. Throws Error for values that are not finite.
void quantize_rows(std::span<const float> values, int64_t columns, const QuantizationFormat& format,
                   c10::ScalarType scale_dtype, const QuantizedRows& rows);

/// What the rounded numbers stand for, row-major [rows, columns].
void dequantize_rows(const QuantizedRows& rows, int64_t columns, const QuantizationFormat& format,
                     std::span<float> values);

}  // namespace exporters::onnx
