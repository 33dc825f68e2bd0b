#include "exporters/onnx/emit/operators.h"
#include "exporters/onnx/optimize/passes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

namespace exporters::onnx {
namespace {

// Empty for a node that is not to be merged.
std::string key_of(const OnnxNode& node) {
  if (is_random(node.op_type)) {
    return {};
  }
  std::string key = node.domain + '.' + node.op_type;
  for (const std::string& input : node.inputs) {
    key += '|' + input;
  }
  for (const std::string& output : node.outputs) {
    key += output.empty() ? '-' : '+';
  }
  // The order of attributes means nothing.
  std::vector<const OnnxAttribute*> attributes;
  for (const OnnxAttribute& attribute : node.attributes) {
    attributes.push_back(&attribute);
  }
  std::sort(attributes.begin(), attributes.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  const bool comparable = std::all_of(attributes.begin(), attributes.end(),
                                      [&](const OnnxAttribute* attribute) { return append_to_key(key, *attribute); });
  return comparable ? key : std::string();
}

// All of them, or none.
bool replace_outputs(GraphEditor& graph, const OnnxNode& node, const OnnxNode& by) {
  const bool free = std::none_of(node.outputs.begin(), node.outputs.end(),
                                 [&](const std::string& output) { return graph.is_pinned(output); });
  if (!free && (node.outputs.size() != 1 || !graph.replace(node.outputs[0], by.outputs[0]))) {
    return false;
  }
  for (size_t i = 0; free && i < node.outputs.size(); ++i) {
    graph.replace(node.outputs[i], by.outputs[i]);
  }
  return true;
}

// A weight keeps its name.
bool is_made_here(const OnnxTensor& tensor) {
  return tensor.name.starts_with("constant/") || tensor.name.starts_with("folded.");
}

// Small constants with the same bytes.
void merge_constants(GraphEditor& graph) {
  std::unordered_map<std::string, std::string> seen;
  for (const OnnxTensor& tensor : graph.initializers()) {
    const auto* data = std::get_if<InlineBytes>(&tensor.data);
    if (data != nullptr && is_made_here(tensor)) {
      std::string key = fmt::format("{}[{}]", static_cast<int>(tensor.dtype), fmt::join(tensor.dims, ","));
      key += data->bytes;
      const auto [first, is_new] = seen.emplace(std::move(key), tensor.name);
      if (!is_new) {
        graph.replace(tensor.name, first->second);
      }
    }
  }
}

}  // namespace

std::vector<std::string> merge_common_subexpressions(GraphEditor& graph) {
  merge_constants(graph);
  std::vector<std::string> changed;
  std::unordered_map<std::string, OnnxNode*> seen;
  for (OnnxNode* node : graph.nodes()) {
    const std::string key = key_of(*node);
    if (key.empty()) {
      continue;
    }
    const auto [first, is_new] = seen.emplace(key, node);
    if (!is_new && replace_outputs(graph, *node, *first->second)) {
      changed.push_back(node->name);
      graph.erase(*node);
    }
  }
  return changed;
}

}  // namespace exporters::onnx
