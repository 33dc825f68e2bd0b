// How the exporter is extended: the examples of docs/adding_a_patch.md, docs/adding_a_fix.md and
// docs/adding_a_translation.md, as they stand there.
#include "exporters/onnx/ir_fixes.h"
#include "exporters/onnx/translations/table.h"
#include "exporters/passes/emit.h"
#include "exporters/passes/fixes.h"
#include "exporters/patching/scope.h"
#include "tests/onnx/exported.h"

#include <ATen/ops/add.h>
#include <ATen/ops/deg2rad.h>
#include <ATen/ops/hypot.h>
#include <ATen/ops/hypot_ops.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rad2deg.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sqrt.h>
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::Not;

using Tensor = at::Tensor;

// sqrt(a² + b²), which has an ONNX form.
auto patch_hypot(const std::function<at::_ops::hypot::schema>&) {
  return [](const Tensor& a, const Tensor& b) { return at::sqrt(at::add(a.square(), b.square())); };
}

void register_hypot() {
  register_patch("onnx", {"aten::hypot"}, typed_op_patch<at::_ops::hypot::schema>(patch_hypot),
                 {.name = "patch_hypot", .reason = "ONNX has no hypot."});
}

// The names of a backend's own functions that may be swapped.
std::string greeting(const std::string& name) { return "hello " + name; }
const PatchPoint<std::string(const std::string&)> greet("mylib.greet", greeting);

void register_greeting() {
  register_patch("mylib", {"mylib.greet"}, function_patch<std::string(const std::string&)>([](const auto& original) {
                   return [=](const std::string& name) { return original(name) + "!"; };
                 }),
                 {.name = "patch_greet", .reason = "Some readers expect an exclamation mark."});
}

std::string export_something() {
  const PatchScope patches = apply_patches("mylib");  // until the end of the block, also by an exception
  return greet("world");
}

// deg2rad(x) is x · π / 180.
bool fix_deg2rad(Graph& graph, Node& node) {
  if (!node.is_call("aten.deg2rad.default")) {
    return false;
  }
  Emit emit(graph, node);  // new nodes come before the node and have its place in the model
  node.value()->replace_all_uses_with(
      emit.call("aten.mul.Tensor", {node.arg(0), 0.017453292519943295}, node.value()->meta()));
  graph.erase(&node);
  return true;
}

void register_deg2rad() {
  register_fx_node_fix("onnx", fix_deg2rad, {.name = "fix_deg2rad", .reason = "ONNX has no deg2rad."});
}

// Names of the nodes that it changed.
std::vector<std::string> fix_ir_double_neg(OnnxGraph& graph) {
  std::map<std::string, std::string> negated;  // output of a Neg → its input
  std::vector<std::string> changed;
  for (OnnxNode& node : graph.nodes) {
    if (node.op_type != "Neg") {
      continue;
    }
    if (const auto inner = negated.find(node.inputs[0]); inner != negated.end()) {
      node.op_type = "Identity";
      node.inputs[0] = inner->second;
      changed.push_back(node.name);
    } else {
      negated.emplace(node.outputs[0], node.inputs[0]);
    }
  }
  return changed;
}

void register_double_neg() {
  register_onnx_ir_fix(fix_ir_double_neg, {.name = "fix_ir_double_neg", .reason = "-(-x) is x."});
}

// rad2deg(x) is x · 180 / π; integers become floats, as in torch.
OnnxValues aten_rad2deg(TranslationContext& context, const OpCall& call) {
  const c10::ScalarType dtype = call.result().dtype;
  return {context.emit("Mul", {call.operand("self", dtype), context.constant(57.29577951308232, dtype)})};
}

void register_rad2deg() { register_onnx_translation("aten.rad2deg", 18, aten_rad2deg); }

TEST(Extending, APatchOfATorchOp) {
  register_hypot();
  const Exported model([](const Tensors& t) { return Tensors{at::hypot(t[0], t[1])}; },
                       {at::randn({2, 3}), at::randn({2, 3})});
  EXPECT_EQ(model.count("patch_hypot"), 1u);
  model.expect_as_eager({{at::randn({1, 1}), at::randn({1, 1})}, {at::randn({4, 5}), at::randn({4, 5})}});
}

TEST(Extending, APatchOfAFunction) {
  register_greeting();
  EXPECT_EQ(export_something(), "hello world!");
  EXPECT_EQ(greet("world"), "hello world");
}

TEST(Extending, ANodeFix) {
  register_deg2rad();
  const Exported model([](const Tensors& t) { return Tensors{at::deg2rad(t[0])}; }, {at::randn({2, 3})});
  EXPECT_EQ(model.count("fix_deg2rad"), 1u);
  model.expect_as_eager({{at::randn({1, 1})}, {at::randn({4, 5})}});
}

TEST(Extending, AnIrFix) {
  register_double_neg();
  const Exported model([](const Tensors& t) { return Tensors{at::sqrt(t[0].neg().neg())}; }, {at::randn({2, 3}).abs()});
  EXPECT_EQ(model.count("fix_ir_double_neg"), 1u);
  EXPECT_THAT(op_types(model.model()), Contains("Identity"));
  model.expect_as_eager({{at::randn({1, 1}).abs()}});
}

TEST(Extending, ATranslation) {
  register_rad2deg();
  const Exported model([](const Tensors& t) { return Tensors{at::rad2deg(t[0])}; }, {at::randn({2, 3})});
  model.expect_as_eager({{at::randn({1, 1})}, {at::randn({4, 5})}}, {1e-5, 1e-5});
  const Exported integers([](const Tensors& t) { return Tensors{at::rad2deg(t[0])}; }, {at::ones({2}, at::kLong)});
  integers.expect_as_eager({{at::ones({3}, at::kLong)}}, {1e-5, 1e-5});
}

}  // namespace
}  // namespace exporters::onnx
