#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/pt2/fields.h"

#include <string>
#include <vector>

namespace exporters::pt2 {

/// The conditions of `guards_code`, which torch.export writes as Python on the arguments of the call:
/// "L['input_ids'].size()[1] + L['cache'][0].size()[2] <= 512". Those that the sizes' own expressions make true, and
/// those on constants alone, which a call has to repeat anyway, are left out.
///
/// `program`: with graph, signature, in_spec. `argument_names`: of the forward, positional ones first; may be empty.
/// Throws Error, with the condition, for what cannot be expressed over sizes: a condition is never dropped in silence.
std::vector<Guard> read_guards(const Json& guards_code, const ExportedProgram& program,
                               const std::vector<std::string>& argument_names);

}  // namespace exporters::pt2
