// Each pass of the optimizer alone, on models that it changes and on those that it must leave alone.
#include "exporters/onnx/optimize/passes.h"
#include "exporters/onnx/exporter.h"
#include "exporters/support/error.h"
#include "tests/onnx/exported.h"
#include "tests/onnx/optimize/model_builder.h"
#include "tests/onnx/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <ctime>
#include <limits>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Names = std::vector<std::string>;
using Inputs = OnnxRunner::Inputs;

const std::vector<OnnxDim> kMatrix = {"rows", "columns"};

OnnxAttribute ints(std::string name, std::vector<int64_t> values) { return {std::move(name), std::move(values)}; }
OnnxAttribute number(std::string name, int64_t value) { return {std::move(name), value}; }
OnnxAttribute to(OnnxType type) { return number("to", static_cast<int64_t>(type)); }

std::vector<Inputs> matrices() {
  return {
      {{"x", at::randn({2, 3})}}, {{"x", at::randn({1, 1})}}, {{"x", at::randn({5, 4})}}, {{"x", at::randn({0, 3})}}};
}

// ── dead_code ──

TEST(OptimizerPasses, DeadCodeGoesWithItsConstants) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const std::string dead = model.node("Mul", {x, model.constant(at::full({}, 3.0))});
  model.node("Neg", {dead});
  model.output(model.node("Abs", {x}), kMatrix);
  EXPECT_THAT(optimized_by("dead_code", model.model(), matrices()), ElementsAre("Abs"));
  OnnxModel optimized = model.model();
  optimize_model(optimized, {});
  EXPECT_TRUE(optimized.graph.initializers.empty());
}

// ── identities ──

TEST(OptimizerPasses, IdentitiesBetweenNodesGo) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const std::string whole = model.node("Slice", {model.node("Identity", {model.node("Abs", {x})}), model.ints({0}),
                                                 model.ints({std::numeric_limits<int64_t>::max()}), model.ints({1})});
  const std::string same =
      model.node("Transpose", {model.node("Concat", {whole}, {number("axis", 0)})}, {ints("perm", {0, 1})});
  model.output(model.node("Neg", {same}), kMatrix);
  EXPECT_THAT(optimized_by("identities", model.model(), matrices()), ElementsAre("Abs", "Neg"));
}

// An output has its name from the graph: its producer takes it; an input's own name cannot be another.
TEST(OptimizerPasses, IdentitiesOfOutputsKeepTheNames) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const std::string abs = model.node("Abs", {x});
  model.output(model.node("Neg", {abs}), kMatrix);
  model.output(model.node("Identity", {abs}), kMatrix);
  model.output(model.node("Identity", {x}), kMatrix);
  EXPECT_THAT(optimized_by("identities", model.model(), matrices()), ElementsAre("Abs", "Neg", "Identity"));
}

TEST(OptimizerPasses, ReshapesToOwnSizesGoAndOthersStay) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const std::string same = model.node("Reshape", {model.node("Abs", {x}), model.ints({0, -1})});
  model.describe(same, kMatrix);
  model.output(model.node("Neg", {same}), kMatrix);
  model.output(model.node("Reshape", {x, model.ints({-1})}), {OnnxDim()});
  EXPECT_THAT(optimized_by("identities", model.model(), {{{"x", at::randn({2, 3})}}, {{"x", at::randn({4, 1})}}}),
              ElementsAre("Abs", "Neg", "Reshape"));
}

// ── casts ──

TEST(OptimizerPasses, CastsThatLoseNothingGo) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix, OnnxType::kInt32);
  const std::string there = model.node("Cast", {x}, {to(OnnxType::kInt64)});
  const std::string own = model.node("Cast", {there}, {to(OnnxType::kInt64)});
  model.output(model.node("Neg", {model.node("Cast", {own}, {to(OnnxType::kInt32)})}), kMatrix, OnnxType::kInt32);
  EXPECT_THAT(optimized_by("casts", model.model(), {{{"x", at::tensor({1 << 30, -5}, at::kInt).reshape({1, 2})}}}),
              ElementsAre("Neg"));
}

TEST(OptimizerPasses, CastsThatRoundStay) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const std::string half = model.node("Cast", {x}, {to(OnnxType::kFloat16)});
  model.output(model.node("Cast", {half}, {to(OnnxType::kFloat)}), kMatrix);
  const std::string whole = model.node("Cast", {x}, {to(OnnxType::kInt64)});
  model.output(model.node("Cast", {whole}, {to(OnnxType::kFloat)}), kMatrix);
  EXPECT_THAT(optimized_by("casts", model.model(), matrices()), ElementsAre("Cast", "Cast", "Cast", "Cast"));
}

