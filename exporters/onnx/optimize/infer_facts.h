#pragma once

#include "exporters/onnx/optimize/graph_editor.h"

#include <string>
#include <unordered_map>

namespace exporters::onnx {

using FactsByValue = std::unordered_map<std::string, ValueFacts>;

/// What a graph states of its inputs, outputs, initializers and (value_info) inner values.
FactsByValue stated_facts(const OnnxGraph& graph);
/// Adds what follows for a node's output, where nothing is known of it: operators that keep sizes, or change them in a
/// plain way. Of other outputs nothing.
void infer_facts(const OnnxNode& node, FactsByValue& facts);
/// What is stated, carried on through all nodes.
FactsByValue infer_facts(const OnnxGraph& graph);

}  // namespace exporters::onnx
