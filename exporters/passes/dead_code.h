#pragma once

#include "exporters/graph/graph.h"

#include <cstddef>

namespace exporters {

/// Removes calls whose results nothing takes. Calls that do something else than give results stay: in-place and out=
/// ops, random ops, assertions. Placeholders stay. Gives the number of nodes removed. Linear in the graph.
size_t eliminate_dead_code(Graph& graph);

}  // namespace exporters
