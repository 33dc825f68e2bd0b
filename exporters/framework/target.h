#pragma once

#include "exporters/framework/tensor_files.h"
#include "exporters/generation/generator.h"
#include "exporters/graph/pytree.h"
#include "exporters/trace/trace.h"

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace exporters {

/// What a TARGET on the command line is.
enum class TargetKind { kCheckpoint, kExportFolder, kProgramFile };

/// Throws Error for a path that does not exist or is none of these. An export that lies beside its checkpoint is an
/// export folder.
TargetKind target_kind(const std::filesystem::path& target);

/// Whether the folder holds a config.json with weights beside it (safetensors, or an index of them).
bool holds_checkpoint(const std::filesystem::path& folder);

/// Something that can be called: a checkpoint (its model runs eagerly), an export folder, or one program file.
struct Runnable {
  std::function<PyTree(const NamedInputs&)> run;
  /// What a program takes under a name; nothing for checkpoints and for names that it does not have. Reads the program
  /// at the first call. Throws Error where that fails.
  InputDtype input_dtype;

  PyTree operator()(const NamedInputs& inputs) const { return run(inputs); }
};

struct TargetOptions {
  std::string task = {};                                   ///< checkpoints
  std::vector<std::pair<std::string, PyTree>> flags = {};  ///< checkpoints: forward arguments that are no tensors
  std::string component = {};                              ///< export folders with several components
};

/// Throws Error, also for options that the kind of target does not take.
Runnable open_target(const std::filesystem::path& target, const TargetOptions& options = {});

/// Generation by a checkpoint, whose model runs eagerly, or by an export folder, with `settings` over its generation
/// config. `task`: checkpoints only. Throws Error as open_target does, and for targets that cannot generate.
Generator open_generator(const std::filesystem::path& target, const GenerationSettings& settings = {},
                         const std::string& task = {});

}  // namespace exporters
