// Exports of the format "dynamo": what a program takes, what it gives, and what it refuses.
#include "exporters/dynamo/exporter.h"

#include "exporters/framework/dynamic_shapes.h"
#include "exporters/framework/exported_model.h"
#include "exporters/framework/module_source.h"
#include "exporters/framework/prepare_export.h"
#include "exporters/framework/registry.h"
#include "exporters/framework/traced_program.h"
#include "exporters/models/cache.h"
#include "exporters/patching/registry.h"
#include "exporters/support/place.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include <mutex>

namespace exporters {
namespace {

namespace nn = torch::nn;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

class Dynamo : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static std::once_flag once;
    std::call_once(once, register_dynamo_backend);
  }

  static DynamoConfig dynamic(const char* dynamic_shapes = "null") {
    DynamoConfig config;
    config.dynamic = true;
    config.dynamic_shapes = dynamic_shapes_from_json(json::parse(dynamic_shapes));
    return config;
  }

  // Traced, saved and loaded again.
  ExportedModel round_trip(const ExportSource& source, const NamedInputs& inputs, DynamoConfig config = dynamic()) {
    DynamoExporter().export_model(source, inputs, config).save_pretrained(folder_ / "out");
    return ExportedModel::from_pretrained(folder_ / "out");
  }

  const at::NoGradGuard no_grad_;
  testing::TemporaryFolder folder_;
};

ExportSource source_of(Forward forward) {
  ExportSource source;
  source.architecture = "Toy";
  source.forward = std::move(forward);
  return source;
}

at::Tensor input(const NamedInputs& inputs, const char* name) { return find_input(inputs, name)->tensor(); }

// ── Sizes ──

struct ScorerImpl : nn::Module {
  nn::Linear score{4, 2};
  ScorerImpl() { register_module("score", score); }
  at::Tensor forward(const at::Tensor& x) { return score(x).relu(); }
};
TORCH_MODULE(Scorer);

TEST_F(Dynamo, OneProgramServesEverySizeAlsoAfterASampleOfOne) {
  Scorer scorer;
  scorer->eval();
  const ExportSource source = export_source(scorer.ptr(), &ScorerImpl::forward);
  const DynamoConfig config = dynamic(R"j({"x": {"0": "Dim('batch', min=1, max=16)", "1": "length"}})j");

  const ExportedModel exported = round_trip(source, {{"x", at::randn({1, 1, 4})}}, config);

  for (const auto& [batch, length] : {std::pair(1, 1), std::pair(5, 7), std::pair(16, 3)}) {
    const at::Tensor x = at::randn({batch, length, 4});
    EXPECT_TRUE(at::allclose(exported({{"x", x}}).tensor(), scorer->forward(x), 1e-6, 1e-6));
  }
  EXPECT_THAT(error_of([&] {
                exported({{"x", at::randn({17, 1, 4})}});
              }),
              AllOf(HasSubstr("'x' axis 0"), HasSubstr("17"), HasSubstr("16]")));
}

TEST_F(Dynamo, AStaticExportTakesTheSamplesSizesOnly) {
  DynamoConfig config;
  const ExportedModel exported =
      round_trip(source_of([](const NamedInputs& inputs) { return PyTree(input(inputs, "x") + 1); }),
                 {{"x", at::randn({1, 3})}}, config);

  EXPECT_THAT(error_of([&] {
                exported({{"x", at::randn({2, 3})}});
              }),
              AllOf(HasSubstr("'x' axis 0"), HasSubstr("takes 1 only")));
}

// Keyword arguments with ranges of their own, and a flag among the dynamic shapes.
TEST_F(Dynamo, DynamicShapesOfKeywordInputsMayNameFlags) {
  ExportSource source = source_of(
      [](const NamedInputs& inputs) { return PyTree(input(inputs, "input_ids") * input(inputs, "attention_mask")); });
  source.with_output_flags = [forward = source.forward](const NamedInputs&) { return forward; };
  const DynamoConfig config = dynamic(
      R"({"input_ids": {"0": "batch 2:10", "1": null}, "attention_mask": {"0": "batch", "1": null}, "return_dict": null})");
  const at::Tensor ids = at::ones({3, 8}, at::kLong);

  const ExportedModel exported =
      round_trip(source, {{"attention_mask", ids}, {"input_ids", ids}, {"return_dict", true}}, config);

  const at::Tensor ten = at::ones({10, 8}, at::kLong);
  EXPECT_EQ(exported({{"input_ids", ten}, {"attention_mask", ten}}).tensor().size(0), 10);
  EXPECT_THAT(error_of([&] {
                exported({{"input_ids", ten.slice(0, 0, 1)}, {"attention_mask", ten.slice(0, 0, 1)}});
              }),
              AllOf(HasSubstr("axis 0"), ::testing::AnyOf(HasSubstr("[2, 10]"), HasSubstr(">= 2"))));
}

