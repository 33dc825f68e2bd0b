#pragma once

#include "exporters/framework/exported_model.h"

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace exporters {

/// An export of a checkpoint folder as a command line asks for it.
struct CheckpointExport {
  std::filesystem::path checkpoint;
  std::string format = "onnx";
  std::string task;                      ///< "fill-mask"; empty: from the config's architectures
  std::optional<c10::ScalarType> dtype;  ///< empty: the checkpoint's
  bool dynamic = true;
  /// Axis name ("batch", "sequence") → range: those axes become one named Dim. Throws Error for a name no input has.
  std::map<std::string, Range> axes;
  NamedInputs sample_inputs;                                  ///< empty: made from the config and the task
  std::vector<std::pair<std::string, PyTree>> flags;          ///< forward arguments that are no tensors
  std::vector<std::pair<std::string, std::string>> settings;  ///< fields of the export config, as text
};

/// Loads, traces and converts; writes nothing. Throws Error.
ExportedModel export_checkpoint(const CheckpointExport& request);

/// "1:64" → [1, 64], "8:" → [8, oo), ":512" → [1, 512], "8" → [8, 8]. Throws Error.
Range parse_range(const std::string& text);

/// "float32", "fp16", "bf16", … Throws Error that lists the names.
c10::ScalarType parse_dtype(const std::string& text);

}  // namespace exporters
