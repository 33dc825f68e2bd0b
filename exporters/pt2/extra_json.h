#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/pt2/archive.h"

#include <string>

namespace exporters::pt2 {

/// What a program holds and the schema of torch.export has no field for, as the text of an entry of its own
/// (schema.h, kExtraFile), which torch.export.load passes over: names of dims, and the places in the model of the
/// guards. Empty where there is nothing of that kind.
std::string extra_json(const ExportedProgram& program);

/// Takes it back, where the archive has such an entry. What it says are names: ranges and guards are the program's own.
/// Throws Error, naming the entry, for symbols that the program does not have, and for names that are not words or
/// stand for two symbols.
void read_extra(const Archive& archive, ExportedProgram& program);

}  // namespace exporters::pt2
