#pragma once

#include "exporters/executorch/emit/program.h"

#include <filesystem>

namespace exporters::executorch {

/// Reads a `.pte` file. Constants, blobs and named data come as ranges of the file and are not read. The file may be
/// hostile: the flatbuffer is verified, memory stays within a small multiple of the program's size (weights not
/// counted), and everything that check() looks at holds of the result.
/// Throws Error, naming the file, for a file that is truncated, damaged, of another kind, or of another version of the
/// schema (with both versions).
Program read_program(const std::filesystem::path& path);

}  // namespace exporters::executorch
