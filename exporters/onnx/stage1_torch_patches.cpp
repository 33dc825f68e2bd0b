// ── Stage 1: Torch patches ──
//
// Torch ops that are swapped while the forward is traced, because what they are has no ONNX form and what the
// replacement calls has one. To extend: register_patch("onnx", {"aten::op.overload"}, op_patch(…) or
// typed_op_patch<at::_ops::op_overload::schema>(…), {.name, .reason, .link}).

#include "exporters/onnx/stages.h"
#include "exporters/passes/torch_replacements.h"
#include "exporters/patching/registry.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cummax_ops.h>
#include <ATen/ops/cummin_ops.h>
#include <ATen/ops/histc_ops.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randperm_ops.h>

namespace exporters::onnx {
namespace {

// The order of random keys is a random order.
auto patch_randperm(const std::function<at::_ops::randperm::schema>&) {
  return [](c10::SymInt n, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<at::Device>,
            std::optional<bool>) { return at::argsort(at::rand_symint({std::move(n)})).to(dtype.value_or(at::kLong)); };
}

auto patch_histc(const std::function<at::_ops::histc::schema>&) { return histogram; }

auto patch_cummax(const std::function<at::_ops::cummax::schema>&) { return cumulative_maximum; }

auto patch_cummin(const std::function<at::_ops::cummin::schema>&) { return cumulative_minimum; }

}  // namespace

void register_torch_patches() {
  register_patch(
      "onnx", {"aten::randperm.default"}, typed_op_patch<at::_ops::randperm::schema>(patch_randperm),
      {.name = "patch_randperm", .reason = "ONNX has no random permutation; the order of random keys is one."});
  register_patch("onnx", {"aten::histc.default"}, typed_op_patch<at::_ops::histc::schema>(patch_histc),
                 {.name = "patch_histc",
                  .reason = "ONNX has no histogram; ones are added up in the bins instead.",
                  .link = "https://github.com/pytorch/pytorch/issues/74032"});
  register_patch("onnx", {"aten::cummax.default"}, typed_op_patch<at::_ops::cummax::schema>(patch_cummax),
                 {.name = "patch_cummax",
                  .reason = "ONNX has no cumulative maximum; each element takes that of a masked row instead.",
                  .link = "https://github.com/pytorch/pytorch/pull/84496"});
  register_patch("onnx", {"aten::cummin.default"}, typed_op_patch<at::_ops::cummin::schema>(patch_cummin),
                 {.name = "patch_cummin",
                  .reason = "ONNX has no cumulative minimum; each element takes that of a masked row instead.",
                  .link = "https://github.com/pytorch/pytorch/pull/84496"});
}

Stage torch_patches_stage() {
  return {
      1, "Torch patches",
      "While the forward is traced, these torch ops are swapped: what they do is traced as other ops, which have an "
      "ONNX form.",
      "`register_patch(\"onnx\", {\"aten::op.overload\"}, typed_op_patch<…>(factory), {name, reason, link})`; see "
      "docs/adding_a_patch.md.",
      op_patch_entries("onnx")};
}

}  // namespace exporters::onnx
