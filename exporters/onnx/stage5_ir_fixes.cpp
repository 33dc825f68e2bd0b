// ── Stage 5: IR fixes ──
//
// A list of rewrites that run over the translated ONNX graph, after the optimizer's passes (optimize/), and the graphs
// inside its nodes: `ir_fixes`. To extend:
// register_onnx_ir_fix(fix, {.name, .reason, .link}).

#include "exporters/onnx/ir_fixes.h"
#include "exporters/onnx/optimize/infer_facts.h"
#include "exporters/onnx/optimize/passes.h"
#include "exporters/onnx/stages.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <unordered_map>

namespace exporters::onnx {
namespace {

using Names = std::vector<std::string>;

Names fix_ir_topk_sorted(OnnxGraph& graph) {
  Names changed;
  for (OnnxNode& node : graph.nodes) {
    for (OnnxAttribute& attribute : node.attributes) {
      const auto* value = std::get_if<int64_t>(&attribute.data);
      if (node.op_type == "TopK" && attribute.name == "sorted" && value != nullptr && *value == 0) {
        attribute.data = int64_t{1};
        changed.push_back(node.name);
      }
    }
  }
  return changed;
}

// ── GatherND ──

using Dims = std::vector<OnnxDim>;

const OnnxTensor* find_initializer(const OnnxGraph& graph, const std::string& name) {
  const auto found = std::find_if(graph.initializers.begin(), graph.initializers.end(),
                                  [&](const OnnxTensor& tensor) { return tensor.name == name; });
  return found == graph.initializers.end() ? nullptr : &*found;
}

// The numbers of an int64 initializer whose bytes are in the model; empty for others.
std::vector<int64_t> integers_of(const OnnxTensor* tensor) {
  const auto* inline_bytes = tensor == nullptr ? nullptr : std::get_if<InlineBytes>(&tensor->data);
  if (inline_bytes == nullptr || tensor->dtype != OnnxType::kInt64) {
    return {};
  }
  std::vector<int64_t> values(inline_bytes->bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), inline_bytes->bytes.data(), values.size() * sizeof(int64_t));
  return values;
}

// The places that rows of `depth` indices have in data whose first `depth` axes are one; nothing when an axis behind
// the first is of unknown size, or an index lies outside.
std::optional<std::vector<int64_t>> flat_places(const std::vector<int64_t>& indices, const Dims& dims, size_t depth) {
  std::vector<int64_t> places;
  for (size_t row = 0; row < indices.size(); row += depth) {
    int64_t place = 0;
    for (size_t axis = 0; axis < depth; ++axis) {
      const auto* size = std::get_if<int64_t>(&dims[axis]);
      int64_t index = indices[row + axis];
      if (size != nullptr && index < 0) {
        index += *size;
      }
      if (index < 0 || (size == nullptr ? axis > 0 : index >= *size)) {
        return std::nullopt;
      }
      place = place * (size == nullptr ? 1 : *size) + index;
    }
    places.push_back(place);
  }
  return places;
}

// [-1, sizes of the axes behind the indexed ones]; nothing where they are not all known.
std::optional<std::vector<int64_t>> flat_shape(const Dims& dims, size_t depth) {
  std::vector<int64_t> shape = {-1};
  for (size_t axis = depth; axis < dims.size(); ++axis) {
    const auto* size = std::get_if<int64_t>(&dims[axis]);
    if (size == nullptr || *size <= 0) {
      return std::nullopt;
    }
    shape.push_back(*size);
  }
  return shape;
}

OnnxTensor int64_tensor(std::string name, std::vector<int64_t> dims, const std::vector<int64_t>& values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  return {std::move(name), OnnxType::kInt64, std::move(dims), InlineBytes{std::move(bytes)}};
}

// GatherND of `node` as Reshape and Gather; empty when something that it takes is not known.
std::vector<OnnxNode> flat_gather(OnnxGraph& graph, const OnnxNode& node,
                                  const std::unordered_map<std::string, ValueFacts>& facts) {
  const OnnxAttribute* batch_dims = node.attribute("batch_dims");
  const OnnxTensor* indices = find_initializer(graph, node.inputs.at(1));
  const std::vector<int64_t> values = integers_of(indices);
  const auto data = facts.find(node.inputs[0]);
  if ((batch_dims != nullptr && std::get<int64_t>(batch_dims->data) != 0) || values.empty() || data == facts.end() ||
      !data->second.dims) {
    return {};
  }
  const Dims& dims = *data->second.dims;
  const auto depth = static_cast<size_t>(indices->dims.back());
  if (depth > dims.size()) {
    return {};
  }
  const auto places = flat_places(values, dims, depth);
  const auto shape = flat_shape(dims, depth);
  if (!places || !shape) {
    return {};
  }
  const std::vector<int64_t> rows(indices->dims.begin(), indices->dims.end() - 1);
  graph.initializers.push_back(int64_tensor(node.name + ".places", rows, *places));
  graph.initializers.push_back(int64_tensor(node.name + ".shape", {static_cast<int64_t>(shape->size())}, *shape));
  OnnxNode reshape{node.name + ".flat",   "Reshape", "", {node.inputs[0], node.name + ".shape"},
                   {node.name + ".flat"}, {}};
  OnnxNode gather{node.name, "Gather", "", {node.name + ".flat", node.name + ".places"}, node.outputs, {}};
  return {std::move(reshape), std::move(gather)};
}

Names fix_ir_gather_nd(OnnxGraph& graph) {
  Names changed;
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [](const OnnxNode& node) { return node.op_type == "GatherND"; })) {
    return changed;
  }
  const auto facts = infer_facts(graph);
  std::vector<OnnxNode> nodes;
  for (OnnxNode& node : graph.nodes) {
    std::vector<OnnxNode> flat = node.op_type == "GatherND" ? flat_gather(graph, node, facts) : std::vector<OnnxNode>();
    if (flat.empty()) {
      nodes.push_back(std::move(node));
      continue;
    }
    changed.push_back(node.name);
    std::move(flat.begin(), flat.end(), std::back_inserter(nodes));
  }
  graph.nodes = std::move(nodes);
  return changed;
}

}  // namespace

void register_ir_fixes() {
  register_onnx_ir_fix(
      fix_ir_topk_sorted,
      {"fix_ir_topk_sorted",
       "With sorted=0 the order of TopK's results is whatever the provider gives, so that two providers "
       "disagree; sorted results are right in either case.",
       "https://github.com/onnx/onnx/pull/8194"});
  register_onnx_ir_fix(
      fix_ir_gather_nd,
      {"fix_ir_gather_nd", "GatherND at constant indices is one Gather of the flat tensor, which more providers run."});
}

Stage ir_fixes_stage() {
  Stage stage = {
      5,
      "IR fixes",
      "Rewrites of the translated model, over its graph and the graphs inside its nodes. First, with `optimize`, the "
      "optimizer's passes, over and over until nothing changes; each can be left out by its name "
      "(`disabled_passes`). Then the fixes, in this order.",
      "`register_onnx_ir_fix(fix, {name, reason, link})`; see docs/adding_a_fix.md.",
      {}};
  for (const OptimizerPass& pass : optimizer_passes()) {
    stage.entries.push_back({"optimizer pass", std::string(pass.name), {}, std::string(pass.reason), {}});
  }
  for (const OnnxIrFixEntry& entry : ir_fixes()) {
    stage.entries.push_back({"IR fix", entry.notes.name, {}, entry.notes.reason, entry.notes.link});
  }
  return stage;
}

}  // namespace exporters::onnx
