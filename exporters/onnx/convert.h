#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/graph/index_limits.h"
#include "exporters/onnx/emit/model.h"
#include "exporters/onnx/translations/table.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace exporters::onnx {

constexpr int64_t kLowestOpset = 18;
constexpr int64_t kDefaultOpset = 23;

struct OnnxOptions {
  int64_t opset = kDefaultOpset;  ///< kLowestOpset to 24
  /// Names for symbolic axes that have no user Dim: input path → axis → name ("batch", "sequence").
  std::map<std::string, std::map<int64_t, std::string>> axis_names;
  /// By input path, in place of what the program itself tells (embedding_limits).
  IndexLimits index_limits;
  /// The execution provider whose own operators of ONNX Runtime may be used ("cpu"); nothing: standard ones alone.
  std::optional<std::string> ort_fusions;
  /// Writes value_info for inner values: what the optimizer's passes know of them. It costs latency in ONNX Runtime,
  /// which fuses by it, so that a model is saved without.
  bool describe_values = false;
  /// Goes into the model's producer version.
  std::string producer_version = "0.1.0";
};

/// A functional program (no in-place ops: see exporters/passes) as an ONNX model. Weights that come from a checkpoint
/// are referred to by file and offset, so nothing is read: `save_model` writes them.
///
/// Inputs and outputs are named by their dotted leaf paths; a path on both sides gets "input." and "output.". A bare
/// tensor output is "output". Unused inputs stay; outputs that are constants are left out.
/// Throws one Error that lists every op without a translation, with module paths; and Error for an opset out of range,
/// for a program that updates buffers (ONNX has no state), and for what a translation refuses.
OnnxModel to_onnx(const ExportedProgram& program, const OnnxOptions& options = {});

}  // namespace exporters::onnx