// ── common_subexpressions ──

TEST(OptimizerPasses, EqualNodesAndConstantsAreOne) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const auto scaled = [&] { return model.node("Mul", {x, model.constant(at::full({}, 3.0))}); };
  model.output(model.node("Add", {scaled(), scaled()}), kMatrix);
  EXPECT_THAT(optimized_by("common_subexpressions", model.model(), matrices()), ElementsAre("Mul", "Add"));
}

TEST(OptimizerPasses, DifferentAttributesAndDrawsAreTwo) {
  ModelBuilder model(21);
  const std::string x = model.input("x", kMatrix);
  const std::string wide = model.node("Softmax", {x}, {number("axis", 0)});
  const std::string high = model.node("Softmax", {x}, {number("axis", 1)});
  model.output(model.node("Sub", {wide, high}), kMatrix);
  EXPECT_THAT(optimized_by("common_subexpressions", model.model(), matrices()),
              ElementsAre("Softmax", "Softmax", "Sub"));
  ModelBuilder random(21);
  random.input("x", kMatrix);
  const std::string first = random.node("RandomNormalLike", {"x"});
  random.output(random.node("Sub", {first, random.node("RandomNormalLike", {"x"})}), kMatrix);
  OnnxModel optimized = random.model();
  optimize_model(optimized, {});
  EXPECT_EQ(count_ops(optimized, "RandomNormalLike"), 2u);
}

// ── shape_arithmetic ──

TEST(OptimizerPasses, SizesAreReadFromInputsAndReshapesTakeConstants) {
  ModelBuilder model;
  const std::string x = model.input("x", {"batch", "sequence", 6});
  const std::string y = model.node("Abs", {x});
  const std::string shape = model.node("Shape", {y});
  const std::string batch = model.node("Gather", {shape, model.ints({0})}, {number("axis", 0)});
  const std::string length = model.node("Gather", {shape, model.ints({1})}, {number("axis", 0)});
  const std::string last = model.node("Gather", {shape, model.ints({2})}, {number("axis", 0)});
  const std::string heads = model.node("Div", {last, model.ints({3})});
  const std::string target = model.node("Concat", {batch, length, heads, model.ints({3})}, {number("axis", 0)});
  model.output(model.node("Reshape", {y, target}, {number("allowzero", 1)}), {"batch", "sequence", 2, 3});
  const std::vector<Inputs> inputs = {
      {{"x", at::randn({2, 3, 6})}}, {{"x", at::randn({1, 1, 6})}}, {{"x", at::randn({0, 4, 6})}}};
  OnnxModel optimized = model.model();
  optimize_model(optimized, {});
  EXPECT_THAT(op_types(optimized), ElementsAre("Abs", "Reshape"));
  optimized_by("shape_arithmetic", model.model(), inputs);
}

// A -1 beside an axis that may be empty would not be determined.
TEST(OptimizerPasses, ReshapesThatAConstantCannotSayStayComputed) {
  ModelBuilder model;
  const std::string x = model.input("x", {"batch", "sequence", 6});
  const std::string sizes = model.node("Shape", {x}, {number("start", 0), number("end", 2)});
  const std::string batch = model.node("Gather", {sizes, model.ints({0})}, {number("axis", 0)});
  const std::string length = model.node("Gather", {sizes, model.ints({1})}, {number("axis", 0)});
  const std::string wide = model.node("Mul", {length, model.ints({6})});
  const std::string target = model.node("Concat", {batch, wide}, {number("axis", 0)});
  model.output(model.node("Reshape", {x, target}, {number("allowzero", 1)}), {"batch", OnnxDim()});
  const Names ops =
      optimized_by("shape_arithmetic", model.model(),
                   {{{"x", at::randn({2, 3, 6})}}, {{"x", at::randn({0, 3, 6})}}, {{"x", at::randn({2, 0, 6})}}});
  EXPECT_THAT(ops, Contains("Concat"));
}

// ── transposes ──

