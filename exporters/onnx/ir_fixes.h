#pragma once

#include "exporters/onnx/emit/model.h"
#include "exporters/passes/fixes.h"
#include "exporters/patching/effects.h"

#include <functional>
#include <string>
#include <vector>

namespace exporters::onnx {

/// Rewrites one graph of a finished model in place; gives the names of the nodes that it changed.
using OnnxIrFix = std::function<std::vector<std::string>(OnnxGraph&)>;

struct OnnxIrFixEntry {
  OnnxIrFix fix;
  FixNotes notes;
};

/// Adds a fix that runs over every finished model, once over each of its graphs, after those registered before.
/// Thread-safe. Throws Error without a name or a reason.
void register_onnx_ir_fix(OnnxIrFix fix, FixNotes notes);
/// In the order they are applied.
std::vector<OnnxIrFixEntry> ir_fixes();

/// Nodes are named "encoder/layer/0/Gather_1": module path, then the node's own name.
EffectPlace place_of_node(const std::string& node);

/// Applies all of them to the model's graph and to the graphs in its nodes' attributes.
void apply_ir_fixes(OnnxModel& model);

}  // namespace exporters::onnx
