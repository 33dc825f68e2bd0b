// Patches of functions: registration, scopes, composition, threads.
#include "exporters/patching/effects.h"
#include "exporters/patching/scope.h"
#include "exporters/support/error.h"
#include "exporters/support/place.h"
#include "tests/support/error_of.h"

#include <ATen/core/Tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <stdexcept>
#include <thread>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

using Text = std::string(const std::string&);

std::string plain(const std::string& text) { return text; }

const PatchPoint<Text>& greet() {
  static const PatchPoint<Text> point("tests.patching.greet", plain);
  return point;
}
const PatchPoint<Text>& part() {
  static const PatchPoint<Text> point("tests.patching.part", plain);
  return point;
}
const PatchPoint<int(int)>& number() {
  static const PatchPoint<int(int)> point("tests.patching.number", [](int value) { return value; });
  return point;
}

// The original's text in brackets of the patch's own.
FunctionPatch around(const std::string& mark) {
  return function_patch<Text>([mark](const std::function<Text>& original) {
    return [=](const std::string& text) { return mark + "(" + original(text) + ")"; };
  });
}

PatchNotes because(std::string name, bool optional = false) {
  return {.name = std::move(name), .reason = "a test", .optional = optional};
}

struct FunctionPatches : ::testing::Test {
  FunctionPatches() {
    greet();
    part();
    number();
  }
  // A backend of this test's own: registrations stay for the life of the process.
  std::string backend() const {
    return std::string("patching_") + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
};

TEST_F(FunctionPatches, IsInForceWithinTheScopeOnly) {
  register_patch(backend(), {"tests.patching.greet"}, around("a"), because("patch_greet"));

  EXPECT_EQ(greet()("hi"), "hi");
  {
    const PatchScope scope = apply_patches(backend());
    EXPECT_EQ(greet()("hi"), "a(hi)");
    EXPECT_EQ(part()("hi"), "hi");
  }
  EXPECT_EQ(greet()("hi"), "hi");
}

TEST_F(FunctionPatches, SeveralPathsShareAFactory) {
  register_patch(backend(), {"tests.patching.greet", "tests.patching.part"}, around("a"), because("patch_both"));

  const PatchScope scope = apply_patches(backend());

  EXPECT_EQ(greet()("hi"), "a(hi)");
  EXPECT_EQ(part()("ho"), "a(ho)");
}

TEST_F(FunctionPatches, ATargetPatchedTwiceGetsTheLaterAroundTheEarlier) {
  register_patch(backend(), {"tests.patching.greet"}, around("first"), because("patch_first"));
  register_patch(backend(), {"tests.patching.greet"}, around("second"), because("patch_second"));

  {
    const PatchScope scope = apply_patches(backend());
    EXPECT_EQ(greet()("hi"), "second(first(hi))");
  }
  EXPECT_EQ(greet()("hi"), "hi");
}

TEST_F(FunctionPatches, NestedScopesCompose) {
  register_patch(backend() + "1", {"tests.patching.greet"}, around("outer"), because("patch_outer"));
  register_patch(backend() + "2", {"tests.patching.greet"}, around("inner"), because("patch_inner"));

  const PatchScope outer = apply_patches(backend() + "1");
  {
    const PatchScope inner = apply_patches(backend() + "2");
    EXPECT_EQ(greet()("hi"), "inner(outer(hi))");
    const PatchScope again = apply_patches(backend() + "1");
    EXPECT_EQ(greet()("hi"), "outer(inner(outer(hi)))");
  }
  EXPECT_EQ(greet()("hi"), "outer(hi)");
}

TEST_F(FunctionPatches, ATargetsScopeInstallsTheFormatsPatchesFirst) {
  register_patch(backend() + ".xnnpack", {"tests.patching.greet"}, around("target"), because("patch_target"));
  register_patch(backend(), {"tests.patching.greet"}, around("format"), because("patch_format"));
  {
    const PatchScope scope = apply_patches(backend() + ".xnnpack");
    EXPECT_EQ(greet()("hi"), "target(format(hi))");
  }
  const PatchScope scope = apply_patches(backend());
  EXPECT_EQ(greet()("hi"), "format(hi)");
}

TEST_F(FunctionPatches, AnExceptionThatLeavesTheScopeRestoresTheOriginals) {
  register_patch(backend(), {"tests.patching.greet"}, around("a"), because("patch_greet"));
  const auto run = [&] {
    const PatchScope scope = apply_patches(backend());
    throw std::runtime_error(greet()("hi"));
  };

  try {
    run();
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "a(hi)");
  }
  EXPECT_EQ(greet()("hi"), "hi");
}

