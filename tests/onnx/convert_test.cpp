#include "exporters/onnx/convert.h"

#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/emit/writer.h"
#include "exporters/onnx/index_limits.h"
#include "exporters/onnx/runner.h"
#include "exporters/trace/trace.h"
#include "tests/onnx/harness.h"
#include "tests/onnx/support.h"
#include "tests/support/warnings.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> names(const std::vector<OnnxValueInfo>& infos) {
  std::vector<std::string> result;
  for (const OnnxValueInfo& info : infos) {
    result.push_back(info.name);
  }
  return result;
}

ExportedProgram trace_of(NamedInputs inputs, std::function<PyTree(const NamedInputs&)> forward,
                         DynamicShapes shapes = {}) {
  TraceRequest request;
  request.module_class = "Model";
  request.inputs = std::move(inputs);
  request.forward = std::move(forward);
  request.dynamic_shapes = std::move(shapes);
  return trace(request);
}

const at::Tensor& input(const NamedInputs& inputs, size_t i) { return inputs.at(i).second.tensor(); }

TEST(OnnxInterface, NamesAreLeafPaths) {
  const auto program = trace_of({{"ids", at::ones({2, 3})}, {"extra", PyTree::dict({{"mask", at::ones({2, 3})}})}},
                                [](const NamedInputs& in) {
                                  const at::Tensor sum = input(in, 0) + in[1].second.at("mask").tensor();
                                  return PyTree::dict({{"logits", sum}, {"states", PyTree::tuple({sum * 2, sum * 3})}});
                                });
  const OnnxModel model = to_onnx(program);
  EXPECT_THAT(names(model.graph.inputs), ElementsAre("ids", "extra.mask"));
  EXPECT_THAT(names(model.graph.outputs), ElementsAre("logits", "states.0", "states.1"));
}

TEST(OnnxInterface, NamesOnBothSidesGetPrefixes) {
  const auto program = trace_of({{"x", at::ones({2})}, {"state", at::ones({2})}}, [](const NamedInputs& in) {
    return PyTree::dict({{"state", input(in, 1) + 1}, {"y", input(in, 0) + input(in, 1)}});
  });
  const OnnxModel model = to_onnx(program);
  EXPECT_THAT(names(model.graph.inputs), ElementsAre("x", "input.state"));
  EXPECT_THAT(names(model.graph.outputs), ElementsAre("output.state", "y"));
}

TEST(OnnxInterface, ABareTensorIsCalledOutput) {
  const auto program =
      trace_of({{"input", at::ones({2})}}, [](const NamedInputs& in) { return PyTree(input(in, 0) + 1); });
  EXPECT_THAT(names(to_onnx(program).graph.outputs), ElementsAre("output"));
}

TEST(OnnxInterface, UnusedInputsStayAndPassThroughsGetTheirOwnName) {
  const auto folder = scratch_folder();
  const auto program = trace_of({{"a", at::ones({2})}, {"unused", at::ones({3})}}, [](const NamedInputs& in) {
    const at::Tensor twice = input(in, 0) * 2;
    return PyTree::dict({{"same", input(in, 0)}, {"twice", twice}, {"again", twice}});
  });
  save_model(to_onnx(program), folder / "m.onnx");
  const OnnxRunner runner(folder / "m.onnx");
  EXPECT_THAT(names(runner.inputs()), ElementsAre("a", "unused"));
  const auto outputs = runner.run({{"a", at::full({2}, 3.0)}, {"unused", at::zeros({3})}});
  EXPECT_EQ(outputs[0].first, "same");
  EXPECT_TRUE(at::equal(outputs[0].second, at::full({2}, 3.0)));
  EXPECT_TRUE(at::equal(outputs[2].second, at::full({2}, 6.0)));
}

TEST(OnnxInterface, AxesAreNamedAfterDimsThenAfterWhatTheCallerSays) {
  const auto program = trace_of(
      {{"ids", at::ones({2, 3})}, {"mask", at::ones({2, 3})}, {"other", at::ones({2, 5})}},
      [](const NamedInputs& in) {
        return PyTree::dict({{"y", input(in, 0) + input(in, 1)}, {"z", at::cat({input(in, 2), input(in, 2)}, 1)}});
      },
      {{"other", {{0, Dim::named("rows")}, {1, Dim::Static()}}}});
  OnnxOptions options;
  options.axis_names = {{"ids", {{0, "batch"}, {1, "sequence"}}}, {"mask", {{0, "batch"}, {1, "sequence"}}}};
  const OnnxModel model = to_onnx(program, options);
  EXPECT_THAT(*model.graph.inputs[0].dims, ElementsAre(OnnxDim("batch"), OnnxDim("sequence")));
  EXPECT_THAT(*model.graph.inputs[1].dims, ElementsAre(OnnxDim("batch"), OnnxDim("sequence")));
  EXPECT_THAT(*model.graph.inputs[2].dims, ElementsAre(OnnxDim("rows"), OnnxDim(int64_t{5})));
  EXPECT_THAT(*model.graph.outputs[1].dims, ElementsAre(OnnxDim("rows"), OnnxDim(int64_t{10})));
}

// Ops that nothing translates, called where the error must say.
PyTree untranslated(const NamedInputs& in) {
  at::Tensor y = input(in, 0);
  {
    const ModuleScope scope("encoder");
    y = at::cumprod(y, 0);
  }
  const ModuleScope scope("head");
  return PyTree(at::cumprod(y, 0) + at::i0(y));
}