TEST(OptimizerPasses, TransposesMeetThroughElementwiseOperators) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const auto turned = [&](const std::string& value) {
    return model.node("Transpose", {value}, {ints("perm", {1, 0})});
  };
  const std::string sum = model.node("Add", {turned(x), turned(model.node("Abs", {x}))});
  const std::string scaled = model.node("Mul", {model.node("Relu", {sum}), model.constant(at::full({}, 2.0))});
  model.output(model.node("Neg", {turned(scaled)}), kMatrix);
  OnnxModel optimized = model.model();
  optimize_model(optimized, {});
  EXPECT_EQ(count_ops(optimized, "Transpose"), 0u);
  optimized_by("transposes", model.model(), matrices());
}

TEST(OptimizerPasses, TransposesAreOneOrStayWhereOthersSeeThem) {
  ModelBuilder model;
  const std::string x = model.input("x", {"a", "b", "c"});
  const std::string first = model.node("Transpose", {x}, {ints("perm", {1, 2, 0})});
  model.output(model.node("Neg", {model.node("Transpose", {first}, {ints("perm", {0, 2, 1})})}), {"b", "a", "c"});
  const std::string seen = model.node("Relu", {model.node("Transpose", {x}, {ints("perm", {2, 1, 0})})});
  model.output(seen, {"c", "b", "a"});
  model.output(model.node("Transpose", {seen}, {ints("perm", {2, 1, 0})}), {"a", "b", "c"});
  const Names ops =
      optimized_by("transposes", model.model(), {{{"x", at::randn({2, 3, 4})}}, {{"x", at::randn({1, 5, 2})}}});
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "Transpose"), 3);
}

// ── views ──

TEST(OptimizerPasses, ChainsOfViewsAreOne) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const std::string up = model.node("Unsqueeze", {model.node("Unsqueeze", {x, model.ints({1})}), model.ints({0, 4})});
  model.output(up, {1, "rows", 1, "columns", 1});
  const std::string undone = model.node("Squeeze", {model.node("Unsqueeze", {x, model.ints({2})}), model.ints({2})});
  model.output(model.node("Neg", {undone}), kMatrix);
  const std::string flat = model.node("Reshape", {x, model.ints({-1})});
  model.output(model.node("Reshape", {flat, model.ints({1, -1})}), {1, OnnxDim()});
  const std::string rows = model.node("Slice", {x, model.ints({1}), model.ints({9}), model.ints({0})});
  model.output(model.node("Slice", {rows, model.ints({0}), model.ints({2}), model.ints({1})}), {OnnxDim(), OnnxDim()});
  const std::string pair = model.node("Concat", {x, x}, {number("axis", 0)});
  model.output(model.node("Concat", {pair, x}, {number("axis", 0)}), {OnnxDim(), "columns"});
  EXPECT_THAT(optimized_by("views", model.model(),
                           {{{"x", at::randn({2, 3})}}, {{"x", at::randn({1, 1})}}, {{"x", at::randn({5, 4})}}}),
              ElementsAre("Unsqueeze", "Neg", "Reshape", "Slice", "Concat"));
}

TEST(OptimizerPasses, SlicesOfOneAxisAndReshapesThatCopyStay) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  const std::string rows = model.node("Slice", {x, model.ints({1}), model.ints({9}), model.ints({0})});
  model.output(model.node("Slice", {rows, model.ints({1}), model.ints({9}), model.ints({0})}), {OnnxDim(), "columns"});
  const std::string column = model.node("Reshape", {x, model.ints({-1, 1})});
  model.output(model.node("Reshape", {column, model.ints({0})}), {OnnxDim()});
  const Names ops = optimized_by("views", model.model(), {{{"x", at::randn({4, 3})}}, {{"x", at::randn({3, 1})}}});
  EXPECT_THAT(ops, ElementsAre("Slice", "Slice", "Reshape", "Reshape"));
}

// ── gemm ──

TEST(OptimizerPasses, AProductWithATransposedWeightAndABiasIsOneGemm) {
  ModelBuilder model;
  const std::string x = model.input("x", {"rows", 3});
  const std::string weight = model.node("Transpose", {model.constant(at::randn({2, 3}))}, {ints("perm", {1, 0})});
  const std::string product = model.node("MatMul", {x, weight});
  model.describe(product, {"rows", 2});
  model.output(model.node("Add", {model.constant(at::randn({2})), product}), {"rows", 2});
  EXPECT_THAT(optimized_by("gemm", model.model(), {{{"x", at::randn({4, 3})}}, {{"x", at::randn({1, 3})}}}, 1e-6),
              ElementsAre("Gemm"));
}

