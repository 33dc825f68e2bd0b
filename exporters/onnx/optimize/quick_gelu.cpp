#include "exporters/onnx/optimize/ort_fusions.h"

namespace exporters::onnx {

// x · sigmoid(x). The operator is x · sigmoid(alpha · x).
std::vector<std::string> fuse_quick_gelu(GraphEditor& graph) {
  std::vector<std::string> changed;
  for (OnnxNode* node : graph.nodes()) {
    if (graph.is_erased(node) || !node->domain.empty() || node->op_type != "Mul") {
      continue;
    }
    for (const size_t side : {0u, 1u}) {
      const std::string x = node->inputs.at(side);
      OnnxNode* sigmoid = graph.producer(node->inputs.at(1 - side), "Sigmoid");
      const OnnxType dtype = graph.facts(x).dtype;
      const bool has_kernel = dtype == OnnxType::kFloat;
      if (sigmoid == nullptr || sigmoid->inputs[0] != x || !has_kernel) {
        continue;
      }
      node->op_type = "QuickGelu";
      node->domain = "com.microsoft";
      node->attributes = {{"alpha", 1.0f}};
      graph.set_inputs(*node, {x});
      graph.erase_unused(*sigmoid);
      changed.push_back(node->name);
      break;
    }
  }
  return changed;
}

}  // namespace exporters::onnx
