// The stages of the ONNX exporter: each patch and fix in ONNX Runtime against eager, and tests that show where the
// reference needs one and this exporter does not.
#include "tests/onnx/exported.h"

#include "exporters/onnx/ir_fixes.h"
#include "exporters/onnx/translations/table.h"
#include "exporters/patching/scope.h"
#include "exporters/support/error.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <limits>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

at::Tensor x(at::IntArrayRef sizes) { return at::randn(sizes); }
at::Tensor floats(const std::vector<float>& values, at::IntArrayRef sizes) { return at::tensor(values).reshape(sizes); }
at::Tensor ints(const std::vector<int64_t>& values, at::IntArrayRef sizes) { return at::tensor(values).reshape(sizes); }

Forward unary(std::function<at::Tensor(const at::Tensor&)> function) {
  return [function = std::move(function)](const Tensors& t) { return Tensors{function(t[0])}; };
}

// ── Stage 1: torch patches ──

constexpr int64_t kRandomOpset = 21;  // the newest whose random operators ONNX Runtime has

TEST(OnnxTorchPatches, RandpermIsAPermutationOfEachLength) {
  const Exported model(unary([](const at::Tensor& t) { return at::randperm_symint(t.sym_size(0), at::kLong); }),
                       {x({4})}, kRandomOpset);
  EXPECT_EQ(model.count("patch_randperm"), 1u);
  for (const int64_t n : {4, 1, 0, 257}) {
    const at::Tensor drawn = model.run({x({n})}).at(0);
    EXPECT_EQ(drawn.scalar_type(), at::kLong);
    EXPECT_TRUE(std::get<0>(drawn.sort()).equal(at::arange(n))) << drawn;
  }
  EXPECT_FALSE(model.run({x({257})}).at(0).equal(model.run({x({257})}).at(0)));
}

TEST(OnnxTorchPatches, TwoDrawsDiffer) {
  const Exported model(
      [](const Tensors& t) {
        return Tensors{at::rand_like(t[0]), at::rand_like(t[0])};
      },
      {x({2, 3})}, kRandomOpset);
  const Tensors drawn = model.run({x({50, 20})});
  EXPECT_FALSE(drawn[0].equal(drawn[1]));
  EXPECT_TRUE(drawn[0].ge(0).all().item<bool>() && drawn[0].lt(1).all().item<bool>());
  EXPECT_NEAR(drawn[0].mean().item<double>(), 0.5, 0.1);  // a deviation of 0.009
}

TEST(OnnxTorchPatches, RandomOpsHaveTheirRangeAndMoments) {
  const Exported model(
      [](const Tensors& t) {
        return Tensors{at::randn_like(t[0]), at::randint_symint(-3, 5, t[0].sym_sizes(), at::kLong),
                       at::randint_symint(2, t[0].sym_sizes(), at::kLong), at::bernoulli(at::full_like(t[0], 0.25))};
      },
      {x({2, 3})}, kRandomOpset);
  const Tensors drawn = model.run({x({100, 40})});
  EXPECT_NEAR(drawn[0].mean().item<double>(), 0, 0.1);
  EXPECT_NEAR(drawn[0].std().item<double>(), 1, 0.1);
  EXPECT_EQ(drawn[1].min().item<int64_t>(), -3);
  EXPECT_EQ(drawn[1].max().item<int64_t>(), 4);
  EXPECT_EQ(std::get<0>(at::_unique(drawn[2])).numel(), 2);
  EXPECT_NEAR(drawn[3].mean().item<double>(), 0.25, 0.05);
  EXPECT_EQ(drawn[3].scalar_type(), at::kFloat);
}

TEST(OnnxTorchPatches, RandomOpsAreRefusedWhereTheRuntimeHasNone) {
  try {
    const Exported model([](const Tensors& t) { return Tensors{at::rand_like(t[0])}; }, {x({2, 3})});
    FAIL() << "exported";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("opset_version = 21"));
  }
}

