// ── Stage 3: ExecuTorch patches ──
//
// Swaps inside the lowering itself, and inside models. Each function that one may want to swap is a PatchPoint
// "exporters.executorch.…" or "models.…". To extend: register_patch("executorch", {"exporters.executorch.…"}, factory,
// {.name, .reason, .link}).

#include "exporters/executorch/stages.h"
#include "exporters/models/layers/experts.h"
#include "exporters/patching/registry.h"

namespace exporters::executorch {

namespace {

using ChooseExpertsKind = models::ExpertsKind(models::ExpertsKind);

std::function<ChooseExpertsKind> patch_experts_kind(const std::function<ChooseExpertsKind>&) {
  return [](models::ExpertsKind) { return models::ExpertsKind::kBatchedMm; };
}

}  // namespace

void register_executorch_patches() {
  register_patch("executorch", {"models.Experts.kind"}, function_patch<ChooseExpertsKind>(patch_experts_kind),
                 {.name = "patch_experts_kind",
                  .reason = "The runtime has no product of groups of rows; each token is multiplied with a copy of the "
                            "matrices it chose."});
}

Stage executorch_patches_stage() {
  return {3, "ExecuTorch patches",
          "Swaps of functions of models and of the lowering: `exporters.executorch.edge_decompositions` gives the "
          "table by which ops "
          "are taken apart.",
          "`register_patch(\"executorch\", {\"exporters.executorch.…\"}, factory, {name, reason, link})`; see "
          "docs/adding_a_patch.md.",
          function_patch_entries("executorch", "")};
}

}  // namespace exporters::executorch
