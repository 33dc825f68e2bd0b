// ── Stage 2: Torch patches ──
//
// Torch ops that are swapped while the forward is traced, because what they are has no kernel and what the replacement
// calls has one. To extend: register_patch("executorch", {"aten::op.overload"}, op_patch(…) or
// typed_op_patch<at::_ops::op_overload::schema>(…), {.name, .reason, .link}); for one target
// register_patch("executorch.xnnpack", …).

#include "exporters/executorch/stages.h"

namespace exporters::executorch {

void register_torch_patches() {}

Stage torch_patches_stage() {
  return {2, "Torch patches",
          "While the forward is traced, these torch ops are swapped: what they do is traced as other ops, which have a "
          "kernel.",
          "`register_patch(\"executorch\", {\"aten::op.overload\"}, typed_op_patch<…>(factory), {name, reason, "
          "link})`; see "
          "docs/adding_a_patch.md.",
          op_patch_entries("executorch")};
}

}  // namespace exporters::executorch
