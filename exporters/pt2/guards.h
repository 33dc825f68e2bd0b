#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/pt2/fields.h"

#include <string>
#include <vector>

namespace exporters::pt2 {

/// Adds the conditions of `guards_code`, which torch.export writes as Python on the arguments of the call:
/// "L['input_ids'].size()[1] + L['cache'][0].size()[2] <= 512". Bounds of one symbol narrow its range; others become
/// guards. Those that the sizes' own expressions or ranges make true, and those on constants alone, which a call has to
/// repeat anyway, are left out.
///
/// `program`: with graph, signature, in_spec and ranges. `argument_names`: of the forward, positional ones first; may
/// be empty. Throws Error, with the condition, for what cannot be expressed over sizes: a condition is never dropped in
/// silence.
void read_guards(const Json& guards_code, const std::vector<std::string>& argument_names, ExportedProgram& program);

}  // namespace exporters::pt2
