#pragma once

#include "exporters/framework/quantization_summary.h"
#include "exporters/graph/exported_program.h"
#include "exporters/onnx/quantize/quantize_weights.h"

#include <vector>

namespace exporters::onnx {

/// Runs the program on its sample inputs, on libtorch: node by node with its weights and with those that are rounded,
/// and at accuracy level 4 with activations of these products rounded to int8 as the runtime does. Each weight is read
/// once, a few rows at a time, so this takes little memory for a large model. Gives the floating-point outputs.
/// Throws Error for a program without sample inputs, or with operators that cannot be run one by one.
std::vector<OutputError> rounding_errors(const ExportedProgram& program, const QuantizedWeights& weights,
                                         const QuantizationOptions& options);

}  // namespace exporters::onnx
