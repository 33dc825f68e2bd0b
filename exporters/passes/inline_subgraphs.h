#pragma once

#include "exporters/graph/graph.h"

namespace exporters {

/// Puts the calls of a subgraph in the place of the node that only runs it: wrap_with_set_grad_enabled,
/// wrap_with_autocast that is off, invoke_subgraph. Inside the graphs of other nodes too. Throws Error for autocast
/// that is on: its casts are not in the program.
void inline_subgraphs(Graph& graph);

}  // namespace exporters
