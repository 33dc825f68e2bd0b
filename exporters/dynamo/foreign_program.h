#pragma once

#include "exporters/graph/exported_program.h"

namespace exporters {

/// Throws Error that lists the calls of a program from a file, its subgraphs included, that must not run. libtorch's
/// dispatcher also has ops that open files (aten::from_file) or trust their arguments with memory that they do not
/// check (aten::_convert_indices_from_csr_to_coo), and a file may name any of them. Those that run are the ones with a
/// shape function, which the traces of this project consist of, those that only call others on strided tensors, and
/// a few that check what they are given.
void refuse_unknown_ops(const ExportedProgram& program);

/// Throws Error at the first call of a program from a file whose results are of another dtype or size than the file
/// says. Running a program does not look at what the file says; lowering builds on it. Sizes are compared as
/// ReplaySymbols::agree does. What calls of subgraphs give is not looked into.
void refuse_false_metadata(const ExportedProgram& program);

}  // namespace exporters
