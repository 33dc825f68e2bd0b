#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/support/mapped_file.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

namespace exporters::onnx {

/// A weight [rows, columns] where it lies: in a file, in memory, or yet to be converted from a file.
struct MatrixSource {
  std::variant<WeightSource, at::Tensor> bytes;
  c10::ScalarType dtype = c10::kFloat;  ///< of the values of a WeightSource
  int64_t rows = 0;
  int64_t columns = 0;
  bool transposed = false;  ///< it lies as [columns, rows]

  /// Sources with equal keys have equal values.
  std::string key() const;
};

/// Reads rows of a matrix. What was read of a file does not stay in the memory of the process.
class MatrixReader {
 public:
  /// Throws Error when a file cannot be opened.
  explicit MatrixReader(const MatrixSource& source);

  /// Rows [begin, begin + count) as contiguous float32 [count, columns]. Throws Error when the file is too short.
  at::Tensor read(int64_t begin, int64_t count) const;

 private:
  at::Tensor stored(int64_t begin, int64_t count) const;

  int64_t columns_;
  int64_t rows_;
  bool transposed_;
  at::Tensor tensor_;  ///< of a matrix in memory
  WeightSource file_;
  std::shared_ptr<const MappedFile> mapped_;
  c10::ScalarType stored_dtype_;
  c10::ScalarType dtype_;  ///< what a deferred tensor is converted to
};

}  // namespace exporters::onnx
