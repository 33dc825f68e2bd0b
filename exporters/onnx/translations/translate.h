#pragma once

#include "exporters/onnx/translations/context.h"

#include <vector>

namespace exporters::onnx {

/// Whether the node leaves something in the ONNX graph: dead calls do not, nor does arithmetic of sizes, which is
/// computed where it is used.
bool needs_translation(const Node& node);

/// Translates the calls of `graph` one after the other, and binds what they give. Throws Error that names the node.
void translate_nodes(TranslationContext& context, const Graph& graph);

/// The graph's outputs where its placeholders, in order, have these values: its nodes are written where the context
/// stands. May be called again with other values.
OnnxValues translate_graph(TranslationContext& context, const Graph& graph, const OnnxValues& inputs);

}  // namespace exporters::onnx
