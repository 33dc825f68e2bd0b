// The stages of a trace, one by one and together.
#include "exporters/dynamo/stages.h"

#include "exporters/dynamo/trace_model.h"
#include "exporters/framework/dynamic_shapes.h"
#include "exporters/framework/pytree_nodes.h"
#include "tests/support/error_of.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

ExportSource source_of(Forward forward) {
  ExportSource source;
  source.architecture = "Toy";
  source.forward = std::move(forward);
  return source;
}

DynamoConfig config_of(const char* dynamic_shapes, bool dynamic = false) {
  DynamoConfig config;
  config.dynamic = dynamic;
  config.dynamic_shapes = dynamic_shapes_from_json(json::parse(dynamic_shapes));
  return config;
}

std::string shapes_of(const NamedInputs& inputs, const char* dynamic_shapes, bool dynamic = false) {
  return to_json(resolve_dynamic_shapes(inputs, config_of(dynamic_shapes, dynamic))).dump();
}

const at::Tensor x = at::randn({2, 3});

// ── Stage 1 ──

TEST(ForwardSignature, FlagsAreAppliedForTheTraceAlone) {
  ExportSource source = source_of([](const NamedInputs& inputs) { return inputs.front().second; });
  source.with_output_flags = [](const NamedInputs& flags) -> Forward {
    const bool twice = std::get<bool>(find_input(flags, "output_hidden_states")->leaf());
    return [twice](const NamedInputs& inputs) {
      const PyTree& value = inputs.front().second;
      return twice ? PyTree::tuple({value, value}) : value;
    };
  };
  DynamoConfig config;

  const TracedModel with = trace_model(source, {{"x", x}, {"output_hidden_states", true}}, config);
  const TracedModel without = trace_model(source, {{"x", x}}, config);

  EXPECT_EQ(with.program->out_spec.leaf_count(), 2U);
  EXPECT_EQ(with.program->signature.user_inputs(), std::vector<std::string>{"x"});
  EXPECT_EQ(without.program->out_spec.leaf_count(), 1U);
}

TEST(ForwardSignature, NamesOfInputsAreThoseOfArguments) {
  const ExportSource source = source_of([](const NamedInputs& inputs) { return inputs.front().second; });
  DynamoConfig config;
  for (const char* name : {"", "1x", "a.b", "a b", "x-y"}) {
    EXPECT_THAT(error_of([&] { trace_model(source, {{name, x}}, config); }), HasSubstr("name of an input"));
  }
  EXPECT_THAT(error_of([&] { trace_model(source, {{"x", x}, {"x", x}}, config); }), HasSubstr("twice"));
}

// ── Stage 3 ──

TEST(PytreeRegistration, AnUnregisteredResultIsAnError) {
  const ExportSource source =
      source_of([](const NamedInputs& inputs) { return PyTree::node("toy:Unknown", "null", {inputs.front().second}); });
  DynamoConfig config;

  EXPECT_THAT(error_of([&] {
                trace_model(source, {{"x", x}}, config);
              }),
              AllOf(HasSubstr("'toy:Unknown'"), HasSubstr("output"), HasSubstr("register_pytree_node")));
}

// ── Stage 4 ──

NamedInputs nested_inputs() {
  const at::Tensor keys = at::randn({2, 4, 5, 8});
  return {{"x", x},
          {"cache", PyTree::node("toy:Cache",
                                 R"({"_t":"obj","s":{"layers":[{"keys":{"_t":"tensor","i":0},)"
                                 R"("values":{"_t":"tensor","i":1}}]}})",
                                 {keys, keys})},
          {"flag", true}};
}

TEST(DynamicShapes, DynamicMakesEveryAxisOfEveryLeafSymbolic) {
  const json shapes = json::parse(shapes_of(nested_inputs(), "{}", true));

  EXPECT_EQ(shapes.size(), 3U);
  EXPECT_EQ(shapes.at("cache.layers.0.values").size(), 4U);
  for (const auto& [path, axes] : shapes.items()) {
    for (const auto& [axis, dim] : axes.items()) {
      EXPECT_EQ(dim, "DimHint(AUTO)") << path << " " << axis;
    }
  }
  EXPECT_EQ(json::parse(shapes_of(nested_inputs(), "{}", false)).at("x").at("1"), "DimHint(STATIC)");
}

