#include "exporters/onnx/runner.h"
#include "exporters/onnx/emit/save.h"
#include "tests/onnx/support.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <thread>

namespace exporters::onnx {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct OnnxRunnerTest : ::testing::Test {
  std::filesystem::path path = scratch_folder() / "m.onnx";
  at::Tensor weight = at::randn({3, 2});

  OnnxRunner linear() {
    save_model(linear_model(weight), path);
    return OnnxRunner(path);
  }

  // One Identity per dtype.
  OnnxRunner identity(c10::ScalarType dtype) {
    OnnxModel model;
    model.ir_version = ir_version_for_opset(20);
    model.opsets = {{"", 20}};
    model.graph.nodes = {{"id", "Identity", "", {"x"}, {"y"}, {}}};
    const std::vector<OnnxDim> dims = {"n", int64_t{2}};
    model.graph.inputs = {{"x", onnx_type(dtype), dims}};
    model.graph.outputs = {{"y", onnx_type(dtype), dims}};
    save_model(model, path);
    return OnnxRunner(path);
  }
};

TEST_F(OnnxRunnerTest, ComputesWhatAtenComputes) {
  const OnnxRunner runner = linear();
  const at::Tensor x = at::randn({5, 3});
  const auto outputs = runner.run({{"x", x}});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].first, "y");
  EXPECT_TRUE(at::allclose(outputs[0].second, x.mm(weight) + 1, 1e-6, 1e-6));
}

TEST_F(OnnxRunnerTest, DescribesInputsAndOutputs) {
  const OnnxRunner runner = linear();
  EXPECT_EQ(runner.inputs().at(0).name, "x");
  EXPECT_EQ(runner.inputs().at(0).dtype, OnnxType::kFloat);
  EXPECT_EQ(*runner.inputs().at(0).dims, (std::vector<OnnxDim>{"batch", int64_t{3}}));
}

TEST_F(OnnxRunnerTest, TakesStridedInputs) {
  const OnnxRunner runner = linear();
  const at::Tensor x = at::randn({3, 5}).t();
  EXPECT_TRUE(at::allclose(runner.run({{"x", x}})[0].second, x.mm(weight) + 1, 1e-6, 1e-6));
}

TEST_F(OnnxRunnerTest, WritesIntoGivenOutputs) {
  const OnnxRunner runner = linear();
  const at::Tensor x = at::randn({5, 3});
  const at::Tensor y = at::zeros({5, 2});
  const auto outputs = runner.run({{"x", x}}, {{"y", y}});
  EXPECT_EQ(outputs[0].second.const_data_ptr(), y.const_data_ptr());
  EXPECT_TRUE(at::allclose(y, x.mm(weight) + 1, 1e-6, 1e-6));
}

TEST_F(OnnxRunnerTest, OutputsOutliveTheRunner) {
  at::Tensor y;
  const at::Tensor x = at::randn({5, 3});
  { y = linear().run({{"x", x}})[0].second; }
  EXPECT_TRUE(at::allclose(y, x.mm(weight) + 1, 1e-6, 1e-6));
}

TEST_F(OnnxRunnerTest, EmptyTensorsPass) {
  const auto outputs = linear().run({{"x", at::empty({0, 3})}});
  EXPECT_EQ(outputs[0].second.sizes(), (at::IntArrayRef{0, 2}));
}

TEST_F(OnnxRunnerTest, EveryDtypePasses) {
  for (const auto dtype : {at::kBool, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kChar, at::kByte,
                           at::kShort, at::kInt, at::kLong}) {
    const at::Tensor x = at::randint(0, 2, {3, 2}).to(dtype);
    const at::Tensor y = identity(dtype).run({{"x", x}})[0].second;
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(at::equal(x, y)) << c10::toString(dtype);
  }
}

TEST_F(OnnxRunnerTest, RunsAtOnceFromSeveralThreads) {
  const OnnxRunner runner = linear();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const at::Tensor x = at::full({t + 1, 3}, t + i);
        right += at::allclose(runner.run({{"x", x.to(at::kFloat)}})[0].second, x.to(at::kFloat).mm(weight) + 1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, 200);
}

