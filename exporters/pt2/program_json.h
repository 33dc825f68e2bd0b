#pragma once

#include "exporters/graph/exported_program.h"

#include <string>

namespace exporters::pt2 {

/// The schema's ExportedProgram: the text of models/model.json. Conditions on sizes that depend on data are checked by
/// nodes of their own; without sample inputs the guards too, since Python looks at `guards_code` only where there are
/// some. Throws Error for what the schema has no place for.
std::string program_json(const ExportedProgram& program, bool has_sample_inputs);

}  // namespace exporters::pt2
