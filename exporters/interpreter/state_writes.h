#pragma once

#include "exporters/graph/exported_program.h"

namespace exporters {

/// Whether a run changes a parameter, buffer or constant: by a mutation in the signature, by an op that writes in place
/// to one or to what may be a view of one, or by a normalization that updates its statistics. May say yes too often,
/// never too rarely.
bool writes_to_state(const ExportedProgram& program);

}  // namespace exporters
