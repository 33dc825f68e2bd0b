#include "exporters/passes/dead_code.h"

#include "exporters/passes/op_facts.h"

#include <algorithm>

namespace exporters {
namespace {

bool is_unused(const Value* value) {
  return !value->has_users() && std::all_of(value->elements().begin(), value->elements().end(), is_unused);
}

bool is_unused(const Node& node) {
  return std::all_of(node.outputs().begin(), node.outputs().end(), [](const Value* value) { return is_unused(value); });
}

}  // namespace

size_t eliminate_dead_code(Graph& graph) {
  const size_t before = graph.size();
  // Last node first, so that what only dead nodes take is seen to be dead too.
  for (Node* node = graph.output_node()->prev(); node != nullptr;) {
    Node* previous = node->prev();
    if (is_unused(*node) && is_pure(*node)) {
      graph.erase(node);
    }
    node = previous;
  }
  return before - graph.size();
}

}  // namespace exporters
