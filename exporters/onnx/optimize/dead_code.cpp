#include "exporters/onnx/optimize/passes.h"

#include <algorithm>

namespace exporters::onnx {

std::vector<std::string> remove_dead_nodes(GraphEditor& graph) {
  std::vector<std::string> changed;
  const std::vector<OnnxNode*> nodes = graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {  // users before what they use
    const auto& outputs = (*node)->outputs;
    if (std::none_of(outputs.begin(), outputs.end(),
                     [&](const std::string& output) { return graph.is_used(output); })) {
      changed.push_back((*node)->name);
      graph.erase(**node);
    }
  }
  graph.remove_unused_initializers();
  return changed;
}

}  // namespace exporters::onnx
