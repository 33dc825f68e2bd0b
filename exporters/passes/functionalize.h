#pragma once

#include "exporters/graph/exported_program.h"

namespace exporters {

/// Inlines subgraphs that are simply run (inline_subgraphs), and rewrites the program without ops that write to their
/// inputs. An in-place op becomes the op that gives a new tensor;
/// the tensor that it wrote to through views is rebuilt from it with the views' inverses (`slice_scatter` for `slice`),
/// and whatever reads that memory later reads the rebuilt tensor, through views taken anew.
/// What is written to user inputs, buffers and parameters becomes outputs of the signature, before the user outputs.
/// Results whose users are gone are removed. Does nothing to a program that is functional. Throws Error that names the
/// node for what has no functional form, as torch.export does: writes to lifted constants, inputs that change their
/// size or shape, writes through views without an inverse, `set_` to a storage.
void functionalize(ExportedProgram& program);

}  // namespace exporters