// ── Inputs ──

PyTree weighted_sum(const NamedInputs& inputs) {
  const PyTree& pair = *find_input(inputs, "pair");
  return PyTree::dict({{"sum", pair.at("0").tensor() + pair.at("1.b").tensor() * input(inputs, "x")},
                       {"x", input(inputs, "x")},
                       {"nothing", PyTree()}});
}

TEST_F(Dynamo, NestedInputsComeWholeOrInParts) {
  const at::Tensor x = at::randn({2, 3});
  const NamedInputs whole = {
      {"x", x}, {"pair", PyTree::tuple({x, PyTree::dict({{"b", x}})})}, {"unused", at::ones({4})}};
  const ExportedModel exported = round_trip(source_of(weighted_sum), whole);
  const at::Tensor y = at::randn({1, 5});
  const PyTree pair = PyTree::tuple({y, PyTree::dict({{"b", y}})});
  const at::Tensor expected = y + y * y;

  const PyTree from_whole = exported({{"unused", at::ones({1})}, {"pair", pair}, {"x", y}});
  const PyTree from_parts = exported({{"x", y}, {"pair.0", y}, {"pair.1.b", y}, {"unused", at::ones({1})}});

  EXPECT_TRUE(at::allclose(from_whole.at("sum").tensor(), expected));
  EXPECT_TRUE(at::allclose(from_parts.at("sum").tensor(), expected));
  EXPECT_TRUE(at::allclose(from_whole.at("x").tensor(), y));
  EXPECT_TRUE(from_whole.at("nothing").is_none());
}

TEST_F(Dynamo, MissingInputsAreListed) {
  const at::Tensor x = at::randn({2, 3});
  const ExportedModel exported =
      round_trip(source_of(weighted_sum), {{"x", x}, {"pair", PyTree::tuple({x, PyTree::dict({{"b", x}})})}});

  EXPECT_THAT(error_of([&] {
                exported({{"pair.0", x}});
              }),
              AllOf(HasSubstr("'x'"), HasSubstr("'pair.1.b'"), Not(HasSubstr("'pair.0'"))));
}

TEST_F(Dynamo, PartsThatWereNotTracedAreErrors) {
  const at::Tensor x = at::randn({2, 3});
  const ExportedModel exported =
      round_trip(source_of(weighted_sum), {{"x", x}, {"pair", PyTree::tuple({x, PyTree::dict({{"b", x}})})}});

  EXPECT_THAT(error_of([&] {
                exported({{"x", x}, {"pair", PyTree::tuple({x, PyTree::dict({{"b", x}, {"c", x}})})}});
              }),
              HasSubstr("'pair.1.c'"));
}

TEST_F(Dynamo, AnotherDtypeIsAnErrorWithTheOneThatIsTaken) {
  const ExportedModel exported =
      round_trip(source_of([](const NamedInputs& inputs) { return PyTree(input(inputs, "x") + 1); }),
                 {{"x", at::ones({2}, at::kLong)}});

  EXPECT_THAT(error_of([&] {
                exported({{"x", at::ones({2}, at::kInt)}});
              }),
              AllOf(HasSubstr("'x'"), HasSubstr("int64")));
  EXPECT_THAT(error_of([&] {
                exported({{"x", at::ones({2, 2}, at::kLong)}});
              }),
              AllOf(HasSubstr("'x'"), HasSubstr("1")));
}

// ── Caches and types of a user ──

using CachePointer = std::shared_ptr<models::Cache>;

struct Step : nn::Module {
  CachePointer forward(const at::Tensor& keys, const CachePointer& cache) {
    auto& dynamic = dynamic_cast<models::DynamicCache&>(*cache);
    dynamic.layer(0).update(keys, keys * 2);
    return cache;
  }
};

