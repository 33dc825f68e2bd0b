// The registry of fixes, and how they are applied.
#include "exporters/passes/fixes.h"
#include "exporters/graph/exported_program.h"
#include "exporters/interpreter/interpreter.h"
#include "exporters/patching/effects.h"
#include "exporters/support/error.h"
#include "tests/interpreter/graph_builder.h"
#include "tests/support/error_of.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> targets(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph) {
    if (node.kind() == Node::Kind::kCall) {
      names.push_back(node.target());
    }
  }
  return names;
}

Value* call_before(Graph& graph, Node& node, const char* target, Value* operand) {
  const Graph::InsertGuard here(graph, &node);
  Node* made = graph.call(target, {operand});
  made->place() = node.place();
  Value* value = graph.add_output(made);
  value->meta() = node.output()->meta();
  return value;
}

// One op for another of the same arguments.
FxNodeFix retarget(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](Graph&, Node& node) {
    if (!node.is_call(from)) {
      return false;
    }
    node.set_target(to);
    return true;
  };
}

struct Fixes : ::testing::Test {
  GraphBuilder builder;
  Value* x = builder.input("x", at::randn({4, 3}));

  std::string backend() const {
    return std::string("fixes_") + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  size_t apply(ExportedProgram& program) const { return apply_fx_node_fixes(backend(), program, {.verify = true}); }
};

TEST_F(Fixes, ANodeFixIsOfferedEveryCallUntilNothingChanges) {
  auto program = builder.finish({builder.call("aten.sin.default", {builder.call("aten.sin.default", {x})})});
  // Written in the wrong order: the first works on what the second gives.
  register_fx_node_fix(backend(), retarget("aten.cos.default", "aten.tan.default"), {"fix_cos", "a test"});
  register_fx_node_fix(backend(), retarget("aten.sin.default", "aten.cos.default"), {"fix_sin", "a test"});

  EXPECT_EQ(apply(*program), 4u);

  EXPECT_THAT(targets(*program->graph), ElementsAre("aten.tan.default", "aten.tan.default"));
  EXPECT_EQ(apply(*program), 0u);
}

TEST_F(Fixes, NodesThatAFixAddsAreFixedToo) {
  auto program = builder.finish({builder.call("aten.tan.default", {x})});
  register_fx_node_fix(backend(),
                       [](Graph& graph, Node& node) {
                         if (!node.is_call("aten.tan.default")) {
                           return false;
                         }
                         Value* operand = node.arg(0).value();
                         Value* sine = call_before(graph, node, "aten.sin.default", operand);
                         Value* cosine = call_before(graph, node, "aten.cos.default", operand);
                         Node* quotient = graph.call("aten.div.Tensor", {sine, cosine});
                         Value* value = graph.add_output(quotient);
                         value->meta() = node.output()->meta();
                         node.output()->replace_all_uses_with(value);
                         graph.erase(&node);
                         return true;
                       },
                       {"fix_tan", "a test"});
  register_fx_node_fix(backend(), retarget("aten.sin.default", "aten.sinh.default"), {"fix_sin", "a test"});

  EXPECT_EQ(apply(*program), 2u);

  EXPECT_THAT(targets(*program->graph), ElementsAre("aten.sinh.default", "aten.cos.default", "aten.div.Tensor"));
}

TEST_F(Fixes, DeadCodeIsRemoved) {
  auto program = builder.finish({builder.call("aten.add.Tensor", {x, builder.call("aten.cos.default", {x})})});
  register_fx_node_fix(backend(),
                       [](Graph&, Node& node) {
                         if (!node.is_call("aten.add.Tensor") || node.arg(0) == node.arg(1)) {
                           return false;
                         }
                         node.set_arg(1, node.arg(0));
                         return true;
                       },
                       {"fix_add", "a test"});

  apply(*program);

  EXPECT_THAT(targets(*program->graph), ElementsAre("aten.add.Tensor"));
}

TEST_F(Fixes, AnErasedOutputIsFollowedInTheSignature) {
  auto program = builder.finish({builder.call("aten.alias.default", {x})});
  register_fx_node_fix(backend(),
                       [](Graph& graph, Node& node) {
                         if (!node.is_call("aten.alias.default")) {
                           return false;
                         }
                         node.output()->replace_all_uses_with(node.arg(0).value());
                         graph.erase(&node);
                         return true;
                       },
                       {"fix_alias", "a test"});

  EXPECT_EQ(apply(*program), 1u);

  EXPECT_EQ(program->signature.outputs.at(0).argument, Argument(program->graph->find("x")));
  const auto results = Interpreter(program).run(builder.fresh_inputs());
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(results.at(0)), builder.expected().at(0)));
}

