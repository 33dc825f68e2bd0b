// A libtorch module as something to export.
#include "exporters/framework/module_source.h"

#include "tests/support/error_of.h"
#include "tests/support/normalized_net.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

namespace nn = torch::nn;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::NormalizedNet;
using ::testing::Not;

// ── Training mode ──

TEST(TrainingMode, IsRefusedWithTheNamesOfTheModules) {
  const auto net = std::make_shared<NormalizedNet>();

  EXPECT_THAT(error_of([&] { export_source(net, &NormalizedNet::forward); }),
              AllOf(HasSubstr("'norm' (BatchNorm1dImpl)"), HasSubstr("'dropout' (DropoutImpl)"), HasSubstr("eval()")));
}

TEST(TrainingMode, OfASingleDropoutIsRefused) {
  const auto net = std::make_shared<NormalizedNet>();
  net->eval();
  net->dropout->train();

  EXPECT_THAT(error_of([&] { request_for(*net); }), AllOf(HasSubstr("'dropout'"), Not(HasSubstr("'norm'"))));
}

TEST(TrainingMode, OfASingleBatchNormIsRefused) {
  const auto net = std::make_shared<NormalizedNet>();
  net->eval();
  net->norm->train();

  EXPECT_THAT(error_of([&] { request_for(*net); }), AllOf(HasSubstr("'norm'"), Not(HasSubstr("'dropout'"))));
}

// ── A forward as an export source ──

struct Mixed : nn::Module {
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, std::optional<at::Tensor> bias, bool negate) {
    const at::Tensor y = bias ? x + *bias : x;
    return {negate ? -y : y, y};
  }
};

std::shared_ptr<Mixed> mixed() {
  auto module = std::make_shared<Mixed>();
  module->eval();
  return module;
}

TEST(ModuleSource, CallsTheForwardWithTheInputsInOrder) {
  const auto source = export_source(mixed(), &Mixed::forward);
  const at::Tensor x = at::randn({2});

  const PyTree with = source.forward({{"x", x}, {"bias", x}, {"negate", true}});
  const PyTree without = source.forward({{"x", x}, {"bias", PyTree()}, {"negate", false}});

  EXPECT_EQ(source.architecture, "Mixed");
  EXPECT_TRUE(at::allclose(with.at("0").tensor(), -2 * x));
  EXPECT_TRUE(at::allclose(without.at("0").tensor(), x));
}

TEST(ModuleSource, AnArgumentOfAnotherKindIsAnError) {
  const auto source = export_source(mixed(), &Mixed::forward);
  const at::Tensor x = at::randn({2});

  EXPECT_THAT(error_of([&] { source.forward({{"x", x}}); }), HasSubstr("3 arguments"));
  EXPECT_THAT(error_of([&] {
                source.forward({{"x", x}, {"bias", PyTree()}, {"negate", int64_t{1}}});
              }),
              HasSubstr("negate"));
}

}  // namespace
}  // namespace exporters