TEST(DynamicShapes, AKeyThatIsAContainerStandsForItsTensors) {
  const json shapes = json::parse(shapes_of(
      nested_inputs(),
      R"({"cache": {"0": "batch", "-2": "past"}, "cache.layers.*.values": {"2": "static"}, "x": {"0": "batch"}})"));

  EXPECT_EQ(shapes.at("cache.layers.0.keys").at("0"), "Dim('batch', min=1)");
  EXPECT_EQ(shapes.at("cache.layers.0.keys").at("2"), "Dim('past', min=1)");
  EXPECT_EQ(shapes.at("cache.layers.0.keys").at("3"), "DimHint(STATIC)");
  EXPECT_EQ(shapes.at("cache.layers.0.values").at("0"), "Dim('batch', min=1)");
  EXPECT_EQ(shapes.at("cache.layers.0.values").at("2"), "DimHint(STATIC)");
}

TEST(DynamicShapes, AnInputWithoutAxesIsStatic) {
  const json shapes = json::parse(
      shapes_of({{"x", x}, {"y", x}, {"flag", true}}, R"({"x": null, "flag": null, "return_dict": null})", true));

  EXPECT_EQ(shapes.at("x").at("0"), "DimHint(STATIC)");
  EXPECT_EQ(shapes.at("y").at("0"), "DimHint(AUTO)");
}

TEST(DynamicShapes, ErrorsNameWhatIsThere) {
  EXPECT_THAT(error_of([] {
                shapes_of({{"input_ids", x}}, R"({"input_idz": {"0": "auto"}})");
              }),
              AllOf(HasSubstr("'input_idz'"), HasSubstr("'input_ids'")));
  EXPECT_THAT(error_of([] { shapes_of({{"input_ids", x}}, R"({"input_idz": null})"); }), HasSubstr("'input_idz'"));
  EXPECT_THAT(error_of([] {
                shapes_of({{"x", x}, {"flag", true}}, R"({"flag": {"0": "auto"}})");
              }),
              AllOf(HasSubstr("'flag'"), HasSubstr("no tensor")));
  EXPECT_THAT(error_of([] {
                shapes_of({{"x", x}}, R"({"x": {"2": "auto"}})");
              }),
              AllOf(HasSubstr("axis 2"), HasSubstr("2 axes")));
  EXPECT_THAT(error_of([] { shapes_of({{"x", x}}, R"({"x": {"1": "auto", "-1": "static"}})"); }), HasSubstr("twice"));
}

// What cat needs of its inputs, as a forward over two lengths.
PyTree add_one_longer(const NamedInputs& inputs) {
  const at::Tensor& a = inputs[0].second.tensor();
  const at::Tensor& b = inputs[1].second.tensor();
  return PyTree(at::cat({a, a.slice(0, 0, 1)}) + b);
}

TEST(DynamicShapes, ADerivedDimHoldsAnAffineRelation) {
  DynamoConfig config = config_of(R"({"a": {"0": "length 1:64"}, "b": {"0": "length + 1"}})");

  const TracedModel traced =
      trace_model(source_of(add_one_longer), {{"a", at::randn({4, 3})}, {"b", at::randn({5, 3})}}, config);

  EXPECT_EQ(traced.program->range_constraints.size(), 1U);
  EXPECT_EQ(traced.program->range_constraints.begin()->second, (Range{1, 64}));
}

TEST(DynamicShapes, AnAffineRelationThatWasNotSaidIsAnErrorForNamedDimsAndFoundForAutomaticOnes) {
  const NamedInputs inputs = {{"a", at::randn({4, 3})}, {"b", at::randn({5, 3})}};
  DynamoConfig named = config_of(R"({"a": {"0": "m"}, "b": {"0": "n"}})");
  DynamoConfig automatic = config_of(R"({"a": {"0": "auto"}, "b": {"0": "auto"}})");

  EXPECT_THAT(error_of([&] { trace_model(source_of(add_one_longer), inputs, named); }),
              AllOf(HasSubstr("'m'"), HasSubstr("'n'"), HasSubstr("derive")));
  const TracedModel traced = trace_model(source_of(add_one_longer), inputs, automatic);
  EXPECT_EQ(traced.program->range_constraints.size(), 1U);
  EXPECT_THAT(traced.program->specializations, ElementsAre());
}