TEST(OnnxTorchPatches, HistcWithGivenBounds) {
  const Exported model(unary([](const at::Tensor& t) { return at::histc(t, 5, -1, 2); }), {x({3, 4})});
  EXPECT_EQ(model.count("patch_histc"), 1u);
  model.expect_as_eager({{x({3, 4})}, {x({1, 1})}, {x({40, 10})}, {floats({-1.f, 2.f, 2.5f, -1.5f, 0.2f}, {1, 5})}});
}

TEST(OnnxTorchPatches, HistcOverTheRangeOfTheData) {
  const Exported model(unary([](const at::Tensor& t) { return at::histc(t, 7); }), {x({6})});
  model.expect_as_eager({{x({6})}, {x({100})}, {at::full({3}, 2.5)}, {at::tensor({0.f, 7.f, 3.5f, 1.f})}});
}

TEST(OnnxTorchPatches, CumulativeExtremes) {
  const Exported model(
      [](const Tensors& t) {
        const auto largest = at::cummax(t[0], 1);
        const auto smallest = at::cummin(t[0], 0);
        return Tensors{std::get<0>(largest), std::get<1>(largest), std::get<0>(smallest), std::get<1>(smallest)};
      },
      {x({3, 4})});
  EXPECT_EQ(model.count("patch_cummax"), 1u);
  EXPECT_EQ(model.count("patch_cummin"), 1u);
  model.expect_as_eager({{x({3, 4})},
                         {x({1, 1})},
                         {x({2, 9})},
                         {at::randint(0, 3, {5, 6}).to(at::kFloat)},  // ties
                         {floats({1.f, kInfinity, -kInfinity, 2.f, -kInfinity, -kInfinity, 0.f, -1.f}, {2, 4})}});
}

TEST(OnnxTorchPatches, CumulativeExtremesKeepNan) {
  const Exported model(
      [](const Tensors& t) {
        const auto largest = at::cummax(t[0], -1);
        return Tensors{std::get<0>(largest), std::get<1>(largest)};
      },
      {x({3, 4})});
  model.expect_as_eager({{floats({1.f, kNan, 3.f, kNan, 2.f}, {1, 5})}});
}

TEST(OnnxTorchPatches, CumulativeExtremesOfIntegers) {
  for (const auto dtype : {at::kLong, at::kInt}) {
    const Exported model(
        [](const Tensors& t) {
          const auto largest = at::cummax(t[0], 0);
          const auto smallest = at::cummin(t[0], 0);
          return Tensors{std::get<0>(largest), std::get<1>(largest), std::get<0>(smallest), std::get<1>(smallest)};
        },
        {at::randint(-9, 9, {4}).to(dtype)});
    model.expect_as_eager({{at::randint(-9, 9, {11}).to(dtype)}, {at::randint(-9, 9, {1}).to(dtype)}});
  }
}

// What the reference patches and a translation or the trace handles here.

TEST(OnnxNeedsNoTorchPatch, WhereOfMixedDtypesAndScalars) {
  const Exported model(
      [](const Tensors& t) {
        return Tensors{at::where(t[0].gt(0), t[0], t[0].to(at::kLong)), at::where(t[0].gt(0), 1, t[0]),
                       at::where(t[0].gt(0), t[0], 0.5), at::where(t[0].gt(0), 1, 2.5)};
      },
      {x({2, 3})});
  model.expect_as_eager({{x({2, 3})}, {x({1, 1})}, {x({4, 2})}});
}

TEST(OnnxNeedsNoTorchPatch, RmsNormWithoutWeight) {
  const Exported model(unary([](const at::Tensor& t) { return at::rms_norm(t, {8}); }), {x({2, 3, 8})});
  model.expect_as_eager({{x({2, 3, 8})}, {x({1, 1, 8})}, {x({3, 5, 8})}});
}

TEST(OnnxNeedsNoTorchPatch, AttentionWithFullyMaskedRowsAndGroupedHeads) {
  const Exported model(
      [](const Tensors& t) {
        const at::Tensor heads = t[0].unsqueeze(1).expand_symint({-1, 2, -1, -1});
        return Tensors{at::scaled_dot_product_attention(heads, heads, heads, t[1].to(at::kBool))};
      },
      {x({2, 3, 4}), at::ones({3, 3})});
  at::Tensor mask = at::ones({5, 5});
  mask[1] = 0;  // this row attends to nothing
  model.expect_as_eager({{x({2, 3, 4}), at::ones({3, 3})}, {x({1, 5, 4}), mask}, {x({1, 1, 4}), at::ones({1, 1})}});
}

