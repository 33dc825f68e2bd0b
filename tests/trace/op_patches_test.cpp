// Patches of torch ops, as the tracer applies them.
#include "exporters/patching/effects.h"
#include "exporters/patching/scope.h"
#include "exporters/support/error.h"
#include "exporters/trace/trace.h"
#include "tests/support/error_of.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/split.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/where.h>
#include <ATen/ops/where_ops.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using torch::jit::Stack;

ExportedProgram traced(const std::function<at::Tensor(const at::Tensor&)>& forward) {
  TraceRequest request;
  request.module_class = "Test";
  request.inputs = {{"x", at::rand({2, 3})}};
  request.forward = [&](const NamedInputs& inputs) { return PyTree(forward(inputs.at(0).second.tensor())); };
  ExportedProgram program = trace(request);
  verify(program);
  return program;
}

std::vector<std::string> targets(const ExportedProgram& program) {
  std::vector<std::string> result;
  for (const Node& node : *program.graph) {
    if (node.kind() == Node::Kind::kCall) {
      result.push_back(node.target());
    }
  }
  return result;
}

PatchNotes because(std::string name, bool optional = false) {
  return {.name = std::move(name), .reason = "a test", .optional = optional};
}

using Unary = at::_ops::relu::schema;

// relu(x) = (x + |x|) / 2 would do; what matters is that the nodes are other ones.
OpPatch relu_by_sin() {
  return typed_op_patch<Unary>([](const auto&) { return [](const at::Tensor& x) { return at::neg(at::sin(x)); }; });
}
OpPatch relu_then_cos() {
  return typed_op_patch<Unary>(
      [](const auto& original) { return [=](const at::Tensor& x) { return at::cos(original(x)); }; });
}

struct OpPatches : ::testing::Test {
  std::string backend() const {
    return std::string("op_") + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
};

TEST_F(OpPatches, ATypedReplacementIsTracedInTheOpsPlace) {
  register_patch(backend(), {"aten::relu"}, relu_by_sin(), because("patch_relu"));
  const auto forward = [](const at::Tensor& x) { return at::relu(x); };
  {
    const PatchScope scope = apply_patches(backend());
    EXPECT_THAT(targets(traced(forward)), ElementsAre("aten.sin.default", "aten.neg.default"));
  }
  EXPECT_THAT(targets(traced(forward)), ElementsAre("aten.relu.default"));
}

TEST_F(OpPatches, TheOriginalIsRecordedAsItIs) {
  register_patch(backend(), {"aten::relu"}, relu_then_cos(), because("patch_relu"));
  const PatchScope scope = apply_patches(backend());
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::relu(at::relu(x)); })),
              ElementsAre("aten.relu.default", "aten.cos.default", "aten.relu.default", "aten.cos.default"));
}

TEST_F(OpPatches, TheOriginalKeepsACompositeOpWhole) {
  using Linear = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&);
  register_patch(backend(), {"aten::linear"}, typed_op_patch<Linear>([](const auto& original) {
                   return [=](const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
                     return at::neg(original(x, weight, bias));
                   };
                 }),
                 because("patch_linear"));
  const PatchScope scope = apply_patches(backend());
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::linear(x, x); })),
              ElementsAre("aten.linear.default", "aten.neg.default"));
}

TEST_F(OpPatches, ABoxedReplacementSeesTheArgumentsAloneOnItsStack) {
  size_t seen = 0;
  register_patch(backend(), {"aten::add.Tensor"}, op_patch([&](const OpOriginal& original) -> OpFunction {
                   return [&seen, original](Stack& stack) {
                     seen = stack.size();
                     stack[2] = 3;  // alpha
                     original(stack);
                   };
                 }),
                 because("patch_add"));
  const PatchScope scope = apply_patches(backend());

  const ExportedProgram program = traced([](const at::Tensor& x) { return at::add(x, x); });

  EXPECT_EQ(seen, 3u);
  const Node& add = *program.graph->outputs().at(0).value()->node();
  EXPECT_EQ(add.target(), "aten.add.Tensor");
  ASSERT_NE(add.kwarg("alpha"), nullptr);
  EXPECT_EQ(*add.kwarg("alpha"), Argument(3));
}

TEST_F(OpPatches, ListsGoThroughBoxedReplacements) {
  register_patch(backend(), {"aten::split.Tensor"}, op_patch([](const OpOriginal& original) -> OpFunction {
                   return [original](Stack& stack) {
                     stack[1] = 1;
                     original(stack);
                   };
                 }),
                 because("patch_split"));
  const PatchScope scope = apply_patches(backend());
  EXPECT_EQ(traced([](const at::Tensor& x) {
              const auto parts = at::split(x, 3, 1);
              EXPECT_EQ(parts.size(), 3u);
              return parts.at(2);
            })
                .graph->outputs()
                .at(0)
                .value()
                ->name(),
            "getitem_2");
}

