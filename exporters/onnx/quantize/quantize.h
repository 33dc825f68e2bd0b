#pragma once

#include "exporters/framework/quantization_summary.h"
#include "exporters/graph/exported_program.h"
#include "exporters/onnx/quantize/quantize_weights.h"

namespace exporters::onnx {

/// quantize_weights on the finished model of `program`, and what it did: which weights stay and why, and how far the
/// outputs are off on the program's sample inputs (rounding_errors). Warns when no weight could be rounded.
QuantizationSummary quantize(OnnxModel& model, const ExportedProgram& program, const QuantizationOptions& options);

}  // namespace exporters::onnx