TEST(OnnxNeedsNoTorchPatch, SplitAndNarrowBySymbolicSizes) {
  const Exported model(
      [](const Tensors& t) {
        const c10::SymInt half = t[0].sym_size(1) / 2;
        return Tensors{t[0].narrow_symint(1, 0, half), t[0].narrow_symint(1, half, t[0].sym_size(1) - half)};
      },
      {x({2, 6})});
  model.expect_as_eager({{x({2, 6})}, {x({1, 7})}, {x({3, 2})}});
}

TEST(OnnxNeedsNoTorchPatch, FullWithAnIntegerIsInt64) {
  const Exported model(unary([](const at::Tensor& t) { return at::full_symint({t.sym_size(0), 2}, 3); }), {x({4})});
  EXPECT_EQ(model.run({x({5})}).at(0).scalar_type(), at::kLong);
  model.expect_as_eager({{x({4})}, {x({1})}});
}

TEST(OnnxNeedsNoTorchPatch, MaskedScatter) {
  const Exported model([](const Tensors& t) { return Tensors{at::masked_scatter(t[0], t[0].gt(0), t[1])}; },
                       {x({2, 3}), x({6})});
  model.expect_as_eager({{x({2, 3}), x({6})}, {x({1, 1}), x({1})}, {x({3, 5}), x({15})}});
}

TEST(OnnxNeedsNoTorchPatch, Roll) {
  const Exported model(
      [](const Tensors& t) {
        return Tensors{at::roll(t[0], {1, -2}, {0, 1}), at::roll(t[0], 3)};
      },
      {x({2, 5})});
  model.expect_as_eager({{x({2, 5})}, {x({1, 3})}, {x({4, 7})}});
}

TEST(OnnxNeedsNoTorchPatch, SearchsortedAndBucketize) {
  const Exported model(
      [](const Tensors& t) {
        const at::Tensor edges = std::get<0>(t[0].sort());
        return Tensors{at::searchsorted(edges, t[1]), at::bucketize(t[1], edges, false, true)};
      },
      {x({4}), x({2, 3})});
  model.expect_as_eager({{x({4}), x({2, 3})}, {x({1}), x({1, 1})}, {x({9}), x({3, 5})}});
}

TEST(OnnxNeedsNoTorchPatch, ReshapeOfATransposedTensor) {
  const Exported model(unary([](const at::Tensor& t) { return t.transpose(0, 1).reshape_symint({-1}); }), {x({2, 3})});
  model.expect_as_eager({{x({2, 3})}, {x({1, 5})}, {x({4, 1})}});
}

TEST(OnnxNeedsNoTorchPatch, MeanAndVarianceOfMaskedElements) {
  const Exported model(
      [](const Tensors& t) {
        const at::Tensor chosen = t[0].masked_select(t[1].gt(0));
        return Tensors{chosen.mean(), chosen.var(false)};
      },
      {x({2, 6}), x({2, 6}).abs()});
  model.expect_as_eager({{x({2, 6}), x({2, 6}).abs()}, {x({3, 20}), x({3, 20})}}, {1e-4, 1e-5});
}

TEST(OnnxNeedsNoTorchPatch, ComplexNumbersAreRefusedByNameNotTurnedWrong) {
  register_onnx_backend();
  for (const auto& forward : {unary([](const at::Tensor& t) { return at::fft_irfft(at::fft_rfft(t)); }),
                              unary([](const at::Tensor& t) { return at::real(at::exp(at::complex(t, t))); })}) {
    try {
      const Exported model(forward, {x({2, 8})});
      FAIL() << "complex numbers were exported";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("aten."));
    }
  }
}

// ── Stages 2 and 3: ONNX patches, node fixes ──

