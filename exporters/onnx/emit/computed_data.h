#pragma once

#include "exporters/support/byte_sink.h"

#include <cstdint>
#include <string>

namespace exporters::onnx {

/// Bytes that are made while they are written, such as those of a quantized weight.
class ComputedData {
 public:
  virtual ~ComputedData() = default;

  virtual uint64_t nbytes() const = 0;
  /// Data with equal keys have equal bytes: they are written once.
  virtual std::string key() const = 0;
  /// All bytes, in order and in pieces. Throws Error when what they are made of cannot be read.
  virtual void write(const ByteSink& sink) const = 0;
};

}  // namespace exporters::onnx