TEST_F(OpPatches, ByNameAllOverloadsWithTheSignatureAreReplaced) {
  register_patch(backend(), {"aten::where"}, typed_op_patch<at::_ops::where_self::schema>([](const auto&) {
                   return [](const at::Tensor&, const at::Tensor& yes, const at::Tensor&) { return at::neg(yes); };
                 }),
                 because("patch_where"));
  const PatchScope scope = apply_patches(backend());
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::where(at::neg(x).to(at::kBool), x, x); })),
              ::testing::Contains("aten.neg.default").Times(2));
}

TEST_F(OpPatches, ByNameABoxedFactoryIsAskedForEachOverload) {
  std::vector<std::string> asked;
  register_patch(backend(), {"aten::sum"}, op_patch([&](const OpOriginal& original) -> OpFunction {
                   asked.push_back(original.op().operator_name().overload_name);
                   if (asked.back() != "dim_IntList") {
                     return {};  // stays as it is
                   }
                   return [](Stack& stack) { stack = {at::neg(stack[0].toTensor())}; };
                 }),
                 because("patch_sum"));
  const PatchScope scope = apply_patches(backend());

  EXPECT_THAT(asked, ::testing::IsSupersetOf({"", "dim_IntList", "IntList_out"}));
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::sum(at::sum(x, at::IntArrayRef{1})); })),
              ElementsAre("aten.neg.default", "aten.sum.default"));
}

TEST_F(OpPatches, PatchesOfOneOpCompose) {
  register_patch(backend(), {"aten::relu"}, relu_then_cos(), because("patch_first"));
  register_patch(backend(), {"aten::relu.default"}, typed_op_patch<Unary>([](const auto& original) {
                   return [=](const at::Tensor& x) { return at::neg(original(x)); };
                 }),
                 because("patch_second"));
  const PatchScope scope = apply_patches(backend());
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::relu(x); })),
              ElementsAre("aten.relu.default", "aten.cos.default", "aten.neg.default"));
}

TEST_F(OpPatches, AReplacementsOtherOpsArePatchedToo) {
  register_patch(backend(), {"aten::relu"}, relu_then_cos(), because("patch_relu"));
  register_patch(backend(), {"aten::cos"}, typed_op_patch<at::_ops::cos::schema>([](const auto&) {
                   return [](const at::Tensor& x) { return at::sin(x); };
                 }),
                 because("patch_cos"));
  const PatchScope scope = apply_patches(backend());
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::relu(x); })),
              ElementsAre("aten.relu.default", "aten.sin.default"));
}

TEST_F(OpPatches, NodesKeepTheModuleOfTheCall) {
  register_patch(backend(), {"aten::relu", "aten::linear"}, op_patch([](const OpOriginal&) -> OpFunction {
                   return [](Stack& stack) { stack = {at::neg(at::sin(stack[0].toTensor()))}; };
                 }),
                 because("patch_both"));
  const PatchScope scope = apply_patches(backend());
  // In a module that enters scopes, and in one whose name only its parameter tells.
  const ExportedProgram scoped = traced([](const at::Tensor& x) {
    const ModuleScope module("encoder.layer.1", "Layer");
    return at::relu(x);
  });
  TraceRequest request;
  request.module_class = "Test";
  const at::Tensor weight = at::rand({3, 3});
  request.state = {{"head.fc.weight", weight}};
  request.inputs = {{"x", at::rand({2, 3})}};
  request.forward = [&](const NamedInputs& in) { return PyTree(at::linear(in[0].second.tensor(), weight)); };
  const ExportedProgram named = trace(request);

  for (const auto& [program, path] : {std::pair(&scoped, "encoder.layer.1"), std::pair(&named, "head.fc")}) {
    size_t calls = 0;
    for (const Node& node : *program->graph) {
      if (node.kind() == Node::Kind::kCall) {
        EXPECT_EQ(node.place().module_path, path) << node.describe();
        ++calls;
      }
    }
    EXPECT_EQ(calls, 2u);
  }
  for (const Node& node : *scoped.graph) {
    if (node.kind() == Node::Kind::kCall) {
      ASSERT_FALSE(node.module_stack().empty());
      EXPECT_EQ(node.module_stack().back().module_class, "Layer");
    }
  }
}