TEST(OnnxNodeFixes, AliasesAreGone) {
  const Exported model(
      [](const Tensors& t) {
        return Tensors{at::relu(at::alias(t[0].detach())), t[0].detach()};
      },
      {x({2, 3})});
  EXPECT_EQ(model.count("fix_alias"), 3u);
  model.expect_as_eager({{x({2, 3})}, {x({1, 1})}});
}

TEST(OnnxNodeFixes, AnAliasThatIsWrittenToIsStillTheTensor) {
  const Exported model(
      [](const Tensors& t) {
        const at::Tensor y = t[0].clone();
        y.detach().add_(1);
        return Tensors{y};
      },
      {x({2, 3})});
  model.expect_as_eager({{x({2, 3})}, {x({1, 1})}});
}

TEST(OnnxNodeFixes, TensorsWithoutAxesHaveOneWhereAnOpNeedsIt) {
  const Exported model(
      [](const Tensors& t) {
        const at::Tensor s = t[0];
        return Tensors{s.sum(0),
                       s.sum(at::IntArrayRef{-1}, /*keepdim=*/true),
                       s.mean(0),
                       s.prod(0),
                       s.amax(0),
                       s.amin(0),
                       s.logsumexp(0),
                       s.norm(),
                       s.norm(1),
                       at::linalg_vector_norm(s, 2, at::IntArrayRef{0}),
                       s.var(0, /*unbiased=*/false),
                       s.std(0, /*unbiased=*/false),
                       s.cumsum(-1),
                       s.softmax(0),
                       at::flip(s, {0}),
                       s.gt(0).any(0),
                       s.gt(0).all(0),
                       s.index_fill(0, at::tensor({int64_t{0}}), 2.0),
                       s.argmax(0)};
      },
      {at::scalar_tensor(-2.0)});
  model.expect_as_eager({{at::scalar_tensor(-2.0)}, {at::scalar_tensor(3.5)}, {at::scalar_tensor(0.0)}});
}

TEST(OnnxNodeFixes, AssertionsGoWithWhatOnlyTheyTook) {
  const Exported model(
      [](const Tensors& t) {
        // Complex numbers have no ONNX form; only the assertion looks at them.
        at::_assert_async(at::real(at::complex(t[0], t[0])).isfinite().all(), "finite");
        return Tensors{at::relu(t[0])};
      },
      {x({2, 3})});
  EXPECT_EQ(model.count("fix_assertions"), 1u);
  EXPECT_THAT(op_types(model.model()), ::testing::ElementsAre("Relu"));
  model.expect_as_eager({{x({2, 3})}});
}

TEST(OnnxNodeFixes, InPlaceOpsOnViewsAreFunctional) {
  const Exported model(
      [](const Tensors& t) {
        at::Tensor y = t[0].clone();
        y.detach_();
        y.select(0, 0).mul_(2);
        y.triu_();
        y.index_put_({at::tensor({0}), at::tensor({1})}, at::tensor({7.f}));
        return Tensors{y};
      },
      {x({3, 3})});
  model.expect_as_eager({{x({3, 3})}});
}

// ── Stage 5: IR fixes ──

TEST(OnnxIrFixes, TopKIsSorted) {
  [[maybe_unused]] const Exported registered([](const Tensors& t) { return Tensors{t[0]}; }, {x({2})});
  OnnxModel model;
  model.graph.nodes = {
      {"head/TopK", "TopK", "", {"x", "k"}, {"values", "indices"}, {Attr("axis", -1), Attr("sorted", 0)}},
      {"head/Other", "Other", "", {"x"}, {"y"}, {Attr("sorted", 0)}}};
  EffectLog log;
  const EffectLog::Scope logging(log);

  apply_ir_fixes(model);

  EXPECT_EQ(std::get<int64_t>(model.graph.nodes[0].attribute("sorted")->data), 1);
  EXPECT_EQ(std::get<int64_t>(model.graph.nodes[1].attribute("sorted")->data), 0);
  ASSERT_EQ(log.effects().size(), 1u);
  EXPECT_EQ(log.effects()[0].name, "fix_ir_topk_sorted");
  EXPECT_THAT(log.effects()[0].places, ::testing::ElementsAre(EffectPlace{"head/TopK", "head"}));
}