TEST_F(Dynamo, ACacheGoesInAndComesOutLonger) {
  auto step = std::make_shared<Step>();
  step->eval();
  const auto cache_of = [](const at::Tensor& keys, const at::Tensor& values) {
    models::LayeredCache::Layers layers;
    layers.push_back(std::make_unique<models::DynamicLayer>(keys, values));
    return models::DynamicCache(std::move(layers)).to_tree();
  };
  const auto sample = at::randn({2, 3, 4, 8});
  const ExportedModel exported = round_trip(
      export_source(step, &Step::forward), {{"keys", at::randn({2, 3, 1, 8})}, {"cache", cache_of(sample, sample)}},
      dynamic(R"({"cache": {"0": "batch", "1": null, "2": "past", "3": null}, "keys": {"0": "batch", "2": "auto"}})"));

  for (const auto& [batch, past, length] : {std::tuple(1, 1, 1), std::tuple(4, 6, 3)}) {
    const at::Tensor keys = at::randn({batch, 3, length, 8});
    const at::Tensor old = at::randn({batch, 3, past, 8});
    const PyTree result = exported({{"keys", keys}, {"cache", cache_of(old, old)}});
    EXPECT_EQ(result.type(), "transformers.cache_utils:DynamicCache");
    EXPECT_TRUE(at::allclose(result.at("layers.0.keys").tensor(), at::cat({old, keys}, 2)));
    EXPECT_TRUE(at::allclose(result.at("layers.0.values").tensor(), at::cat({old, keys * 2}, 2)));
  }
}

// ── Training mode ──

TEST_F(Dynamo, LiveDropoutIsRefused) {
  const ExportSource source =
      source_of([](const NamedInputs& inputs) { return PyTree(at::dropout(input(inputs, "x"), 0.5, /*train=*/true)); });
  DynamoConfig config;

  EXPECT_THAT(error_of([&] {
                DynamoExporter().export_model(source, {{"x", at::ones({2})}}, config);
              }),
              AllOf(HasSubstr("training mode"), HasSubstr("aten.dropout.default")));
}

// ── What is written ──

TEST_F(Dynamo, TheManifestIsTheReferences) {
  round_trip(source_of(weighted_sum),
             {{"x", at::randn({2, 3})},
              {"pair", PyTree::tuple({at::randn({2, 3}), PyTree::dict({{"b", at::randn({2, 3})}})})}});

  const json document = json::parse(testing::read_text(folder_ / "out" / "export.json"));
  const json& metadata = document.at("components").at("model").at("metadata");
  EXPECT_EQ(document.at("export_format"), "dynamo");
  EXPECT_EQ(document.at("components").at("model").at("file"), "model.pt2");
  EXPECT_EQ(metadata.at("kwargs").at("pair"), json::parse(R"({"container": "tuple"})"));
  EXPECT_EQ(metadata.at("out_constants"), json::array());
  EXPECT_EQ(metadata.at("export_config").at("dynamic"), true);
}

TEST_F(Dynamo, ALoneProgramIsDescribedAndRuns) {
  round_trip(source_of(weighted_sum),
             {{"x", at::randn({2, 3})},
              {"pair", PyTree::tuple({at::randn({2, 3}), PyTree::dict({{"b", at::randn({2, 3})}})})}});

  const ExportedComponent component = DynamoExporter().open_program(folder_ / "out" / "model.pt2");
  const ProgramDescription description = DynamoExporter().describe_program(*component.program);
  const at::Tensor y = at::randn({1, 2});
  const PyTree result = DynamoRunner(component).run({{"x", y}, {"pair.0", y}, {"pair.1.b", y}});

  EXPECT_TRUE(at::allclose(result.at("sum").tensor(), y + y * y));
  std::vector<std::string> names;
  for (const ValueDescription& value : description.inputs) {
    names.push_back(value.name + " " + value.dtype);
  }
  EXPECT_THAT(names, ElementsAre("x float32", "pair.0 float32", "pair.1.b float32"));
  EXPECT_EQ(description.ops.at("aten.add.Tensor"), 1);
}

