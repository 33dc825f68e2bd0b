#pragma once

#include "exporters/graph/graph.h"

namespace exporters {

/// torch takes a tensor without axes for one with an axis of length 1 where an op works along axes (sum(0),
/// cumsum(-1)). Backends do not: such a call gets a view of shape [1], and its results are viewed back. A node fix.
bool give_scalars_an_axis(Graph& graph, Node& node);

}  // namespace exporters
