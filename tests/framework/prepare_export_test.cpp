// Sample inputs on their way into a trace.
#include "exporters/framework/prepare_export.h"
#include "tests/support/error_of.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

std::vector<std::string> names_of(const NamedInputs& inputs) {
  std::vector<std::string> names;
  for (const auto& [name, value] : inputs) {
    names.push_back(name);
  }
  return names;
}

// With a config, so that output flags have a meaning.
ExportSource model_of(c10::ScalarType dtype = at::kFloat) {
  ExportSource source;
  source.architecture = "Toy";
  source.config_json = "{}";
  source.state.push_back({"ids", at::zeros({2}, at::kLong), false, true, {}});
  source.state.push_back({"weight", at::zeros({2}, dtype), false, true, {}});
  source.forward = [](const NamedInputs& inputs) { return inputs.front().second; };
  source.with_output_flags = [forward = source.forward](const NamedInputs&) { return forward; };
  return source;
}

const at::Tensor x = at::ones({2, 3});

// ── Labels ──

TEST(Labels, AreRefusedWithTheReason) {
  for (const char* name : {"labels", "future_values"}) {
    EXPECT_THAT(error_of([&] {
                  prepare_for_export(model_of(), {{"x", x}, {name, x}});
                }),
                AllOf(HasSubstr(name), HasSubstr("no loss")));
  }
}

TEST(Labels, ThatAreNoneAreLeftOut) {
  EXPECT_THAT(names_of(prepare_for_export(model_of(), {{"labels", PyTree()}, {"x", x}}).inputs), ElementsAre("x"));
}

TEST(Labels, ReturnLossIsRefusedInInputsAndConfig) {
  EXPECT_THAT(error_of([&] {
                prepare_for_export(model_of(), {{"x", x}, {"return_loss", true}});
              }),
              HasSubstr("return_loss"));
  EXPECT_EQ(error_of([&] { prepare_for_export(model_of(), {{"x", x}, {"return_loss", false}}); }), "no error");
  ExportSource model = model_of();
  model.config_json = R"({"return_loss": true})";
  EXPECT_THAT(error_of([&] { prepare_for_export(model, {{"x", x}}); }), HasSubstr("config"));
}

// ── Output flags ──

TEST(OutputFlags, AreTakenOutAndTheCallersInputsStay) {
  const NamedInputs given = {{"x", x}, {"use_cache", false}, {"output_hidden_states", true}, {"return_dict", PyTree()}};

  const PreparedInputs prepared = prepare_for_export(model_of(), given);

  EXPECT_THAT(names_of(prepared.inputs), ElementsAre("x"));
  EXPECT_THAT(names_of(prepared.output_flags), ElementsAre("use_cache", "output_hidden_states", "return_dict"));
  EXPECT_EQ(given.size(), 4U);
}

TEST(OutputFlags, OfAModuleWithoutConfigAreArguments) {
  ExportSource model = model_of();
  model.with_output_flags = nullptr;

  EXPECT_THAT(names_of(prepare_for_export(model, {{"x", x}, {"use_cache", true}}).inputs),
              ElementsAre("x", "use_cache"));
}

TEST(OutputFlags, ThatAreTensorsAreErrors) {
  EXPECT_THAT(error_of([&] { prepare_for_export(model_of(), {{"x", x}, {"use_cache", x}}); }), HasSubstr("use_cache"));
}

// ── Casts ──

TEST(Casts, FloatsTakeTheModelsDtypeAlsoInsideContainers) {
  const at::Tensor ids = at::ones({2}, at::kLong);
  const NamedInputs given = {
      {"x", x}, {"ids", ids}, {"pair", PyTree::tuple({x, PyTree::dict({{"deep", x}, {"mask", ids.to(at::kBool)}})})}};

  const NamedInputs inputs = prepare_for_export(model_of(at::kHalf), given).inputs;

  EXPECT_EQ(find_input(inputs, "x")->tensor().scalar_type(), at::kHalf);
  EXPECT_EQ(find_input(inputs, "ids")->tensor().scalar_type(), at::kLong);
  EXPECT_EQ(find_input(inputs, "pair")->at("1.deep").tensor().scalar_type(), at::kHalf);
  EXPECT_EQ(find_input(inputs, "pair")->at("1.mask").tensor().scalar_type(), at::kBool);
  EXPECT_EQ(given[0].second.tensor().scalar_type(), at::kFloat);
}

TEST(Casts, AModelWithoutFloatsLeavesInputsAlone) {
  ExportSource model = model_of();
  model.state.pop_back();

  EXPECT_EQ(prepare_for_export(model, {{"x", x}}).inputs.front().second.tensor().scalar_type(), at::kFloat);
}

// ── Preparers ──

TEST(InputPreparers, RunWhenEveryMarkerIsThere) {
  register_export_input_preparer(
      {"toy_lengths", "toy_features"},
      [](const ExportSource& model, NamedInputs& inputs) {
        set_input(inputs, "toy_sum", find_input(inputs, "toy_lengths")->tensor().sum());
        set_input(inputs, "toy_features", find_input(inputs, "toy_features")->tensor() + 1);
        EXPECT_EQ(model.architecture, "Toy");
      },
      "lengths are summed");
  const at::Tensor lengths = at::ones({4}, at::kLong);

  const NamedInputs both = prepare_for_export(model_of(), {{"toy_features", x}, {"toy_lengths", lengths}}).inputs;
  const NamedInputs one = prepare_for_export(model_of(), {{"toy_features", x}}).inputs;
  const NamedInputs none = prepare_for_export(model_of(), {{"toy_features", x}, {"toy_lengths", PyTree()}}).inputs;

  EXPECT_EQ(find_input(both, "toy_sum")->tensor().item().toLong(), 4);
  EXPECT_EQ(find_input(both, "toy_features")->tensor().max().item().toDouble(), 2);
  EXPECT_EQ(find_input(one, "toy_sum"), nullptr);
  EXPECT_EQ(find_input(none, "toy_sum"), nullptr);
}

TEST(InputPreparers, ASecondOneForTheSameMarkersReplacesTheFirst) {
  const auto setting = [](int64_t value) {
    return [value](const ExportSource&, NamedInputs& inputs) { set_input(inputs, "toy_result", value); };
  };
  register_export_input_preparer({"toy_marker"}, setting(1));
  register_export_input_preparer({"toy_marker"}, setting(2));

  const NamedInputs inputs = prepare_for_export(model_of(), {{"toy_marker", x}}).inputs;

  EXPECT_EQ(std::get<int64_t>(find_input(inputs, "toy_result")->leaf()), 2);
}

TEST(InputPreparers, ErrorsNameTheMarker) {
  register_export_input_preparer({"toy_broken"}, [](const ExportSource&, NamedInputs&) { fail("no grid"); });

  EXPECT_THAT(error_of([&] {
                prepare_for_export(model_of(), {{"toy_broken", x}});
              }),
              AllOf(HasSubstr("no grid"), HasSubstr("toy_broken")));
  EXPECT_NE(error_of([] { register_export_input_preparer({}, [](const ExportSource&, NamedInputs&) {}); }), "no error");
}

}  // namespace
}  // namespace exporters
