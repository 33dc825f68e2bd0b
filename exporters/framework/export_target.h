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

/// An export as a command line asks for it.
struct ExportRequest {
  /// A checkpoint folder, or what is traced already: a .pt2 file, also Python's, or an export folder of the format
  /// "dynamo".
  std::filesystem::path source;
  std::string format = "onnx";
  /// Fields of the export config, as text; for generation also of the generation config.
  std::vector<std::pair<std::string, std::string>> settings;
  /// A program that was traced in training mode becomes what it is in evaluation, instead of being refused.
  bool evaluation = false;

  // ── Of a trace: checkpoints only ──
  std::string task;                      ///< "fill-mask"; empty: from the config's architectures
  std::optional<c10::ScalarType> dtype;  ///< empty: the checkpoint's
  bool dynamic = true;
  /// Axis name ("batch", "sequence") → range: those axes become one named Dim. Throws Error for a name no input has.
  std::map<std::string, Range> axes;
  NamedInputs sample_inputs;  ///< empty: made from the config and the task
  /// The components that generation needs instead of one forward; sample_inputs are then what generate takes.
  bool generation = false;
  std::optional<bool> merged;                         ///< see GenerationExport
  std::vector<std::pair<std::string, PyTree>> flags;  ///< forward arguments that are no tensors
};

/// Loads, traces what is not traced yet, and converts; writes nothing. Throws Error, also for settings of a trace where
/// there is none to make.
ExportedModel export_target(const ExportRequest& request);

/// Throws Error when an export to `folder` would take the place of its own source, a program in that folder or the
/// export folder itself.
void refuse_own_source(const std::filesystem::path& source, const std::filesystem::path& folder);

}  // namespace exporters
