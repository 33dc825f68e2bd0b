#include "exporters/onnx/optimize/passes.h"

namespace exporters::onnx {

std::vector<std::string> remove_dead_nodes(GraphEditor& graph) {
  std::vector<std::string> changed;
  const std::vector<OnnxNode*> nodes = graph.nodes();
  for (const OnnxNode* node : dead_nodes({nodes.begin(), nodes.end()}, graph.outputs())) {
    changed.push_back(node->name);
    graph.erase(*node);
  }
  graph.remove_unused_initializers();
  return changed;
}

}  // namespace exporters::onnx
