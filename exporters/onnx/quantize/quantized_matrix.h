#pragma once

#include "exporters/onnx/emit/computed_data.h"
#include "exporters/onnx/quantize/block_quantizer.h"
#include "exporters/onnx/quantize/matrix_source.h"

#include <cstdint>
#include <functional>
#include <string>

namespace exporters::onnx {

/// A weight as MatMulNBits takes it: values, scales and zero points one behind the other, rounded while they are
/// written, some rows at a time.
class QuantizedMatrix : public ComputedData {
 public:
  /// `name` is the weight's, for errors; `scale_dtype` float32 or float16.
  QuantizedMatrix(std::string name, MatrixSource source, const QuantizationFormat& format, c10::ScalarType scale_dtype);

  const std::string& name() const { return name_; }
  const MatrixSource& source() const { return source_; }
  const QuantizationFormat& format() const { return format_; }
  c10::ScalarType scale_dtype() const { return scale_dtype_; }

  /// A part of the bytes.
  struct Part {
    uint64_t offset = 0;
    uint64_t nbytes = 0;
  };
  Part values() const;       ///< uint8 [rows, blocks, block_size × bits / 8]
  Part scales() const;       ///< scale_dtype [rows, blocks]
  Part zero_points() const;  ///< uint8 [rows × ⌈blocks × bits / 8⌉]; empty when symmetric

  uint64_t nbytes() const override;
  std::string key() const override;
  void write(const ByteSink& sink) const override;

  /// Rounds all rows, some at a time: `visit` gets the first one's number, the values and what they became.
  void for_each_rows(
      const std::function<void(int64_t row, const at::Tensor& values, const QuantizedRows& rounded)>& visit) const;

 private:
  std::string name_;
  MatrixSource source_;
  QuantizationFormat format_;
  c10::ScalarType scale_dtype_;
};

}  // namespace exporters::onnx
