// ── Stage 3: Node fixes ──
//
// Rewrites of single nodes of the traced program, before it is translated. To extend: register_fx_node_fix("onnx", fix,
// {.name, .reason, .link}).

#include "exporters/onnx/stages.h"
#include "exporters/passes/fixes.h"
#include "exporters/passes/scalar_axes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace exporters::onnx {
namespace {

// A second name for a tensor: its users take the tensor itself.
bool fix_alias(Graph& graph, Node& node) {
  static constexpr std::array<std::string_view, 3> kAliases = {"aten.alias.default", "aten.detach.default",
                                                               "aten.lift_fresh.default"};
  if (std::none_of(kAliases.begin(), kAliases.end(), [&](std::string_view op) { return node.is_call(op); })) {
    return false;
  }
  node.value()->replace_all_uses_with(node.arg(0).value());
  graph.erase(&node);
  return true;
}

// ONNX has no assertions. What only they took goes with them.
bool fix_assertions(Graph& graph, Node& node) {
  static constexpr std::array<std::string_view, 6> kAssertions = {
      "aten._assert_async.default",       "aten._assert_async.msg",
      "aten._assert_scalar.default",      "aten._assert_tensor_metadata.default",
      "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default"};
  if (std::none_of(kAssertions.begin(), kAssertions.end(), [&](std::string_view op) { return node.is_call(op); })) {
    return false;
  }
  graph.erase(&node);
  return true;
}

}  // namespace

void register_node_fixes() {
  register_fx_node_fix(
      "onnx", fix_alias,
      {"fix_alias", "A second name for a tensor is no computation: its users take the tensor itself."});
  register_fx_node_fix("onnx", fix_assertions,
                       {"fix_assertions", "ONNX has no assertions; what only they took need not have an ONNX form.",
                        "https://github.com/pytorch/pytorch/issues/112622"});
  register_fx_node_fix("onnx", give_scalars_an_axis,
                       {"give_scalars_an_axis", "ONNX's operators along axes refuse a tensor that has none."});
}

Stage node_fixes_stage() {
  return {3, "Node fixes",
          "After the trace, and again after functionalization, each node of the program is offered to these rewrites "
          "until none of them changes anything.",
          "`register_fx_node_fix(\"onnx\", fix, {name, reason, link})`; see docs/adding_a_fix.md.",
          node_fix_entries("onnx")};
}

}  // namespace exporters::onnx