// A column would be added to each feature; a product of batches is no Gemm.
TEST(OptimizerPasses, OtherSumsAndProductsStay) {
  ModelBuilder model;
  const std::string x = model.input("x", {2, 3});
  const std::string product = model.node("MatMul", {x, model.constant(at::randn({3, 2}))});
  model.describe(product, {2, 2});
  model.output(model.node("Add", {product, model.constant(at::randn({2, 1}))}), {2, 2});
  const std::string batched = model.node("Unsqueeze", {x, model.ints({0})});
  model.describe(batched, {1, 2, 3});
  model.output(model.node("MatMul", {batched, model.constant(at::randn({3, 2}))}), {1, 2, 2});
  EXPECT_THAT(optimized_by("gemm", model.model(), {{{"x", at::randn({2, 3})}}}),
              ElementsAre("MatMul", "Add", "Unsqueeze", "MatMul"));
}

// ── rotary_embedding ──

// Heads as Hugging Face's models rotate them; the tables of cos and sin are of the batch, or one for all rows.
OnnxModel rotating(int64_t opset, const OnnxDim& table_batch, bool halves_differ = false) {
  ModelBuilder model(opset);
  const std::string x = model.input("x", {"batch", 2, "sequence", 8});
  const std::string angles = model.input("angles", {table_batch, "sequence", 4});
  const std::string other = halves_differ ? model.node("Neg", {angles}) : angles;
  const std::string both = model.node("Concat", {angles, other}, {number("axis", -1)});
  model.describe(both, {table_batch, "sequence", 8});
  const auto table = [&](const char* function) {
    const std::string value = model.node("Mul", {model.node(function, {both}), model.constant(at::full({}, 0.5))});
    const std::string wide = model.node("Unsqueeze", {value, model.ints({1})});
    model.describe(wide, {table_batch, 1, "sequence", 8});
    return wide;
  };
  const auto part = [&](int64_t begin, int64_t end) {
    return model.node("Slice", {x, model.ints({begin}), model.ints({end}), model.ints({3}), model.ints({1})});
  };
  const std::string first = part(0, 4);
  const std::string turned = model.node(
      "Concat", {model.node("Neg", {part(4, std::numeric_limits<int64_t>::max())}), first}, {number("axis", 3)});
  model.describe(turned, {"batch", 2, "sequence", 8});
  const std::string cos = table("Cos");
  const std::string straight = model.node("Mul", {x, cos});
  const std::string bent = model.node("Mul", {table("Sin"), turned});
  model.output(model.node("Add", {straight, bent}), {"batch", 2, "sequence", 8});
  return model.model();
}

std::vector<Inputs> rotations(bool one_table) {
  std::vector<Inputs> result;
  for (const auto& [batch, length] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {2, 7}}) {
    result.push_back(
        {{"x", at::randn({batch, 2, length, 8})}, {"angles", at::randn({one_table ? 1 : batch, length, 4})}});
  }
  return result;
}

TEST(OptimizerPasses, RotatedHalvesAreOneOperator) {
  // Sums of two products, in another order of operations.
  const Names ops = optimized_by("rotary_embedding", rotating(23, "batch"), rotations(false), 1e-6);
  EXPECT_THAT(ops, Contains("RotaryEmbedding"));
  EXPECT_THAT(ops, Not(Contains("Neg")));
}

TEST(OptimizerPasses, RotationsThatTheOperatorDoesNotHaveStay) {
  EXPECT_THAT(optimized_by("rotary_embedding", rotating(22, "batch"), rotations(false)),
              Not(Contains("RotaryEmbedding")));
  EXPECT_THAT(optimized_by("rotary_embedding", rotating(23, 1), rotations(true)), Not(Contains("RotaryEmbedding")));
  EXPECT_THAT(optimized_by("rotary_embedding", rotating(23, "batch", /*halves_differ=*/true), rotations(false)),
              Not(Contains("RotaryEmbedding")));
}

// ── Nested graphs ──