TEST_F(OpPatches, EffectsNameNodesAndModulesAndPassOverWhatIsHandedOn) {
  // Takes effect for two of the three calls.
  int calls = 0;
  register_patch(backend(), {"aten::relu"}, typed_op_patch<Unary>([&](const auto& original) {
                   return [&calls, original](const at::Tensor& x) { return calls++ == 1 ? original(x) : at::sin(x); };
                 }),
                 because("patch_relu"));
  EffectLog log;
  ExportedProgram program;
  {
    const EffectLog::Scope logging(log);
    const PatchScope scope = apply_patches(backend());
    program = traced([](const at::Tensor& x) {
      const ModuleScope encoder("encoder");
      const at::Tensor first = at::relu(x);
      const ModuleScope layer("layer.0");
      return at::relu(at::relu(first));
    });
  }
  EXPECT_THAT(targets(program), ElementsAre("aten.sin.default", "aten.relu.default", "aten.sin.default"));
  ASSERT_EQ(log.effects().size(), 1u);
  EXPECT_EQ(log.effects()[0].count, 2u);
  EXPECT_THAT(log.effects()[0].places,
              ElementsAre(EffectPlace{"sin", "encoder"}, EffectPlace{"sin_1", "encoder.layer.0"}));
}

TEST_F(OpPatches, ChangedArgumentsOfTheOriginalAreAnEffect) {
  register_patch(backend(), {"aten::relu"}, typed_op_patch<Unary>([](const auto& original) {
                   return [=](const at::Tensor& x) { return original(at::neg(x)); };
                 }),
                 because("patch_relu"));
  EffectLog log;
  const EffectLog::Scope logging(log);
  const PatchScope scope = apply_patches(backend());
  traced([](const at::Tensor& x) { return at::relu(x); });
  ASSERT_EQ(log.effects().size(), 1u);
  EXPECT_THAT(log.effects()[0].places, ElementsAre(EffectPlace{"relu", ""}));
}

TEST_F(OpPatches, AnUnknownOpIsAnErrorWithNearNames) {
  const auto message = [&](const std::string& suffix, const std::string& path) {
    register_patch(backend() + suffix, {path}, relu_by_sin(), because("patch_" + suffix));
    return error_of([&] { const PatchScope scope = apply_patches(backend() + suffix); });
  };
  EXPECT_THAT(message("1", "aten::rleu"),
              AllOf(HasSubstr("'aten::rleu'"), HasSubstr("patch_1"), HasSubstr("aten::relu")));
  EXPECT_THAT(message("2", "aten::where.selv"), AllOf(HasSubstr("aten::where.selv"), HasSubstr("aten::where.self")));
  EXPECT_THAT(message("3", "nolib::op"), HasSubstr("libtorch has no such op"));
}

TEST_F(OpPatches, AnUnknownOpOfAnOptionalPatchIsPassedOver) {
  register_patch(backend(), {"torchvision::nms", "aten::relu"}, relu_by_sin(), because("patch_nms", /*optional=*/true));
  const PatchScope scope = apply_patches(backend());
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::relu(x); })),
              ElementsAre("aten.sin.default", "aten.neg.default"));
}

TEST_F(OpPatches, ASignatureThatDoesNotFitIsAnError) {
  register_patch(backend() + "1", {"aten::add.Tensor"}, relu_by_sin(), because("patch_add"));
  EXPECT_THAT(error_of([&] { const PatchScope scope = apply_patches(backend() + "1"); }),
              AllOf(HasSubstr("patch_add"), HasSubstr("takes 1 arguments, the op 3")));
  register_patch(backend() + "2", {"aten::where"},
                 typed_op_patch<at::Tensor(int64_t, int64_t, int64_t)>(
                     [](const auto&) { return [](int64_t, int64_t, int64_t) { return at::Tensor(); }; }),
                 because("patch_where"));
  EXPECT_THAT(error_of([&] { const PatchScope scope = apply_patches(backend() + "2"); }),
              AllOf(HasSubstr("takes none of the overloads"), HasSubstr("aten::where")));
}

TEST_F(OpPatches, AFactoryWithoutAReplacementIsAnError) {
  register_patch(backend(), {"aten::relu.default"}, op_patch([](const OpOriginal&) { return OpFunction(); }),
                 because("patch_relu"));
  EXPECT_THAT(error_of([&] { const PatchScope scope = apply_patches(backend()); }), HasSubstr("gave no function"));
}

