#include "exporters/support/place.h"

#include <gtest/gtest.h>

#include <thread>

namespace exporters {
namespace {

TEST(PlaceTest, ScopesNestAndEndWithTheirObject) {
  {
    const ModuleScope encoder("encoder", "BertEncoder");
    const ModuleScope layer("layer.0", "BertLayer");
    const OpScope op("aten::add.Tensor");

    EXPECT_EQ(current_place().module_path, "encoder.layer.0");
    EXPECT_EQ(current_place().module_class, "BertLayer");
    EXPECT_EQ(current_place().op, "aten::add.Tensor");
    EXPECT_NE(current_place().source.find("place_test.cpp:"), std::string::npos) << current_place().source;
    ASSERT_EQ(current_module_stack().size(), 2u);
    EXPECT_EQ(current_module_stack()[0].path, "encoder");
    EXPECT_EQ(current_module_stack()[1].path, "encoder.layer.0");
  }

  EXPECT_TRUE(current_place().empty());
  EXPECT_TRUE(current_module_stack().empty());
}

TEST(PlaceTest, AnotherThreadStandsNowhere) {
  const ModuleScope encoder("encoder");
  bool empty_there = false;

  std::thread([&] { empty_there = current_place().empty(); }).join();

  EXPECT_TRUE(empty_there);
}

}  // namespace
}  // namespace exporters