// The translation asks for sorted results whatever torch was asked for.
TEST(OnnxIrFixes, UnsortedTopKOfTorchIsSorted) {
  const Exported model(
      unary([](const at::Tensor& t) { return std::get<0>(at::topk(t, 2, -1, true, /*sorted=*/false)); }), {x({3, 5})});
  const at::Tensor input = x({4, 9});
  EXPECT_TRUE(model.run({input}).at(0).equal(std::get<0>(at::topk(input, 2))));
}

TEST(OnnxIrFixes, GatherNDAtConstantIndicesIsAFlatGather) {
  const at::Tensor rows = ints({0, 2, 1, -1}, {2, 2});
  const at::Tensor columns = ints({3, 0}, {2});
  const Exported model(
      [=](const Tensors& t) {
        const at::Tensor fixed = t[0].narrow(1, 0, 3).narrow(2, 0, 4);
        return Tensors{fixed.index({{}, rows, columns})};
      },
      {x({2, 3, 4})});
  model.expect_as_eager({{x({2, 3, 4})}, {x({1, 3, 4})}, {x({5, 3, 4})}});
}

TEST(OnnxIrFixes, GatherNDOfAWeightAtConstantIndices) {
  const at::Tensor weight = x({3, 4, 2});
  const Exported model(
      [=](const Tensors& t) {
        return Tensors{t[0] + weight.index({ints({0, 2, 1, -1}, {2, 2}), ints({3, -4}, {2})})};
      },
      {x({2, 2, 2})}, ExportSettings{.disabled_passes = {"constant_folding"}});  // which would leave no index
  EXPECT_EQ(model.count("fix_ir_gather_nd"), 1u);
  EXPECT_EQ(count_ops(model.model(), "GatherND"), 0u);
  model.expect_as_eager({{x({2, 2, 2})}});
}

TEST(OnnxIrFixes, GatherNDStaysWhereSizesOrIndicesAreNotKnown) {
  const Exported free(
      [](const Tensors& t) {
        return Tensors{t[0].index({ints({0, 1}, {2}), ints({1, 0}, {2})})};
      },
      {x({2, 3})});
  EXPECT_EQ(free.count("fix_ir_gather_nd"), 0u);  // a flat place depends on the second axis
  free.expect_as_eager({{x({2, 3})}, {x({4, 2})}});
  const Exported dynamic(
      [](const Tensors& t) {
        return Tensors{t[0].index({t[1], t[1]})};
      },
      {x({2, 2}), ints({0, 1}, {2})});
  EXPECT_EQ(dynamic.count("fix_ir_gather_nd"), 0u);
  dynamic.expect_as_eager({{x({3, 5}), ints({2, 0, 1}, {3})}});
}

// ── Extending the exporter from outside ──

TEST(OnnxStages, EveryEntryIsExplained) {
  register_onnx_backend();
  const std::vector<Stage> stages = OnnxExporter().stages();
  ASSERT_EQ(stages.size(), 5u);
  for (size_t i = 0; i < stages.size(); ++i) {
    EXPECT_EQ(stages[i].number, static_cast<int>(i) + 1);
    EXPECT_FALSE(stages[i].what.empty());
    EXPECT_FALSE(stages[i].how_to_extend.empty());
    EXPECT_FALSE(stages[i].entries.empty()) << stages[i].title;
    for (const StageEntry& entry : stages[i].entries) {
      EXPECT_FALSE(entry.name.empty());
      EXPECT_TRUE(entry.kind == "translation" || !entry.reason.empty()) << entry.name;
    }
  }
}

TEST(OnnxStages, ASecondRegistrationOfTheBackendAddsNothing) {
  register_onnx_backend();
  const size_t before = registered_patches("onnx").size();
  register_onnx_backend();
  EXPECT_EQ(registered_patches("onnx").size(), before);
}

}  // namespace
}  // namespace exporters::onnx
