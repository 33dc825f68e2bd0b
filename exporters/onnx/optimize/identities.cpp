#include "exporters/onnx/optimize/passes.h"

#include <algorithm>
#include <limits>

namespace exporters::onnx {
namespace {

bool is_identity_perm(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) {
      return false;
    }
  }
  return !perm.empty();
}

// Slice from the first element on, to the end, one by one.
bool is_whole_slice(const GraphEditor& graph, const OnnxNode& node) {
  if (node.inputs.size() < 3) {
    return false;
  }
  const auto starts = graph.integers(node.inputs[1]);
  const auto ends = graph.integers(node.inputs[2]);
  const auto steps = node.inputs.size() > 4 ? graph.integers(node.inputs[4]) : std::vector<int64_t>{1};
  const auto all = [](const auto& list, int64_t value) {
    return list && std::all_of(list->begin(), list->end(), [&](int64_t each) { return each == value; });
  };
  return all(starts, 0) && all(ends, std::numeric_limits<int64_t>::max()) && all(steps, 1);
}

bool gives_its_input(const GraphEditor& graph, const OnnxNode& node) {
  if (!node.domain.empty() || node.inputs.empty() || node.outputs.size() != 1) {
    return false;
  }
  const std::string& op = node.op_type;
  if (op == "Identity") {
    return true;
  }
  if (op == "Concat") {
    return node.inputs.size() == 1;
  }
  if (op == "Transpose") {
    return is_identity_perm(ints_attribute(node, "perm"));
  }
  if (op == "Reshape" || op == "Expand") {
    return same_dims(graph.facts(node.inputs[0]), graph.facts(node.outputs[0]));
  }
  return op == "Slice" && is_whole_slice(graph, node);
}

}  // namespace

std::vector<std::string> remove_identities(GraphEditor& graph) {
  std::vector<std::string> changed;
  for (OnnxNode* node : graph.nodes()) {
    if (gives_its_input(graph, *node) && graph.replace(node->outputs[0], node->inputs[0])) {
      changed.push_back(node->name);
      graph.erase_unused(*node);
    }
  }
  return changed;
}

}  // namespace exporters::onnx
