#pragma once

#include "exporters/graph/exported_program.h"

#include <string>
#include <vector>

namespace exporters::pt2 {

/// What the program demands of its input sizes beyond what Python's `ExportedProgram.module()` checks by itself: its
/// guards, lower bounds of 1 and 2 (Python takes these for granted), and how axes depend on each other ("2*s0 + 1").
struct InputGuards {
  /// Python conditions in the schema's form, over `L['flat_args'][i]`, the leaves of the inputs:
  /// "L['flat_args'][0].size()[1] <= 512".
  std::vector<std::string> code;
  /// Guards with symbols that no input has: they depend on data, and are checked in the graph.
  std::vector<const Guard*> on_data;
};

InputGuards input_guards(const ExportedProgram& program);

}  // namespace exporters::pt2
