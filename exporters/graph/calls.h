#pragma once

#include "exporters/graph/graph.h"

namespace exporters {

/// Calls visit(Node&) for each call of `graph`, in its order, and of the graphs in its calls' arguments, after the call
/// that takes them. `graph` is a Graph or a const Graph (visit takes a const Node& then). Must not erase nodes.
template <typename GraphType, typename Visit>
void for_each_call(GraphType& graph, Visit&& visit) {
  for (auto& node : graph) {
    if (node.kind() != Node::Kind::kCall) {
      continue;
    }
    visit(node);
    for (const Argument& argument : node.args()) {
      if (const auto* subgraph = argument.template get_if<GraphArgument>();
          subgraph != nullptr && subgraph->graph != nullptr) {
        for_each_call(*subgraph->graph, visit);
      }
    }
  }
}

}  // namespace exporters
