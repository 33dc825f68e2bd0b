#pragma once

#include "exporters/onnx/optimize/graph_editor.h"

#include <list>
#include <string>
#include <unordered_map>

namespace exporters::onnx {

/// What is known of the values of a graph: what it states of its inputs, outputs, initializers and (value_info) inner
/// values, carried on through operators that keep sizes or change them in a plain way. Of other values nothing.
std::unordered_map<std::string, ValueFacts> infer_facts(const OnnxGraph& graph, const std::list<OnnxNode>& nodes);

}  // namespace exporters::onnx
