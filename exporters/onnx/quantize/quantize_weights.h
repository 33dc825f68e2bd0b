#pragma once

#include "exporters/onnx/emit/model.h"
#include "exporters/onnx/quantize/quantized_matrix.h"

#include <memory>
#include <string>
#include <vector>

namespace exporters::onnx {

struct QuantizationOptions {
  QuantizationFormat format;
  /// accuracy_level of MatMulNBits: the least precise type that activations may be rounded to. 0: as they are, 1
  /// float32, 2 float16, 3 bfloat16, 4 int8 in blocks, which is several times faster on the CPU.
  int64_t accuracy_level = 4;
};

/// A weight that stays as it is.
struct KeptWeight {
  std::string name;
  std::string reason;  ///< "a table that Gather reads"
};

struct QuantizedWeights {
  std::vector<std::shared_ptr<const QuantizedMatrix>> matrices;  ///< in the order of the model's initializers
  std::vector<KeptWeight> kept;                                  ///< floating-point weights of two axes and more
};

/// Replaces products with a weight matrix (Gemm, MatMul, FusedMatMul of com.microsoft) by MatMulNBits of com.microsoft:
/// the weights are rounded when the model is saved. A weight with any other use stays, also one that is tied to an
/// embedding, since it would be stored twice. The step works on a finished graph and has to be the last that changes
/// products. Throws Error for a format that MatMulNBits does not have.
QuantizedWeights quantize_weights(OnnxModel& model, const QuantizationOptions& options);

}  // namespace exporters::onnx
