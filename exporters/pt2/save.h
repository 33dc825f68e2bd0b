#pragma once

#include "exporters/graph/exported_program.h"

#include <filesystem>

namespace exporters {

/// Writes the program as a .pt2 archive that torch.export.load of PyTorch 2.13 reads (schema 8.20). Weights that are
/// views of a checkpoint file are copied from that file, never through memory as a whole; tensors that share bytes
/// share them in the archive. Guards, ranges and sizes of inputs are checked by what Python makes of the file
/// (`ExportedProgram.module()`). The same program gives the same bytes; the file appears whole or not at all, and holds
/// no paths of this machine.
///
/// Throws Error for what the schema has no place for (quantized and sparse state, custom objects, strings among the
/// outputs), for state without data, and if the file cannot be written.
void save_pt2(const ExportedProgram& program, const std::filesystem::path& file);

}  // namespace exporters