// What a program says of its sizes is there again, by the names that they were given.
TEST_F(Dynamo, NamesBoundsAndGuardPlacesOutliveTheFile) {
  const ExportSource source = source_of([](const NamedInputs& inputs) {
    const ModuleScope module("head", "Head");
    const at::Tensor x = input(inputs, "x");
    TORCH_SYM_CHECK((x.sym_size(2) + x.sym_size(3)).sym_lt(100), "too large");
    return PyTree(x + 1);
  });
  const DynamoConfig config =
      dynamic(R"j({"x": {"0": "Dim('batch', min=1, max=16)", "1": "length", "2": "auto", "3": "auto"}})j");

  round_trip(source, {{"x", at::randn({2, 3, 4, 5})}}, config);
  const ExportedComponent component = DynamoExporter().open_program(folder_ / "out" / "model.pt2");

  const ProgramDescription description = DynamoExporter().describe_program(*component.program);
  ASSERT_EQ(description.inputs.size(), 1U);
  EXPECT_THAT(description.inputs[0].dims,
              ElementsAre("batch", "length", ::testing::StartsWith("s"), ::testing::StartsWith("s")));
  EXPECT_THAT(description.conditions, ::testing::IsSupersetOf({"batch >= 1", "batch <= 16", "length >= 1"}));
  const std::shared_ptr<ExportedProgram> program = component.program->traced();
  ASSERT_EQ(program->guards.size(), 1U);
  EXPECT_EQ(program->guards[0].place.module_path, "head");
  EXPECT_EQ(program->guards[0].place.module_class, "Head");
}

// ── Patches ──

const PatchPoint<int()>& probed() {
  static const PatchPoint<int()> point("tests.dynamo.probed", [] { return 1; });
  return point;
}

// What the point gives while the forward is traced, and while the format is made.
struct Probe {
  int in_trace = 0;
  int in_format = 0;
};

class ProbingExporter : public DynamoExporter {
 public:
  explicit ProbingExporter(Probe& probe) : probe_(probe) {
    probed();
    static std::once_flag once;
    std::call_once(once, [] {
      const auto adding = [](int more) {
        return function_patch<int()>(
            [more](const std::function<int()>& original) { return [=] { return original() + more; }; });
      };
      register_patch("probing", {"tests.dynamo.probed"}, adding(10), {.name = "adds_ten", .reason = "a test"});
      register_patch("dynamo", {"tests.dynamo.probed"}, adding(100), {.name = "adds_hundred", .reason = "a test"});
    });
  }
  std::string export_format() const override { return "probing"; }

 protected:
  ExportedComponent export_traced(TracedModel traced, ExportConfig& config) const override {
    probe_.in_format = probed()();
    return DynamoExporter::export_traced(std::move(traced), config);
  }

 private:
  Probe& probe_;
};

// Given patches of the trace and of a format, each is in force once: the format's from the trace to the finished
// component, also for a program that was traced before.
TEST_F(Dynamo, PatchesOfAFormatAreInForceHoweverTheProgramComes) {
  Probe probe;
  const ProbingExporter exporter(probe);
  const ExportSource source = source_of([&](const NamedInputs& inputs) {
    probe.in_trace = probed()();
    return inputs.front().second;
  });
  DynamoConfig config;

  ExportedComponent component = exporter.export_component(source, {{"x", at::randn({2, 3})}}, config);
  EXPECT_EQ(probe.in_trace, 111);
  EXPECT_EQ(probe.in_format, 11);
  EXPECT_FALSE(component.effects.empty());

  probe = {};
  exporter.export_component(traced_model(component.program->traced()), config);
  EXPECT_EQ(probe.in_format, 11);

  DynamoExporter().export_component(source, {{"x", at::randn({2, 3})}}, config);
  EXPECT_EQ(probe.in_trace, 101);
  EXPECT_EQ(probed()(), 1);
}

TEST_F(Dynamo, StagesListWhatIsRegistered) {
  const std::vector<Stage> stages = DynamoExporter().stages();

  ASSERT_EQ(stages.size(), 5U);
  EXPECT_EQ(stages[1].title, "Model patches");
  const auto has = [](const Stage& stage, const std::string& name) {
    return std::any_of(stage.entries.begin(), stage.entries.end(),
                       [&](const StageEntry& entry) { return entry.name == name && !entry.reason.empty(); });
  };
  EXPECT_TRUE(has(stages[1], "patch_classifier_cast"));
  EXPECT_TRUE(has(stages[4], "cached_rotary_positional_embedding"));
  EXPECT_TRUE(std::any_of(stages[2].entries.begin(), stages[2].entries.end(), [](const StageEntry& entry) {
    return entry.name.find("transformers.cache_utils:DynamicCache") != std::string::npos;
  }));
}

}  // namespace
}  // namespace exporters
