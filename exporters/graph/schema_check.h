#pragma once

#include "exporters/graph/graph.h"

namespace exporters {

/// Throws Error that names the node unless its arguments and outputs are what its op takes and gives.
void check_call(const Node& node);

}  // namespace exporters
