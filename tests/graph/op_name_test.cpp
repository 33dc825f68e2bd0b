#include "exporters/graph/op_name.h"

#include "exporters/graph/graph.h"
#include "exporters/support/error.h"

#include <ATen/core/function_schema.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace exporters {
namespace {

using testing::HasSubstr;

std::string lookup_error(std::string_view target) {
  try {
    lookup_operator(target);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OpName, TargetsAndOpsConvertBothWays) {
  EXPECT_EQ(target_from_op("aten::add.Tensor"), "aten.add.Tensor");
  EXPECT_EQ(target_from_op("aten::relu"), "aten.relu.default");
  EXPECT_EQ(op_from_target("aten.add.Tensor"), "aten::add.Tensor");
  EXPECT_EQ(op_from_target("aten.relu.default"), "aten::relu");
  EXPECT_EQ(target_from_op(operator_name("aten.sym_size.int")), "aten.sym_size.int");
}

TEST(OpName, EveryOperatorOfTheDispatcherSurvivesTheRoundTrip) {
  const auto names = c10::Dispatcher::singleton().getAllOpNames();
  ASSERT_GT(names.size(), 2000u);
  for (const c10::OperatorName& name : names) {
    EXPECT_EQ(operator_name(target_from_op(name)), name);
  }
}

TEST(OpName, MalformedTargetsAreRefused) {
  for (const char* target : {"", "relu", "aten.relu", ".relu.default", "aten..default", "aten.relu."}) {
    EXPECT_THROW(operator_name(target), Error) << target;
    EXPECT_FALSE(find_operator(target).has_value()) << target;
  }
}

TEST(OpName, LookupFindsTheOverload) {
  EXPECT_EQ(lookup_operator("aten.add.Tensor").schema().overload_name(), "Tensor");
  EXPECT_EQ(lookup_operator("aten.relu.default").schema().overload_name(), "");
  EXPECT_FALSE(find_operator("_operator.add").has_value());
}

TEST(OpName, UnknownOverloadNamesThoseThereAre) {
  const std::string error = lookup_error("aten.add.Tenser");
  EXPECT_THAT(error, HasSubstr("'aten.add.Tenser'"));
  EXPECT_THAT(error, HasSubstr("aten.add.Tensor"));
  EXPECT_THAT(error, HasSubstr("aten.add.Scalar"));
}

TEST(OpName, MisspelledOpNamesItsNeighbours) {
  EXPECT_THAT(lookup_error("aten.sigmoyd.default"), HasSubstr("aten.sigmoid.default"));
}

TEST(OpName, LookupIsSafeFromManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
        find_operator(target_from_op(name));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(find_operator("aten.mul.Tensor").has_value());
}

TEST(OpName, AliasedInputIsReadFromTheSchema) {
  EXPECT_EQ(aliased_input(lookup_operator("aten.select.int").schema(), 0), 0u);
  EXPECT_EQ(aliased_input(lookup_operator("aten.split.Tensor").schema(), 0), 0u);
  EXPECT_EQ(aliased_input(lookup_operator("aten.unbind.int").schema(), 0), 0u);
  EXPECT_EQ(aliased_input(lookup_operator("aten.chunk.default").schema(), 0), 0u);
  EXPECT_EQ(aliased_input(lookup_operator("aten.reshape.default").schema(), 0), 0u);
  EXPECT_EQ(aliased_input(lookup_operator("aten.add_.Tensor").schema(), 0), 0u);
  EXPECT_EQ(aliased_input(lookup_operator("aten.add.out").schema(), 0), 3u);
  EXPECT_EQ(aliased_input(lookup_operator("aten.add.Tensor").schema(), 0), std::nullopt);
  EXPECT_EQ(aliased_input(lookup_operator("aten.clone.default").schema(), 0), std::nullopt);
}

}  // namespace
}  // namespace exporters