TEST(DynamicShapes, ANamedDimThatTheModelFixesIsAnErrorWithTheValue) {
  const at::Tensor weight = at::randn({3, 2});
  const ExportSource source =
      source_of([weight](const NamedInputs& inputs) { return PyTree(inputs[0].second.tensor().matmul(weight)); });
  DynamoConfig named = config_of(R"({"x": {"1": "width"}})");

  EXPECT_THAT(error_of([&] {
                trace_model(source, {{"x", x}}, named);
              }),
              AllOf(HasSubstr("'width'"), HasSubstr("'x' axis 1"), HasSubstr("3")));
}

TEST(DynamicShapes, ASampleOutsideTheRangeIsAnError) {
  DynamoConfig config = config_of(R"({"x": {"0": "batch 4:8"}})");
  const ExportSource source = source_of([](const NamedInputs& inputs) { return inputs[0].second; });

  EXPECT_THAT(error_of([&] {
                trace_model(source, {{"x", x}}, config);
              }),
              AllOf(HasSubstr("'x' axis 0"), HasSubstr("2"), HasSubstr("[4, 8]")));
}

// ── Stage 5 ──

// Keeps a table of the first forward for the next ones.
struct Rotary {
  at::Tensor cached_rotary_positional_embedding;
  at::Tensor other;

  ExportSource source() {
    ExportSource result = source_of([this](const NamedInputs& inputs) {
      const at::Tensor& input = inputs[0].second.tensor();
      if (!cached_rotary_positional_embedding.defined()) {
        cached_rotary_positional_embedding = input * 2;
      }
      other = input;
      return PyTree(input + cached_rotary_positional_embedding);
    });
    result.attributes = {{"encoder.cached_rotary_positional_embedding", &cached_rotary_positional_embedding},
                         {"encoder.other", &other}};
    return result;
  }
};

TEST(StateCleanup, AStatefulAttributeIsClearedForTheTraceAndRestored) {
  Rotary rotary;
  const ExportSource source = rotary.source();
  source.forward({{"x", x}});
  const at::Tensor table = rotary.cached_rotary_positional_embedding;
  DynamoConfig config;
  config.dynamic = true;

  const TracedModel traced = trace_model(source, {{"x", x}}, config);

  EXPECT_TRUE(traced.program->state.empty());  // the table did not become a constant
  EXPECT_TRUE(rotary.cached_rotary_positional_embedding.is_same(table));
}

TEST(StateCleanup, IsRestoredAfterAnErrorToo) {
  Rotary rotary;
  rotary.cached_rotary_positional_embedding = x;
  ExportSource source = rotary.source();
  source.forward = [&, forward = source.forward](const NamedInputs& inputs) -> PyTree {
    EXPECT_FALSE(rotary.cached_rotary_positional_embedding.defined());
    forward(inputs);
    fail("half-way");
  };
  DynamoConfig config;

  EXPECT_THAT(error_of([&] { trace_model(source, {{"x", x}}, config); }), HasSubstr("half-way"));

  EXPECT_TRUE(rotary.cached_rotary_positional_embedding.is_same(x));
}

TEST(StateCleanup, OnlyRegisteredNamesAreCleared) {
  Rotary rotary;
  rotary.other = x;
  const ExportSource source = rotary.source();
  {
    const ResetModelState reset(source);
    EXPECT_TRUE(rotary.other.defined());
  }
  register_stateful_cache_attr("other", "a test");
  {
    const ResetModelState reset(source);
    EXPECT_FALSE(rotary.other.defined());
  }
  EXPECT_TRUE(rotary.other.is_same(x));
  EXPECT_EQ(stateful_cache_attrs().back().name, "other");
}

}  // namespace
}  // namespace exporters