TEST_F(OpPatches, AReplacementThatCallsItsOpByNameEndsWithAnError) {
  register_patch(backend(), {"aten::relu"},
                 typed_op_patch<Unary>([](const auto&) { return [](const at::Tensor& x) { return at::relu(x); }; }),
                 because("patch_loop"));
  const PatchScope scope = apply_patches(backend());
  EXPECT_THAT(error_of([] { traced([](const at::Tensor& x) { return at::relu(x); }); }),
              AllOf(HasSubstr("patch_loop"), HasSubstr("aten::relu"), HasSubstr("without end"), HasSubstr("original")));
}

TEST_F(OpPatches, ResultsThatTheOpDoesNotGiveAreAnError) {
  const auto message = [&](const std::string& suffix, OpFunction replacement) {
    register_patch(backend() + suffix, {"aten::relu.default", "aten::relu_"},
                   op_patch([replacement](const OpOriginal&) { return replacement; }), because("patch_relu"));
    const PatchScope scope = apply_patches(backend() + suffix);
    return error_of([&] { traced([](const at::Tensor& x) { return at::relu(x); }); }) +
           error_of([&] { traced([](const at::Tensor& x) { return x.clone().relu_(); }); });
  };
  EXPECT_THAT(message("1", [](Stack& stack) { stack.push_back(1); }), HasSubstr("left 2 values"));
  EXPECT_THAT(message("2", [](Stack& stack) { stack = {1}; }), HasSubstr("gave a Int where the op gives a Tensor"));
  EXPECT_THAT(message("3", [](Stack& stack) { stack = {at::neg(stack[0].toTensor())}; }),
              HasSubstr("gave a new tensor where the op writes to its argument"));
}

TEST_F(OpPatches, AnExceptionInsideTheExportRestoresTheOps) {
  register_patch(backend(), {"aten::relu"}, relu_by_sin(), because("patch_relu"));
  const std::string message = error_of([&] {
    const PatchScope scope = apply_patches(backend());
    traced([](const at::Tensor& x) -> at::Tensor {
      at::relu(x);
      throw Error("the model gives up");
    });
  });
  EXPECT_THAT(message, HasSubstr("gives up"));
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::relu(x); })), ElementsAre("aten.relu.default"));
}

TEST_F(OpPatches, AFactoryThatThrowsHalfWayRestoresTheOps) {
  register_patch(backend(), {"aten::relu"}, relu_by_sin(), because("patch_relu"));
  register_patch(backend(), {"aten::cos"}, op_patch([](const OpOriginal&) -> OpFunction { throw Error("not today"); }),
                 because("patch_cos"));
  EXPECT_THAT(error_of([&] { const PatchScope scope = apply_patches(backend()); }),
              AllOf(HasSubstr("not today"), HasSubstr("patch_cos")));
  EXPECT_THAT(targets(traced([](const at::Tensor& x) { return at::relu(x); })), ElementsAre("aten.relu.default"));
}

TEST_F(OpPatches, TwoThreadsTraceWithTheirOwnBackendsPatches) {
  register_patch(backend() + "1", {"aten::relu"}, relu_by_sin(), because("patch_one"));
  register_patch(backend() + "2", {"aten::relu"}, relu_then_cos(), because("patch_two"));
  const auto forward = [](const at::Tensor& x) {
    at::Tensor y = x;
    for (int i = 0; i < 50; ++i) {
      y = at::relu(y);
    }
    return y;
  };
  std::vector<std::string> one, two, none;
  std::latch installed(3);
  const auto work = [&](const std::string& name, std::vector<std::string>& result) {
    const PatchScope scope = apply_patches(name);
    installed.arrive_and_wait();
    result = targets(traced(forward));
  };

  std::thread first([&] { work(backend() + "1", one); });
  std::thread second([&] { work(backend() + "2", two); });
  work("no such backend", none);
  first.join();
  second.join();

  EXPECT_EQ(one.size(), 100u);
  EXPECT_THAT(one, ::testing::Each(::testing::AnyOf("aten.sin.default", "aten.neg.default")));
  EXPECT_EQ(two.size(), 100u);
  EXPECT_THAT(two, ::testing::Each(::testing::AnyOf("aten.relu.default", "aten.cos.default")));
  EXPECT_THAT(none, ::testing::AllOf(::testing::SizeIs(50), ::testing::Each("aten.relu.default")));
}

TEST_F(OpPatches, EagerCallsAreLeftAlone) {
  register_patch(backend(), {"aten::relu"}, relu_by_sin(), because("patch_relu"));
  const PatchScope scope = apply_patches(backend());
  const at::Tensor x = at::rand({3});
  EXPECT_TRUE(at::relu(x).equal(x));
}

}  // namespace
}  // namespace exporters