TEST_F(FunctionPatches, AReplacementThatThrowsLeavesThePatchUsable) {
  register_patch(backend(), {"tests.patching.number"}, function_patch<int(int)>([](const auto& original) {
                   return [=](int value) -> int {
                     if (value < 0) {
                       throw Error("negative");
                     }
                     return original(value) + 1;
                   };
                 }),
                 because("patch_number"));
  const PatchScope scope = apply_patches(backend());

  for (int i = 0; i < 200; ++i) {  // more often than a replacement may be nested
    EXPECT_THROW(number()(-1), Error);
  }
  EXPECT_EQ(number()(1), 2);
}

TEST_F(FunctionPatches, AFactoryThatThrowsHalfWayRestoresWhatWasInstalled) {
  register_patch(backend(), {"tests.patching.greet"}, around("a"), because("patch_greet"));
  register_patch(backend(), {"tests.patching.part"},
                 function_patch<Text>(
                     [](const std::function<Text>&) -> std::function<Text> { throw Error("no replacement today"); }),
                 because("patch_part"));

  const std::string message = error_of([&] { const PatchScope scope = apply_patches(backend()); });

  EXPECT_THAT(message,
              AllOf(HasSubstr("no replacement today"), HasSubstr("patch_part"), HasSubstr("tests.patching.part")));
  EXPECT_EQ(greet()("hi"), "hi");
  EXPECT_EQ(detail::active_patches, nullptr);
}

TEST_F(FunctionPatches, AnotherThreadSeesItsOwnBackendsPatchesOnly) {
  register_patch(backend() + "1", {"tests.patching.greet"}, around("one"), because("patch_one"));
  register_patch(backend() + "2", {"tests.patching.greet"}, around("two"), because("patch_two"));
  std::string plain_result, one, two;
  std::latch installed(2);
  const auto work = [&](const std::string& name, std::string& result) {
    const PatchScope scope = apply_patches(name);
    installed.arrive_and_wait();
    for (int i = 0; i < 1000; ++i) {
      result = greet()("hi");
    }
  };

  std::thread first([&] { work(backend() + "1", one); });
  std::thread second([&] { work(backend() + "2", two); });
  installed.wait();
  plain_result = greet()("hi");
  first.join();
  second.join();

  EXPECT_EQ(one, "one(hi)");
  EXPECT_EQ(two, "two(hi)");
  EXPECT_EQ(plain_result, "hi");
}

TEST_F(FunctionPatches, WhatIsRegisteredWithinAScopeWaitsForTheNextOne) {
  register_patch(backend(), {"tests.patching.greet"}, around("a"), because("patch_a"));
  {
    const PatchScope scope = apply_patches(backend());
    register_patch(backend(), {"tests.patching.greet"}, around("b"), because("patch_b"));
    EXPECT_EQ(greet()("hi"), "a(hi)");
  }
  const PatchScope scope = apply_patches(backend());
  EXPECT_EQ(greet()("hi"), "b(a(hi))");
}

TEST_F(FunctionPatches, AnUnknownPathIsAnErrorWithNearNames) {
  register_patch(backend(), {"tests.patching.greet"}, around("a"), because("patch_greet"));
  register_patch(backend(), {"tests.patching.gret"}, around("a"), because("patch_gret"));

  const std::string message = error_of([&] { const PatchScope scope = apply_patches(backend()); });

  EXPECT_THAT(message, AllOf(HasSubstr("'tests.patching.gret'"), HasSubstr("patch_gret"), HasSubstr(backend()),
                             HasSubstr("Did you mean 'tests.patching.greet'")));
  EXPECT_EQ(greet()("hi"), "hi");
}

TEST_F(FunctionPatches, AnUnknownPathOfAnOptionalPatchIsPassedOver) {
  register_patch(backend(), {"models.absent.forward", "tests.patching.greet"}, around("a"),
                 because("patch_absent", /*optional=*/true));

  const PatchScope scope = apply_patches(backend());

  EXPECT_EQ(greet()("hi"), "a(hi)");
}

TEST_F(FunctionPatches, APointIsThereOnlyWhileItsObjectIs) {
  register_patch(backend(), {"tests.patching.passing"}, around("a"), because("patch_passing"));
  {
    const PatchPoint<Text> passing("tests.patching.passing", plain);
    const PatchScope scope = apply_patches(backend());
    EXPECT_EQ(passing("hi"), "a(hi)");
  }
  EXPECT_THAT(error_of([&] { const PatchScope scope = apply_patches(backend()); }), HasSubstr("passing"));
}

