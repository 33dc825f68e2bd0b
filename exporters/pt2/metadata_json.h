#pragma once

#include "exporters/graph/graph.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace exporters::pt2 {

/// What the schema keeps of where a node comes from: `nn_module_stack` of its module frames, the traced module
/// (`root_class`) first, and `stack_trace` of its source line, unless the node brought its own; and the node's further
/// metadata as they are.
nlohmann::json metadata_json(const Node& node, const std::string& root_class);

}  // namespace exporters::pt2