// What a graph inside a node takes from outside keeps its name and its maker.
TEST(OptimizerPasses, CapturedValuesStay) {
  ModelBuilder model;
  const std::string x = model.input("x", kMatrix);
  model.input("choose", {}, OnnxType::kBool);
  const std::string inner = model.node("Identity", {model.node("Abs", {x})});
  const auto branch = [&](const char* op) {
    auto graph = std::make_shared<OnnxGraph>();
    graph->name = op;
    graph->nodes = {
        {std::string(op) + "/once", "Identity", "", {inner}, {std::string(op) + "/once"}, {}},
        {std::string(op) + "/twice", op, "", {std::string(op) + "/once"}, {std::string(op) + "/twice"}, {}}};
    graph->outputs = {{std::string(op) + "/twice", OnnxType::kFloat, kMatrix}};
    return graph;
  };
  model.output(model.node("If", {"choose"}, {{"then_branch", branch("Neg")}, {"else_branch", branch("Exp")}}), kMatrix);
  std::vector<Inputs> inputs;
  for (const bool choose : {false, true}) {
    inputs.push_back({{"x", at::randn({2, 3})}, {"choose", at::scalar_tensor(choose, at::kBool)}});
  }
  for (const OptimizerPass& pass : optimizer_passes()) {
    optimized_by(std::string(pass.name), model.model(), inputs);
  }
}

// ── All of them ──

TEST(Optimizer, PassesCanBeSwitchedOffByName) {
  const Forward forward = [](const Tensors& t) { return Tensors{at::cos(at::arange(4.0) * 2.0) + t[0]}; };
  const Exported folded(forward, {at::randn({2, 4})});
  EXPECT_EQ(count_ops(folded.model(), "Cos"), 0u);
  EXPECT_GT(folded.count("constant_folding"), 0u);
  folded.expect_as_eager({{at::randn({1, 4})}, {at::randn({5, 4})}});

  OnnxConfig config;
  config.set("disabled_passes", "constant_folding,casts");
  EXPECT_EQ(config.disabled_passes, (Names{"constant_folding", "casts"}));
  EXPECT_EQ(config.to_dict()["disabled_passes"], nlohmann::json({"constant_folding", "casts"}));
  const Exported kept(forward, {at::randn({2, 4})}, {.disabled_passes = config.disabled_passes});
  EXPECT_EQ(count_ops(kept.model(), "Cos"), 1u);
  kept.expect_as_eager({{at::randn({1, 4})}, {at::randn({5, 4})}});
}

TEST(Optimizer, UnknownPassesAreErrorsThatNameNearOnes) {
  OnnxConfig config;
  EXPECT_THAT(error_of([&] { config.set("disabled_passes", "cast"); }), HasSubstr("casts"));
  EXPECT_THAT(error_of([&] { config.from_dict({{"disabled_passes", {"gemms"}}}); }), HasSubstr("'gemm'"));
  EXPECT_THAT(error_of([&] { config.set("disabled_passes", "3"); }), HasSubstr("list of names"));
  EXPECT_TRUE(config.disabled_passes.empty());
}

TEST(Optimizer, EveryPassHasANameAndAReason) {
  std::set<std::string_view> names;
  for (const OptimizerPass& pass : optimizer_passes()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_GT(pass.reason.size(), 20u) << pass.name;
    EXPECT_TRUE(pass.on_program != nullptr || pass.on_graph != nullptr) << pass.name;
  }
}

// Given chains of nodes that passes rewrite, when they are twice as long, then the passes take no more than in
// proportion: a quadratic one takes four times as long. The margin is for a busy machine.
// Of this thread: what else the machine does is not counted.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(Optimizer, TakesTimeInProportionToTheGraph) {
  const auto chain = [](int length) {
    ModelBuilder model;
    std::string value = model.input("x", kMatrix);
    for (int i = 0; i < length; ++i) {
      value = model.node("Identity", {model.node("Transpose", {value}, {ints("perm", {1, 0})})});
      value = model.node("Unsqueeze", {model.node("Relu", {value}), model.ints({0})});
      value = model.node("Squeeze", {model.node("Mul", {value, model.constant(at::full({}, 1.5))}), model.ints({0})});
      value = model.node("Transpose", {value}, {ints("perm", {1, 0})});
    }
    model.output(value, kMatrix);
    return model.model();
  };
  const auto seconds = [&](int length) {
    double best = 1e9;
    for (int repeat = 0; repeat < 3; ++repeat) {
      OnnxModel model = chain(length);
      const double start = processor_seconds();
      optimize_model(model, {});
      best = std::min(best, processor_seconds() - start);
    }
    return best;
  };
  const double small = seconds(200);
  EXPECT_LT(seconds(1600), 8 * 2.5 * small + 0.05);
}

}  // namespace
}  // namespace exporters::onnx
