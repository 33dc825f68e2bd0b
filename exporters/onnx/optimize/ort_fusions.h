#pragma once

#include "exporters/onnx/emit/model.h"
#include "exporters/onnx/optimize/graph_editor.h"

#include <string>
#include <vector>

namespace exporters::onnx {

/// Rewrites a model into ONNX Runtime's own operators where they are faster, after the other passes. What needs the
/// traced program (GroupQueryAttention) is done while it is translated. The operators used are ones that every provider
/// of `ort_fusions` has: "cpu", "cuda", "webgpu" and "dml".
void fuse_for_onnxruntime(OnnxModel& model);

/// The pass over a graph: SiLU as QuickGelu(alpha=1).
std::vector<std::string> fuse_quick_gelu(GraphEditor& graph);

}  // namespace exporters::onnx
