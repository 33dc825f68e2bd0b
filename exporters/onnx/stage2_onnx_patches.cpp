// ── Stage 2: ONNX patches ──
//
// Functions of this exporter that are swapped while it runs. To extend: declare the function as a PatchPoint where it
// lives, and register_patch("onnx", {"exporters.onnx.…"}, function_patch<Signature>(…), {.name, .reason, .link}).

#include "exporters/onnx/exporter.h"
#include "exporters/onnx/stages.h"
#include "exporters/passes/fixes.h"
#include "exporters/patching/registry.h"

namespace exporters::onnx {
namespace {

auto patch_make_functional(const MakeFunctional::Function& original) {
  return [original](ExportedProgram& program, const OnnxConfig& config) {
    original(program, config);
    apply_fx_node_fixes("onnx", program);
  };
}

}  // namespace

void register_onnx_patches() {
  register_patch("onnx", {"exporters.onnx.make_functional"},
                 function_patch<void(ExportedProgram&, const OnnxConfig&)>(patch_make_functional),
                 {.name = "patch_make_functional",
                  .reason = "Functionalization writes ops that the node fixes have not seen, so that these run again "
                            "after it."});
}

Stage onnx_patches_stage() {
  return {
      2, "ONNX patches", "While the exporter runs, these functions of its own are swapped.",
      "`register_patch(\"onnx\", {\"exporters.onnx.…\"}, function_patch<Signature>(factory), {name, reason, link})` "
      "for a function that is a PatchPoint; see docs/adding_a_patch.md.",
      function_patch_entries("onnx", "exporters.")};
}

}  // namespace exporters::onnx