TEST_F(Fixes, AFixThatNeverSettlesIsNamed) {
  auto program = builder.finish({builder.call("aten.sin.default", {x})});
  register_fx_node_fix(backend(), [](Graph&, Node& node) { return node.is_call("aten.sin.default"); },
                       {"fix_restless", "a test"});

  EXPECT_THAT(error_of([&] { apply(*program); }),
              AllOf(HasSubstr("fix_restless"), HasSubstr(backend()), HasSubstr("does not settle"), HasSubstr("'sin'")));
}

TEST_F(Fixes, FixesThatUndoEachOtherAreAnError) {
  auto program = builder.finish({builder.call("aten.sin.default", {x})});
  register_fx_node_fix(backend(), retarget("aten.sin.default", "aten.cos.default"), {"fix_there", "a test"});
  register_fx_node_fix(backend(), retarget("aten.cos.default", "aten.sin.default"), {"fix_back", "a test"});

  EXPECT_THAT(error_of([&] { apply(*program); }), AllOf(HasSubstr("fix_back"), HasSubstr("does not settle")));
}

TEST_F(Fixes, AFixThatMultipliesNodesEndsSoon) {
  auto program = builder.finish({builder.call("aten.sin.default", {x})});
  register_fx_node_fix(backend(),
                       [](Graph& graph, Node& node) {
                         if (!node.is_call("aten.sin.default")) {
                           return false;
                         }
                         Value* inner = call_before(graph, node, "aten.sin.default", node.arg(0).value());
                         node.set_arg(0, call_before(graph, node, "aten.sin.default", inner));
                         return true;
                       },
                       {"fix_hydra", "a test"});

  EXPECT_THAT(error_of([&] { apply_fx_node_fixes(backend(), *program, {.verify = false}); }),
              AllOf(HasSubstr("fix_hydra"), HasSubstr("does not settle")));
  EXPECT_LT(program->graph->size(), 5000u);
}

TEST_F(Fixes, TheVerifierNamesTheFixThatBrokeTheProgram) {
  auto program = builder.finish({builder.call("aten.sin.default", {x})});
  register_fx_node_fix(backend(), retarget("aten.sin.default", "aten.add.Tensor"), {"fix_broken", "a test"});

  EXPECT_THAT(error_of([&] { apply(*program); }), AllOf(HasSubstr("fix_broken"), HasSubstr("aten.add.Tensor")));
}

TEST_F(Fixes, AFixThatThrowsIsNamedWithItsNode) {
  auto program = builder.finish({builder.call("aten.sin.default", {x})});
  register_fx_node_fix(backend(), [](Graph&, Node&) -> bool { throw Error("cannot do this"); },
                       {"fix_unable", "a test"});

  EXPECT_THAT(error_of([&] { apply(*program); }),
              AllOf(HasSubstr("cannot do this"), HasSubstr("fix_unable"), HasSubstr("aten.sin.default 'sin'")));
}

