#pragma once

#include "exporters/executorch/edge/partition.h"
#include "exporters/executorch/emit/program.h"
#include "exporters/executorch/program_facts.h"
#include "exporters/framework/exporter.h"

namespace exporters::executorch {

/// What `hfx inspect` shows of a program: inputs and outputs with the names of their axes where the program has them,
/// else with their largest sizes; kernels and delegates with their numbers of calls; and as facts the delegation
/// report: what stayed outside of delegates and why, memory and constants in bytes. With a name: of that method only.
ProgramDescription describe(const Program& program, const std::string& method = {});

/// The facts for a program that is being made, subgraphs included: why calls stayed outside, and how many did not.
std::vector<OutsideDelegates> outside_of(const Delegation& delegation);
int64_t delegated_calls(const Delegation& delegation);

}  // namespace exporters::executorch
