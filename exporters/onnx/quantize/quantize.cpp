#include "exporters/onnx/quantize/quantize.h"

#include "exporters/onnx/quantize/rounding_error.h"
#include "exporters/support/error.h"
#include "exporters/support/log.h"

namespace exporters::onnx {
namespace {

std::string scheme(const QuantizationOptions& options) {
  return fmt::format("int{}, blocks of {}, {}, accuracy level {}", options.format.bits, options.format.block_size,
                     options.format.symmetric ? "symmetric" : "with zero points", options.accuracy_level);
}

uint64_t stored_bytes(const MatrixSource& source) {
  const auto* file = std::get_if<WeightSource>(&source.bytes);
  return file != nullptr ? file->nbytes : std::get<at::Tensor>(source.bytes).nbytes();
}

}  // namespace

QuantizationSummary quantize(OnnxModel& model, const ExportedProgram& program, const QuantizationOptions& options) {
  const QuantizedWeights weights = quantize_weights(model, options);
  QuantizationSummary summary;
  summary.scheme = scheme(options);
  summary.weights = weights.matrices.size();
  for (const auto& matrix : weights.matrices) {
    summary.bytes_before += stored_bytes(matrix->source());
    summary.bytes_after += matrix->nbytes();
  }
  for (const KeptWeight& kept : weights.kept) {
    summary.kept.emplace_back(kept.name, kept.reason);
  }
  if (weights.matrices.empty()) {
    log_warning("no weight of this model could be rounded to {} bits: it has no product with a weight of its own",
                options.format.bits);
    return summary;
  }
  // The export is whole without these numbers, so it goes on and says why they are missing.
  try {
    summary.errors = rounding_errors(program, weights, options);
  } catch (const Error& error) {
    summary.unmeasured = error.what();
  }
  return summary;
}

}  // namespace exporters::onnx
