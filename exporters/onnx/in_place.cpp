#include "exporters/onnx/in_place.h"

#include "exporters/onnx/optimize/graph_editor.h"

#include <limits>
#include <map>
#include <optional>

namespace exporters::onnx {
namespace {

constexpr size_t kLengthAxis = 2;

using Infos = std::map<std::string, const OnnxValueInfo*>;

Infos by_name(const std::vector<OnnxValueInfo>& infos) {
  Infos result;
  for (const OnnxValueInfo& info : infos) {
    result.emplace(info.name, &info);
  }
  return result;
}

// The axes of a cache are batch, heads, length and features.
bool gives_length(const OnnxNode& shape) {
  const int64_t start = int_attribute(shape, "start", 0);
  const int64_t end = int_attribute(shape, "end", std::numeric_limits<int64_t>::max());
  const auto axis = static_cast<int64_t>(kLengthAxis);
  return start < 0 || end < 0 || (start <= axis && axis < end);
}

/// How often values are read.
struct Reads {
  std::map<std::string, int> of_elements;  ///< a shape stays what it is when elements are replaced
  std::map<std::string, int> of_length;    ///< by whatever may see how long a cache is

  void count(const OnnxGraph& graph) {
    for (const OnnxNode& node : graph.nodes) {
      const bool is_shape = node.op_type == "Shape";
      for (const std::string& input : node.inputs) {
        of_elements[input] += is_shape ? 0 : 1;
        of_length[input] += is_shape && !gives_length(node) ? 0 : 1;
      }
      for_each_inner_graph(node, [&](const OnnxGraph& inner) { count(inner); });
    }
    for (const OnnxValueInfo& output : graph.outputs) {
      ++of_elements[output.name];
      ++of_length[output.name];
    }
  }
};

// These operators of ONNX Runtime copy their first input only when the output lies elsewhere.
bool writes_in_place(const OnnxNode& node) {
  return node.domain.empty() && !node.inputs.empty() && !node.outputs.empty() &&
         (node.op_type == "ScatterElements" || node.op_type == "ScatterND" || node.op_type == "TensorScatter");
}

class Analysis {
 public:
  explicit Analysis(const OnnxGraph& graph)
      : graph_(graph), inputs_(by_name(graph.inputs)), outputs_(by_name(graph.outputs)) {
    reads_.count(graph);
  }

  InPlace run() {
    InPlace result;
    for (const OnnxNode& node : graph_.nodes) {
      if (writes_in_place(node) && inputs_.contains(node.inputs[0]) && reads_.of_elements[node.inputs[0]] == 1 &&
          outputs_.contains(node.outputs[0])) {
        result.replaced.emplace_back(node.inputs[0], node.outputs[0]);
      }
      if (const auto cache = growing_cache(node)) {
        result.caches.push_back(*cache);
      }
    }
    return result;
  }

 private:
  std::optional<GrowingCache> growing_cache(const OnnxNode& node) {
    constexpr size_t kPast = 3;
    constexpr size_t kPresent = 1;
    if (node.op_type != "GroupQueryAttention" || node.domain != "com.microsoft" || node.inputs.size() < kPast + 2 ||
        node.outputs.size() < kPresent + 2) {
      return std::nullopt;
    }
    GrowingCache cache;
    for (size_t i = 0; i < cache.past.size(); ++i) {
      cache.past[i] = node.inputs[kPast + i];
      cache.present[i] = node.outputs[kPresent + i];
      cache.length = length_name(outputs_, cache.present[i]);
      // The node alone reads the past, and nothing reads the present.
      if (length_name(inputs_, cache.past[i]).empty() || cache.length.empty() || reads_.of_length[cache.past[i]] != 1 ||
          reads_.of_length[cache.present[i]] != 1) {
        return std::nullopt;
      }
    }
    return cache;
  }

  // Empty for a value that is not there, and for a length that is a number.
  static std::string length_name(const Infos& infos, const std::string& value) {
    const auto found = infos.find(value);
    const bool known = found != infos.end() && found->second->dims && found->second->dims->size() > kLengthAxis;
    const auto* name = known ? std::get_if<std::string>(&(*found->second->dims)[kLengthAxis]) : nullptr;
    return name == nullptr ? std::string() : *name;
  }

  const OnnxGraph& graph_;
  Infos inputs_;
  Infos outputs_;
  Reads reads_;
};

}  // namespace

InPlace outputs_in_place(const OnnxGraph& graph) { return Analysis(graph).run(); }

}  // namespace exporters::onnx
