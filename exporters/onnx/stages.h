#pragma once

#include "exporters/framework/stages.h"
#include "exporters/graph/exported_program.h"
#include "exporters/patching/patch_point.h"

namespace exporters::onnx {

class OnnxConfig;

/// The exporter's stages, each in a file of its own. A stage's function registers what the stage consists of; it is
/// called once, by register_onnx_backend.
void register_torch_patches();
void register_onnx_patches();
void register_node_fixes();
void register_ir_fixes();

// What `hfx stages onnx` prints.
Stage torch_patches_stage();
Stage onnx_patches_stage();
Stage node_fixes_stage();
Stage translations_stage();
Stage ir_fixes_stage();

/// Rewrites a traced program into what the translations take: no in-place ops, no dead code and, with `optimize`, equal
/// computations merged. The point "exporters.onnx.make_functional".
using MakeFunctional = PatchPoint<void(ExportedProgram& program, const OnnxConfig& config)>;
const MakeFunctional& make_functional();

}  // namespace exporters::onnx
