#include "exporters/graph/index_limits.h"

#include "tests/support/error_of.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

std::string refusal(const at::Tensor& indices) {
  return error_of([&] { check_indices("input_ids", indices, {8, "vocab_size"}); });
}

TEST(CheckIndices, EveryValueBelowTheLimitPasses) {
  EXPECT_EQ(refusal(at::arange(8)), "no error");
  EXPECT_EQ(refusal(at::arange(8, at::kInt).view({2, 4}).t()), "no error");
  EXPECT_EQ(refusal(at::zeros({0, 3}, at::kLong)), "no error");
}

TEST(CheckIndices, TheFirstWrongValueIsNamedWithWhatIsAllowed) {
  for (const auto dtype : {at::kLong, at::kInt}) {
    EXPECT_THAT(refusal(at::tensor({1, 8, 9}).to(dtype)),
                AllOf(HasSubstr("input_ids"), HasSubstr("contains 8"), HasSubstr("0 to 7 (vocab_size)")));
    EXPECT_THAT(refusal(at::tensor({1, -1}).to(dtype)), HasSubstr("contains -1"));
  }
  EXPECT_THAT(refusal(at::tensor({INT64_MIN, INT64_MAX})), HasSubstr("contains -9223372036854775808"));
}

}  // namespace
}  // namespace exporters
