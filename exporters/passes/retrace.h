#pragma once

#include "exporters/passes/decompose.h"

namespace exporters {

/// Runs the program once on fake tensors and records it anew, with every op taken apart that the table says. A
/// functional program stays functional, except for writes inside decompositions to tensors of their own. An empty
/// decomposition stands for the patch of the op that is in force on this thread.
ExportedProgram retrace(const ExportedProgram& program, const DecompositionTable& table);

/// The program as functionalize makes it. Calls that write where no schema says so, the norms of training, are taken
/// apart before it if the table has a decomposition for them; nothing else is.
ExportedProgram functional_form(const ExportedProgram& program, const DecompositionTable& table);

}  // namespace exporters