TEST_F(Fixes, ATargetGetsTheFormatsFixesFirst) {
  auto program = builder.finish({builder.call("aten.sin.default", {x})});
  register_fx_node_fix(backend() + ".xnnpack", retarget("aten.cos.default", "aten.tan.default"), {"fix_cos", "a test"});
  register_fx_node_fix(backend(), retarget("aten.sin.default", "aten.cos.default"), {"fix_sin", "a test"});

  apply(*program);
  EXPECT_THAT(targets(*program->graph), ElementsAre("aten.cos.default"));
  apply_fx_node_fixes(backend() + ".xnnpack", *program);
  EXPECT_THAT(targets(*program->graph), ElementsAre("aten.tan.default"));
}

TEST_F(Fixes, EffectsNameNodesAndModules) {
  auto program = builder.finish({builder.call("aten.sin.default", {builder.call("aten.sin.default", {x})})});
  for (Node& node : *program->graph) {
    node.place().module_path = "encoder." + node.name();
  }
  register_fx_node_fix(backend(), retarget("aten.sin.default", "aten.cos.default"), {"fix_sin", "a test"});
  register_fx_node_fix(backend(), retarget("aten.tan.default", "aten.cos.default"), {"fix_tan", "a test"});
  EffectLog log;
  const EffectLog::Scope logging(log);

  apply(*program);

  ASSERT_EQ(log.effects().size(), 1u);
  EXPECT_EQ(log.effects()[0].kind, "node fix");
  EXPECT_EQ(log.effects()[0].name, "fix_sin");
  EXPECT_EQ(log.effects()[0].count, 2u);
  EXPECT_THAT(log.effects()[0].places,
              ElementsAre(EffectPlace{"sin", "encoder.sin"}, EffectPlace{"sin_1", "encoder.sin_1"}));
}

TEST_F(Fixes, ProgramFixesRunOnceInOrderAndTellWhetherTheyDidSomething) {
  auto program = builder.finish({builder.call("aten.sin.default", {x})});
  std::vector<std::string> order;
  register_fx_program_fix(backend(),
                          [&](ExportedProgram& each) {
                            order.push_back("first");
                            each.range_constraints["s9"] = Range{1, 7};
                          },
                          {"fix_ranges", "a test"});
  register_fx_program_fix(backend(), [&](ExportedProgram&) { order.push_back("second"); }, {"fix_nothing", "a test"});
  EffectLog log;
  const EffectLog::Scope logging(log);

  apply_fx_program_fixes(backend(), *program, {.verify = true});

  EXPECT_THAT(order, ElementsAre("first", "second"));
  EXPECT_EQ(program->range_constraints.at("s9").max, 7);
  ASSERT_EQ(log.effects().size(), 1u);
  EXPECT_EQ(log.effects()[0].kind, "program fix");
  EXPECT_EQ(log.effects()[0].name, "fix_ranges");
}

TEST_F(Fixes, AProgramFixThatBreaksTheProgramIsNamed) {
  auto program = builder.finish({builder.call("aten.sin.default", {x})});
  register_fx_program_fix(backend(), [](ExportedProgram& each) { each.signature.inputs.clear(); },
                          {"fix_signature", "a test"});
  EXPECT_THAT(error_of([&] { apply_fx_program_fixes(backend(), *program, {.verify = true}); }),
              HasSubstr("fix_signature"));
}

TEST_F(Fixes, RegistrationsSayWhyAndWhat) {
  const FxNodeFix fix = retarget("a", "b");
  EXPECT_THAT(error_of([&] {
                register_fx_node_fix(backend(), fix, {"fix_x", ""});
              }),
              AllOf(HasSubstr("fix_x"), HasSubstr("reason")));
  EXPECT_THAT(error_of([&] { register_fx_node_fix(backend(), fix, {"", "a test"}); }), HasSubstr("no name"));
  EXPECT_THAT(error_of([&] { register_fx_node_fix("", fix, {"fix_x", "a test"}); }), HasSubstr("backend"));
  EXPECT_THAT(registered_fx_node_fixes(backend()), IsEmpty());
}

TEST_F(Fixes, TheTestsVerifyByDefault) { EXPECT_TRUE(FixOptions().verify); }

}  // namespace
}  // namespace exporters
