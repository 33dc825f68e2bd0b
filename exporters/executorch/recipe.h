#pragma once

#include "exporters/executorch/edge/partition.h"
#include "exporters/executorch/emit/program.h"
#include "exporters/framework/exporter.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace exporters::executorch {

/// What a target of ExecuTorch exports (config field "backend") consists of. Patches and fixes for one target only are
/// registered for "executorch.<name>".
struct ExecutorchRecipe {
  std::string what;  ///< one sentence for people: "float32 parts run by XNNPACK, the rest by ExecuTorch's kernels"
  /// Device, dtype and layout: called before the trace with copies of the model's description and of the sample inputs.
  std::function<void(ExportSource& model, NamedInputs& inputs)> prepare = {};
  /// Chooses what a delegate runs; null: ExecuTorch's kernels run everything.
  std::shared_ptr<const Partitioner> partitioner = {};
  /// Changes how ops are taken apart, after the partitioner had its say.
  std::function<void(DecompositionTable& table)> decompositions = {};
  /// Takes the place of the whole lowering, for targets whose code is made elsewhere.
  std::function<Program(ExportedProgram program)> lower = {};
};

/// Adds a target. Thread-safe. Throws Error for the name of a built-in one, and for a name that is there already unless
/// `overwrite`.
void register_executorch_backend(std::string name, ExecutorchRecipe recipe, bool overwrite = false);

/// Gives a target that is there a lowering of its own, a built-in one too: "cuda" has none.
void register_executorch_lowering(std::string_view name, std::function<Program(ExportedProgram program)> lower);

/// Throws Error that lists the targets there are.
ExecutorchRecipe executorch_recipe(std::string_view name);
std::vector<std::string> executorch_backends();

}  // namespace exporters::executorch
