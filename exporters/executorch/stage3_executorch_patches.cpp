// ── Stage 3: ExecuTorch patches ──
//
// Swaps inside the lowering itself. Each function that one may want to swap is a PatchPoint "exporters.executorch.…".
// To extend: register_patch("executorch", {"exporters.executorch.…"}, factory, {.name, .reason, .link}).

#include "exporters/executorch/stages.h"

namespace exporters::executorch {

void register_executorch_patches() {}

Stage executorch_patches_stage() {
  return {3, "ExecuTorch patches",
          "Swaps of functions of the lowering: `exporters.executorch.edge_decompositions` gives the table by which ops "
          "are taken apart.",
          "`register_patch(\"executorch\", {\"exporters.executorch.…\"}, factory, {name, reason, link})`; see "
          "docs/adding_a_patch.md.",
          function_patch_entries("executorch", "exporters.")};
}

}  // namespace exporters::executorch
