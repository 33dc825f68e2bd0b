// ── Stage 2: Model patches ──
//
// Swaps of model methods that are in force only while a trace runs, of a method that cannot be traced by one that can.
// Models are written so that they trace; a patch is for what has to stay as the reference computes it outside of
// exports, or for a model that a user brings. Torch ops may be patched here too, for every format: a path such as
// "aten::where.self" is one.
//
// To extend: declare the method as a PatchPoint where it lives, named "models.<file>.<Class>.<method>", and add a
// register_patch("dynamo", …) below, or in your own code before the export.
#include "exporters/dynamo/stages.h"

#include "exporters/models/module.h"
#include "exporters/patching/registry.h"

#include <functional>
#include <mutex>

namespace exporters {
namespace {

using ClassifierCast = void(const models::Module& router);

// The router casts its own classifier to float32 at each call. A trace computes in the classifier's dtype, and the cast
// of a parameter in place cannot be recorded.
std::function<ClassifierCast> patch_classifier_cast(const std::function<ClassifierCast>&) {
  return [](const models::Module&) {};
}

}  // namespace

void register_model_patches() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_patch("dynamo", {"models.nllb_moe.NllbMoeTop2Router.cast_classifier"},
                   function_patch<ClassifierCast>(patch_classifier_cast),
                   {.name = "patch_classifier_cast",
                    .reason = "NLLB-MoE casts its router's classifier in place, which cannot be traced",
                    .link = "https://github.com/huggingface/transformers/pull/22024",
                    .optional = true});
  });
}

}  // namespace exporters
