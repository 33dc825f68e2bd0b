// Tensors that change their shape in place.
#include "tests/cases/cases.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters::cases {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Case matrix(std::function<Tensors(const at::Tensor&)> forward) {
  return {.forward = [forward](const Tensors& x) { return forward(x[0]); },
          .sample = {at::randn({3, 5})},
          .others = {{at::randn({1, 5})}, {at::randn({4, 1})}, {at::randn({2, 7})}}};
}

TEST(ReshapedInPlace, EveryOpIsAsInEager) {
  expect_as_eager(matrix([](const at::Tensor& x) {
    at::Tensor a = x * 2;
    a.unsqueeze_(1);
    a.transpose_(0, 2);
    at::Tensor b = x + 1;
    b.t_();
    at::Tensor c = x.unsqueeze(0).clone();
    c.squeeze_(0);
    at::Tensor d = x - 1;
    d.swapaxes_(0, 1);
    at::Tensor e = x.sin();
    e.swapdims_(1, 0);
    return Tensors{a + 1, b, c * 3, d, e};
  }));
}

TEST(ReshapedInPlace, SeveralAxesAreSqueezedAtOnce) {
  expect_as_eager(matrix([](const at::Tensor& x) {
    at::Tensor y = x.unsqueeze(0).unsqueeze(-1).clone();
    y.squeeze_(at::IntArrayRef{0, 3});
    return Tensors{y};
  }));
}

TEST(ReshapedInPlace, WritesReachTheTensorAndViewsTakenBefore) {
  expect_as_eager(matrix([](const at::Tensor& x) {
    at::Tensor y = x.clone();
    at::Tensor first_row = y.select(0, 0);
    y.t_();
    y.select(1, 0).mul_(2);  // the first row, through the new shape
    first_row.add_(1);       // and through the old one
    y.unsqueeze_(0);
    y.sub_(3);
    return Tensors{y, first_row};
  }));
}

TEST(ReshapedInPlace, AViewOfAnotherTensorStaysOne) {
  expect_as_eager(matrix([](const at::Tensor& x) {
    at::Tensor base = x.clone();
    at::Tensor view = base.narrow(1, 0, 1);
    view.squeeze_(1);
    view.fill_(7);
    return Tensors{base, view};
  }));
}

TEST(ReshapedInPlace, AParameterIsRefusedWithTheWayOut) {
  const at::Tensor weight = at::randn({3, 5});
  Case example = matrix([weight](const at::Tensor& x) {
    weight.t_();
    return Tensors{x.matmul(weight)};
  });
  example.parameters = {{"weight", weight}};
  EXPECT_THAT(error_of([&] { traced(example); }), AllOf(HasSubstr("parameter"), HasSubstr("without '_'")));
}

TEST(ReshapedInPlace, AnInputIsRefusedWhereTheFormatCannotSayIt) {
  const Case example = matrix([](const at::Tensor& x) {
    x.unsqueeze_(0);
    return Tensors{x + 1};
  });
  expect_as_eager_in_interpreter(example);
  EXPECT_THAT(error_of([&] { to_onnx(example); }), AllOf(HasSubstr("input"), HasSubstr("without the underscore")));
}

}  // namespace
}  // namespace exporters::cases
