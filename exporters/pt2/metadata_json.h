#pragma once

#include "exporters/graph/graph.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace exporters::pt2 {

/// Tells the calls of a module apart, of which Python's `unflatten` makes one submodule each: nodes that follow one
/// another belong to one call, and a module that is left and entered again is called again.
class ModuleCalls {
 public:
  /// For each frame of the next node, the number of the call that it belongs to, from 0.
  std::vector<int> of(const std::vector<ModuleFrame>& frames);

 private:
  std::vector<std::pair<std::string, int>> open_;  // path, call
  std::unordered_map<std::string, int> counts_;
};

/// What the schema keeps of where a node comes from: `nn_module_stack` of its module frames, the traced module
/// (`root_class`) first, and `stack_trace` of its source line, unless the node brought its own; and the node's further
/// metadata as they are. To be called for the nodes of a graph in their order.
nlohmann::json metadata_json(const Node& node, const std::string& root_class, ModuleCalls& calls);

}  // namespace exporters::pt2
