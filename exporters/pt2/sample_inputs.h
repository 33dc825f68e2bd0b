#pragma once

#include "exporters/graph/exported_program.h"

#include <optional>
#include <string>

namespace exporters::pt2 {

/// The program's sample call, (args tuple, kwargs dict), as torch.save writes it: what Python has as `example_inputs`.
/// Python checks guards only where there is one. A program without sample inputs gets zeros of the sizes of its hints.
/// Nothing where the call cannot be made: sizes without a hint, containers of a kind that is not known here. Tuples,
/// lists, dicts, ModelOutputs and caches of transformers are known.
std::optional<std::string> sample_inputs_archive(const ExportedProgram& program);

}  // namespace exporters::pt2