TEST_F(OnnxRunnerTest, ErrorsNameTheInputWhatWasExpectedAndWhatCame) {
  const OnnxRunner runner = linear();
  EXPECT_THAT(error_of([&] {
                runner.run({{"x", at::zeros({5, 3}, at::kInt)}});
              }),
              AllOf(HasSubstr("'x'"), HasSubstr("int32"), HasSubstr("takes float")));
  EXPECT_THAT(error_of([&] {
                runner.run({{"x", at::zeros({5, 4})}});
              }),
              AllOf(HasSubstr("'x'"), HasSubstr("[5, 4]"), HasSubstr("[batch, 3]")));
  EXPECT_THAT(error_of([&] { runner.run({{"x", at::zeros({3})}}); }), HasSubstr("[batch, 3]"));
  EXPECT_THAT(error_of([&] { runner.run({}); }), HasSubstr("inputs missing: x"));
  EXPECT_THAT(error_of([&] {
                runner.run({{"x", at::zeros({5, 3})}, {"z", at::zeros({1})}});
              }),
              HasSubstr("no input 'z'"));
  EXPECT_THAT(error_of([&] {
                runner.run({{"x", at::zeros({5, 3})}}, {{"w", at::zeros({1})}});
              }),
              HasSubstr("no output 'w'"));
}

TEST_F(OnnxRunnerTest, EqualDimNamesMeanEqualSizes) {
  OnnxModel model = linear_model(weight);
  model.graph.inputs.push_back({"other", OnnxType::kFloat, std::vector<OnnxDim>{"batch"}});
  save_model(model, path);
  const OnnxRunner runner(path);
  EXPECT_THAT(error_of([&] {
                runner.run({{"x", at::zeros({5, 3})}, {"other", at::zeros({4})}});
              }),
              AllOf(HasSubstr("'other'"), HasSubstr("batch = 4"), HasSubstr("batch = 5")));
}

TEST_F(OnnxRunnerTest, BadFilesGetAnErrorInWords) {
  save_model(linear_model(weight), path);
  const std::string good = read_bytes(path);
  std::filesystem::resize_file(path.string() + ".data", 20);
  EXPECT_THAT(error_of([&] { OnnxRunner runner(path); }), AllOf(HasSubstr("'w'"), HasSubstr("only 20 bytes")));
  std::filesystem::remove(path.string() + ".data");
  EXPECT_THAT(error_of([&] { OnnxRunner runner(path); }), HasSubstr("m.onnx.data"));
  write_bytes(path, good.substr(0, good.size() / 2));
  EXPECT_THAT(error_of([&] { OnnxRunner runner(path); }), HasSubstr("cannot read"));
}

TEST_F(OnnxRunnerTest, AnUnknownOperatorIsNamed) {
  OnnxModel model = linear_model(weight);
  model.graph.nodes[1].op_type = "Frobnicate";
  save_model(model, path);
  EXPECT_THAT(error_of([&] { OnnxRunner runner(path); }), HasSubstr("Frobnicate"));
}

TEST_F(OnnxRunnerTest, AnUnknownProviderIsNamed) {
  save_model(linear_model(weight), path);
  OnnxRunnerOptions options;
  options.providers = {{"QuantumExecutionProvider", {}}};
  EXPECT_THAT(error_of([&] { OnnxRunner runner(path, options); }),
              AllOf(HasSubstr("Quantum"), HasSubstr("CPUExecutionProvider")));
}

TEST_F(OnnxRunnerTest, SessionSettingsArePassedOn) {
  save_model(linear_model(weight), path);
  OnnxRunnerOptions options;
  options.session_config = {{"session.disable_prepacking", "1"}};
  options.threads = 1;
  const at::Tensor x = at::randn({2, 3});
  EXPECT_TRUE(at::allclose(OnnxRunner(path, options).run({{"x", x}})[0].second, x.mm(weight) + 1, 1e-6, 1e-6));
}

}  // namespace
}  // namespace exporters::onnx