TEST(OnnxConversion, AllMissingTranslationsAreListedWithTheirModules) {
  const auto program = trace_of({{"x", at::rand({3})}}, untranslated);
  EXPECT_THAT(error_of([&] { to_onnx(program); }),
              AllOf(HasSubstr("aten.cumprod.default (in encoder, head)"), HasSubstr("aten.i0.default (in head)"),
                    HasSubstr("register_onnx_translation")));
}

TEST(OnnxConversion, WeightsAreNamedAsInTheCheckpointAndTiedOnesStoredOnce) {
  const auto folder = scratch_folder();
  const at::Tensor w = at::randn({64, 64});
  const auto program = traced([=](const Tensors& t) { return Tensors{at::linear(at::embedding(w, t[0]), w)}; },
                              {at::randint(0, 64, {2, 3})}, {}, {{"emb.weight", w}});
  save_model(to_onnx(program), folder / "m.onnx");
  const OnnxModel model = read_model(folder / "m.onnx");
  ASSERT_FALSE(model.graph.initializers.empty());
  EXPECT_EQ(model.graph.initializers[0].name, "emb.weight");
  EXPECT_EQ(std::filesystem::file_size(folder / "m.onnx.data"), 64u * 64 * 4);
}

TEST(OnnxConversion, TheSameProgramGivesTheSameBytes) {
  const Forward forward = [](const Tensors& t) { return Tensors{at::softmax(t[0].flatten(1) * 2, -1)}; };
  const at::Tensor sample = at::randn({2, 3, 4});
  EXPECT_EQ(serialize(to_onnx(traced(forward, {sample}))), serialize(to_onnx(traced(forward, {sample}))));
}

TEST(OnnxConversion, OpsetsOutOfRangeAreRefused) {
  const auto program = traced([](const Tensors& t) { return Tensors{t[0] + 1}; }, {at::ones({2})});
  EXPECT_THAT(error_of([&] { to_onnx(program, at_opset(17)); }), HasSubstr("opset 17"));
  EXPECT_EQ(to_onnx(program, at_opset(20)).opset(), 20);
}

TEST(OnnxConversion, NodesAreNamedAfterModulesAndOps) {
  const auto program = trace_of({{"x", at::ones({2})}}, [](const NamedInputs& in) {
    const ModuleScope encoder("encoder");
    const ModuleScope layer("layer.0");
    return PyTree(at::relu(input(in, 0)));
  });
  EXPECT_EQ(to_onnx(program).graph.nodes.at(0).name, "encoder/layer/0/relu");
}

// ── Limits of index inputs ──

TEST(IndexLimits, OfAnEmbeddingAreWhatItsTableHas) {
  const at::Tensor table = at::randn({50, 4});
  const auto program = traced(
      [=](const Tensors& t) {
        // The second input is not wholly looked up, and of the third only some values are.
        return Tensors{at::embedding(table, t[0].unsqueeze(0)), at::embedding(table, t[1] + 1),
                       at::embedding(table, t[2].narrow(0, 0, 1))};
      },
      {at::zeros({3}, at::kLong), at::zeros({3}, at::kLong), at::zeros({3}, at::kLong)}, {}, {{"table", table}});

  const IndexLimits limits = index_limits_of(to_onnx(program).metadata);

  EXPECT_EQ(limits, (IndexLimits{{"x0", {50, "rows of table"}}}));
}

TEST(IndexLimits, GivenByTheModelComeFirst) {
  const at::Tensor table = at::randn({50, 4});
  const auto program = traced([=](const Tensors& t) { return Tensors{at::embedding(table, t[0])}; },
                              {at::zeros({3}, at::kLong)}, {}, {{"table", table}});
  OnnxOptions options;
  options.index_limits = {{"x0", {48, "vocab_size"}}, {"no input", {3, ""}}};

  EXPECT_EQ(index_limits_of(to_onnx(program, options).metadata), (IndexLimits{{"x0", {48, "vocab_size"}}}));
}

TEST(IndexLimits, AnEntryOfAnotherFormIsAnError) {
  EXPECT_THAT(error_of([] { index_limits_of({{kIndexLimitsKey, "[1]"}}); }), HasSubstr("index_limits"));
  EXPECT_THAT(error_of([] {
                index_limits_of({{kIndexLimitsKey, R"({"x": {"limit": "many"}})"}});
              }),
              HasSubstr("limit"));
}

// ONNX Runtime itself is asked whether it has kernels.
TEST(ToOnnx, TellsOfOperatorsThatTheCpuProviderDoesNotRunOnFloat64) {
  const auto warnings_of = [](const Forward& forward) {
    const ExportedProgram program = traced(forward, {at::rand({2, 3}, at::kDouble)});
    const exporters::testing::Warnings warnings;
    const auto folder = scratch_folder();
    save_model(to_onnx(program), folder / "m.onnx");
    if (warnings.texts.empty()) {
      EXPECT_NO_THROW(OnnxRunner(folder / "m.onnx"));
    } else {
      EXPECT_THAT(error_of([&] { const OnnxRunner runner(folder / "m.onnx"); }), HasSubstr("Could not find an implementation for Erf"));
    }
    return warnings.texts;
  };
  EXPECT_THAT(warnings_of([](const Tensors& t) { return Tensors{at::gelu(t[0]).erf()}; }),
              ElementsAre(HasSubstr("does not run Erf, Gelu on float64")));
  EXPECT_THAT(warnings_of([](const Tensors& t) { return Tensors{t[0].tanh().matmul(t[0].t())}; }), IsEmpty());
}

}  // namespace
}  // namespace exporters::onnx