TEST_F(FunctionPatches, AnotherSignatureIsAnError) {
  register_patch(backend(), {"tests.patching.number"}, around("a"), because("patch_number"));
  EXPECT_THAT(error_of([&] { const PatchScope scope = apply_patches(backend()); }),
              AllOf(HasSubstr("tests.patching.number"), HasSubstr("signature")));
}

TEST_F(FunctionPatches, RegistrationsSayWhyAndWhat) {
  EXPECT_THAT(error_of([&] { register_patch(backend(), {"tests.patching.greet"}, around("a"), {.name = "patch_x"}); }),
              AllOf(HasSubstr("patch_x"), HasSubstr("reason")));
  EXPECT_THAT(error_of([&] { register_patch(backend(), {}, around("a"), because("x")); }), HasSubstr("no paths"));
  EXPECT_THAT(error_of([&] { register_patch("", {"tests.patching.greet"}, around("a"), because("x")); }),
              HasSubstr("backend"));
  EXPECT_THAT(error_of([&] { register_patch(backend(), {"aten::relu"}, around("a"), because("x")); }),
              HasSubstr("'aten::relu' is a torch op"));
  EXPECT_TRUE(registered_patches(backend()).empty());
  EXPECT_THAT(error_of([] { const PatchPoint<Text> twin("tests.patching.greet", plain); }),
              HasSubstr("two patch points"));
}

TEST_F(FunctionPatches, AReplacementThatCallsItsOwnTargetEndsWithAnError) {
  register_patch(backend(), {"tests.patching.greet"}, function_patch<Text>([](const auto&) {
                   return [](const std::string& text) { return greet()(text); };
                 }),
                 because("patch_loop"));
  const PatchScope scope = apply_patches(backend());

  EXPECT_THAT(error_of([] { greet()("hi"); }),
              AllOf(HasSubstr("patch_loop"), HasSubstr("tests.patching.greet"), HasSubstr("without end")));
}

TEST_F(FunctionPatches, AReplacementMayCallItsOwnTargetOnOtherArguments) {
  register_patch(backend(), {"tests.patching.number"}, function_patch<int(int)>([](const auto& original) {
                   return [=](int value) -> int { return value == 0 ? original(0) : 1 + number()(value - 1); };
                 }),
                 because("patch_count"));
  const PatchScope scope = apply_patches(backend());
  EXPECT_EQ(number()(10), 10);
}

TEST_F(FunctionPatches, MethodsArePatchedThroughTheirObject) {
  struct Router {
    int experts = 4;
  };
  const PatchPoint<int(const Router&, int)> route(
      "tests.patching.route", [](const Router& router, int token) { return token % router.experts; });
  register_patch(backend(), {"tests.patching.route"}, function_patch<int(const Router&, int)>([](const auto& original) {
                   return [=](const Router& router, int token) { return original(router, token) + router.experts; };
                 }),
                 because("patch_route"));
  const Router router;
  EXPECT_EQ(route(router, 5), 1);
  const PatchScope scope = apply_patches(backend());
  EXPECT_EQ(route(router, 5), 5);
}

TEST_F(FunctionPatches, EffectsAreCountedWithTheirModules) {
  register_patch(backend(), {"tests.patching.greet"}, around("a"), because("patch_greet"));
  register_patch(backend(), {"tests.patching.part"}, around("a"), because("patch_part"));
  EffectLog log;
  {
    const EffectLog::Scope logging(log);
    const PatchScope scope = apply_patches(backend());
    greet()("hi");
    const ModuleScope encoder("encoder");
    const ModuleScope layer("layer.0");
    greet()("ho");
  }
  greet()("outside");

  ASSERT_EQ(log.effects().size(), 1u);  // patch_part was never called
  const Effect& effect = log.effects()[0];
  EXPECT_EQ(effect.kind, "patch");
  EXPECT_EQ(effect.backend, backend());
  EXPECT_EQ(effect.name, "patch_greet");
  EXPECT_EQ(effect.count, 2u);
  EXPECT_THAT(effect.places, ElementsAre(EffectPlace{"", ""}, EffectPlace{"", "encoder.layer.0"}));
}

TEST_F(FunctionPatches, TheInnermostLogGetsTheEffects) {
  EffectLog outer, inner;
  const EffectLog::Scope outside(outer);
  {
    const EffectLog::Scope inside(inner);
    record_effect("patch", "b", "x", {});
  }
  record_effect("patch", "b", "y", {});
  ASSERT_EQ(outer.effects().size(), 1u);
  EXPECT_EQ(outer.effects()[0].name, "y");
  ASSERT_EQ(inner.effects().size(), 1u);
  EXPECT_EQ(inner.effects()[0].name, "x");
}

}  // namespace
}  // namespace exporters
