#pragma once

#include "exporters/graph/exported_program.h"

#include <cstddef>

namespace exporters {

/// The largest result that is worth a constant, in bytes.
inline constexpr size_t kLargestFoldedConstant = size_t{64} << 10;

/// Calls whose results follow from buffers and constants alone, or from nothing (arange, full), are run once, by ATen;
/// what others take of their results becomes constants of the program, named "folded.<value>". Weights (parameters) are
/// not touched, and neither are buffers that the program writes to, random ops, ops that give uninitialized memory, and
/// results of more than `largest` bytes: what takes such a result stays too. Gives the number of calls that are gone.
/// Linear in the graph. Throws Error when an op of the graph writes to its inputs: functionalize first.
size_t fold_constants(ExportedProgram& program, size_t largest = kLargestFoldedConstant);

}  // namespace exporters
