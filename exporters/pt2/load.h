#pragma once

#include "exporters/graph/exported_program.h"

#include <filesystem>
#include <memory>

namespace exporters {

/// Reads a .pt2 archive, as `torch.export.save` (PyTorch 2.9 and later, schema 8) and `save_pt2` write it. The archive
/// is mapped: parameters, buffers and constants are views into it, with their places in the file, and several that
/// share a storage in the file share one here. What is read is held against its checksum, the weights too.
///
/// Nothing is ever unpickled: sample inputs, which only a pickle holds, are left out.
/// Tensors that were saved on another device are CPU tensors here.
///
/// Throws Error, naming archive and entry, for what is not such an archive or is damaged, for other schema versions,
/// for ops that are not registered in this process, and for a program that needs what only a pickle holds (custom
/// objects, tensor subclasses). The program that is returned is verified.
std::shared_ptr<ExportedProgram> load_pt2(const std::filesystem::path& file);

}  // namespace exporters
