#pragma once

#include "exporters/executorch/emit/graph_emitter.h"

#include <vector>

namespace exporters::executorch {

/// Emits cond or while_loop in line, with jumps between the graphs, and binds its results in `outer`, the table of the
/// graph around it, which `edge` is. `delegations` are those of the call's branches. Throws Error that names the node
/// for a condition that the runtime does not jump by, and for branches that give results of other kinds than the
/// call's.
void emit_control_flow(const EdgeProgram& edge, const Node& node, const std::vector<Delegation>& delegations,
                       ValueTable& outer, MethodContext& context);

}  // namespace exporters::executorch
