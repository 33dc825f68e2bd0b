#include "exporters/passes/inline_subgraphs.h"

#include "exporters/graph/higher_order.h"
#include "exporters/graph/op_name.h"
#include "exporters/passes/clone.h"
#include "exporters/support/error.h"

namespace exporters {
namespace {

void replace_by_its_calls(Node& node) {
  const HigherOrderCall call = read_higher_order(node);
  Graph& graph = node.graph();
  const Graph::InsertGuard guard(graph, &node);
  const std::vector<Argument> results = copy_calls(*call.branches.front()->graph, graph, call.operands);
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    Value* output = node.output(i);
    if (const auto* value = results[i].get_if<Value*>()) {
      output->replace_all_uses_with(*value);
    }
    ensure(!output->has_users(), "{} gives a constant as its result {}, which other calls use", node.describe(), i);
  }
  graph.erase(&node);
}

}  // namespace

void inline_subgraphs(Graph& graph) {
  for (Node& node : graph) {
    if (node.kind() != Node::Kind::kCall || !is_higher_order_target(node.target())) {
      continue;
    }
    for (const Argument& argument : node.args()) {
      if (const auto* inner = argument.get_if<GraphArgument>(); inner != nullptr && inner->graph != nullptr) {
        inline_subgraphs(*inner->graph);
      }
    }
    if (only_runs_subgraph(node)) {
      replace_by_its_calls(node);
    }
  }
}

}  // namespace exporters
