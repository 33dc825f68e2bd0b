// What goes in and out of a program, with the names and dtypes that the caller knows.
#include "tests/cases/cases.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters::cases {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> input_names(const onnx::OnnxModel& model) {
  std::vector<std::string> names;
  for (const onnx::OnnxValueInfo& input : model.graph.inputs) {
    names.push_back(input.name);
  }
  return names;
}

TEST(Signature, UnusedAndShapeOnlyInputsStay) {
  const at::Tensor weight = at::randn({4, 4});
  const Case example = {
      .forward =
          [weight](const Tensors& x) {
            return Tensors{at::linear(x[0], weight) * at::scalar_tensor(1.0).mul(c10::Scalar(x[1].sym_size(1)))};
          },
      .sample = {at::randn({2, 4}), at::ones({2, 6}), at::ones({3}, at::kLong)},
      .others = {{at::randn({5, 4}), at::ones({1, 9}), at::ones({0}, at::kLong)}},
      .parameters = {{"fc.weight", weight}}};

  EXPECT_THAT(input_names(to_onnx(example)), ElementsAre("x0", "x1", "x2"));
  expect_as_eager(example);
}

TEST(Signature, TheFirstInputUnused) {
  const Case example = {.forward = [](const Tensors& x) { return Tensors{x[1].relu()}; },
                        .sample = {at::randn({2, 4}), at::randn({3})},
                        .others = {{at::randn({1, 1}), at::randn({7})}}};

  EXPECT_THAT(input_names(to_onnx(example)), ElementsAre("x0", "x1"));
  expect_as_eager(example);
}

TEST(Signature, AnInputPassedThroughIsAnOutputOfItsOwn) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{x[0], x[0] * 2, x[1]};
                       },
                   .sample = {at::randn({2, 4}), at::ones({2, 4}, at::kLong)},
                   .others = {{at::randn({1, 3}), at::ones({5, 1}, at::kLong)}}});
}

TEST(Signature, OneValueReturnedTwice) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         const at::Tensor y = x[0].relu();
                         return Tensors{y, x[0], y};
                       },
                   .sample = {at::randn({2, 4})},
                   .others = {{at::randn({1, 3})}}});
}

TEST(Signature, AParameterReturned) {
  const at::Tensor weight = at::randn({4});
  expect_as_eager({.forward =
                       [weight](const Tensors& x) {
                         return Tensors{weight, x[0] + weight};
                       },
                   .sample = {at::randn({2, 4})},
                   .others = {{at::randn({7, 4})}},
                   .parameters = {{"weight", weight}}});
}

TEST(Signature, ScalarTensorsAsInputs) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         return Tensors{x[0] * x[1], x[1] + x[2], x[0].to(at::kDouble) + x[2]};
                       },
                   .sample = {at::randn({2, 3}), at::scalar_tensor(0.5), at::scalar_tensor(3, at::kLong)},
                   .others = {{at::randn({1, 5}), at::scalar_tensor(-2.0), at::scalar_tensor(1LL << 40, at::kLong)}}});
}

TEST(Signature, AScalarTensorAsTheIndex) {
  expect_as_eager({.forward = [](const Tensors& x) { return Tensors{x[0].index_select(1, x[1])}; },
                   .sample = {at::randn({2, 3}), at::scalar_tensor(2, at::kLong)},
                   .others = {{at::randn({4, 6}), at::scalar_tensor(5, at::kLong)}}});
}

TEST(TiedWeights, TheEmbeddingAsHeadIsWrittenOnce) {
  const at::Tensor weight = at::randn({11, 4});
  const Case example = {
      .forward = [weight](const Tensors& x) { return Tensors{at::linear(at::embedding(weight, x[0]), weight)}; },
      .sample = {at::randint(11, {2, 3}, at::kLong)},
      .others = {{at::randint(11, {1, 7}, at::kLong)}},
      .parameters = {{"embedding.weight", weight}, {"head.weight", weight}}};

  size_t copies = 0;
  for (const onnx::OnnxTensor& tensor : to_onnx(example).graph.initializers) {
    copies += tensor.dims == std::vector<int64_t>{11, 4} || tensor.dims == std::vector<int64_t>{4, 11};
  }

  EXPECT_EQ(copies, 1u);
  expect_as_eager(example);
}

TEST(TiedWeights, ViewsOfOneStorageKeepTheirValues) {
  const at::Tensor fused = at::randn({8, 6});
  const at::Tensor query = fused.slice(0, 0, 4);
  const at::Tensor key = fused.slice(0, 4);
  const at::Tensor transposed = fused.slice(1, 0, 4).t();
  const at::Tensor row = fused.select(0, 0).slice(0, 0, 1).expand({4});
  expect_as_eager({.forward =
                       [=](const Tensors& x) {
                         return Tensors{at::linear(x[0], query) + at::linear(x[0], key),
                                        at::linear(at::linear(x[0], query), transposed.t()) + 1,
                                        at::linear(x[0], query) + row};
                       },
                   .sample = {at::randn({2, 6})},
                   .others = {{at::randn({5, 6})}},
                   .parameters = {{"query", query}, {"key", key}, {"transposed", transposed}, {"row", row}}});
}

TEST(Mutations, AViewOfTheInputIsWrittenInTheInterpreter) {
  // The caller's tensor changes too: what torch.export calls an input mutation.
  expect_as_eager_in_interpreter({.forward =
                                      [](const Tensors& x) {
                                        x[0].select(1, 0).add_(1);
                                        return Tensors{x[0] * 2};
                                      },
                                  .sample = {at::randn({2, 3})},
                                  .others = {{at::randn({4, 1})}}});
}

TEST(Mutations, AWriteThroughASliceOfAnIntermediate) {
  expect_as_eager({.forward =
                       [](const Tensors& x) {
                         at::Tensor y = x[0].relu();
                         const at::Tensor before = y + 0;
                         y.slice(1, 1).mul_(3);
                         y.transpose(0, 1).select(0, 0).sub_(x[1]);
                         return Tensors{y, before, y.sum(1)};
                       },
                   .sample = {at::randn({2, 3}), at::randn({2})},
                   .others = {{at::randn({4, 1}), at::randn({4})}, {at::randn({1, 8}), at::randn({1})}}});
}

TEST(Mutations, ABufferThatIsUpdatedIsRefusedByOnnx) {
  const at::Tensor count = at::zeros({1});
  const Case example = {.forward =
                            [count](const Tensors& x) {
                              at::Tensor buffer = count;
                              buffer.add_(1);
                              return Tensors{x[0] + buffer};
                            },
                        .sample = {at::randn({2, 3})},
                        .parameters = {{"steps", count}}};

  EXPECT_THAT(error_of([&] { to_onnx(example); }), HasSubstr("steps"));
}

}  // namespace
}  // namespace exporters::cases
