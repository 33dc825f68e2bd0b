#pragma once

#include "exporters/executorch/emit/program.h"

#include <filesystem>

namespace exporters::executorch {

/// Writes a `.pte` file of the schema ET12. The file appears whole or not at all; the same program gives the same
/// bytes. Methods come sorted by name; constants that no value refers to are left out. Bytes from files are copied by
/// the kernel, so memory does not grow with the weights.
/// Throws Error as check() does, for tensors that are not contiguous on the CPU, when a source file is too short, and
/// on I/O failures.
void save_program(const Program& program, const std::filesystem::path& path);

}  // namespace exporters::executorch
