#include "exporters/support/error.h"

#include <gtest/gtest.h>

namespace exporters {
namespace {

TEST(ErrorTest, ParagraphNamesWhatWhereAndTheWayOut) {
  const Error error("opset 12 is too old", "ONNX exporter", "Use opset 20 or newer.");

  EXPECT_STREQ(error.what(), "opset 12 is too old (ONNX exporter). Use opset 20 or newer.");
  EXPECT_EQ(error.message(), "opset 12 is too old");
  EXPECT_EQ(error.where(), "ONNX exporter");
  EXPECT_EQ(error.hint(), "Use opset 20 or newer.");
}

TEST(ErrorTest, ContextComesBeforeThePlace) {
  const Error inner("no shape function", "encoder.layer.0", "Register one.");

  const Error outer = inner.with_context("trace");

  EXPECT_EQ(outer.message(), "no shape function");
  EXPECT_EQ(outer.where().rfind("trace", 0), 0u) << outer.where();
  EXPECT_NE(outer.where().find("encoder.layer.0"), std::string::npos) << outer.where();
  EXPECT_EQ(outer.hint(), "Register one.");
}

TEST(ErrorTest, EnsureThrowsOnlyWhenTheConditionDoesNotHold) {
  EXPECT_NO_THROW(ensure(true, "{} tensors", 3));
  try {
    ensure(false, "{} tensors", 3);
    FAIL() << "ensure(false) returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "3 tensors");
  }
}

}  // namespace
}  // namespace exporters
