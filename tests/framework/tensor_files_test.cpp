#include "exporters/framework/tensor_files.h"

#include "tests/support/error_of.h"

#include <ATen/core/Formatting.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

at::Tensor read(const std::string& word, std::optional<c10::ScalarType> dtype = std::nullopt) {
  return read_tensors({word}, [dtype](const std::string&) { return dtype; }).front().second.tensor();
}

void expect_equal(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_EQ(actual.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(actual.equal(expected)) << actual;
}

TEST(TensorFiles, NumbersTakeTheDtypeOfTheInput) {
  expect_equal(read("x=[1, 2]", at::kFloat), at::tensor({1.0F, 2.0F}));
  expect_equal(read("x=[0.1, 2]", at::kHalf), at::tensor({0.1, 2.0}).to(at::kHalf));
  expect_equal(read("x=[0.1, 2]", at::kDouble), at::tensor({0.1, 2.0}, at::kDouble));
  expect_equal(read("x=[-1, 127]", at::kChar), at::tensor({-1, 127}, at::kChar));
  expect_equal(read("x=[1, 0]", at::kBool), at::tensor({1, 0}).to(at::kBool));
}

TEST(TensorFiles, WithoutADtypeWholeNumbersAreInt64AndOthersFloat32) {
  expect_equal(read("x=[1, 2]"), at::tensor({1, 2}, at::kLong));
  expect_equal(read("x=[0.1, 2]"), at::tensor({0.1F, 2.0F}));
  expect_equal(read("x=[true]"), at::tensor({1}).to(at::kBool));
}

// The program refuses them, with what it takes.
TEST(TensorFiles, WhatTheDtypeCannotBeStaysAsItIsWritten) {
  expect_equal(read("x=[1.5]", at::kLong), at::tensor({1.5F}));
  expect_equal(read("x=[true]", at::kLong), at::tensor({1}).to(at::kBool));
}

TEST(TensorFiles, WholeNumbersOutOfTheDtypesRangeAreRefused) {
  for (const auto& [word, dtype] : {std::pair("x=[1, 128]", at::kChar), {"x=[2]", at::kBool}, {"x=[-1]", at::kByte}}) {
    EXPECT_THAT(error_of([&, word = word, dtype = dtype] { read(word, dtype); }),
                AllOf(HasSubstr("'x'"), HasSubstr("range")));
  }
}

}  // namespace
}  // namespace exporters
