#include "exporters/fake/infer.h"
#include "exporters/fake/shape_call.h"
#include "exporters/support/error.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <gtest/gtest.h>

// Sizes that depend on data have no sample: nothing about them may be taken for granted.
namespace exporters {
namespace {

class Unbacked : public testing::Test {
 protected:
  at::Tensor tensor(std::vector<Expr> sizes) {
    return make_fake(dense(std::move(sizes), c10::ScalarType::Float), env_);
  }

  TensorMeta result(const char* op, const char* overload, std::vector<c10::IValue> arguments) {
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op, overload);
    for (size_t i = arguments.size(); i < handle.schema().arguments().size(); ++i) {
      arguments.push_back(*handle.schema().arguments()[i].default_value());
    }
    infer(handle, arguments, env_);
    return meta_of(arguments.at(0).toTensor());
  }

  std::string sizes(const TensorMeta& meta) const {
    std::string text;
    for (const Expr& size : meta.sizes) text += (text.empty() ? "" : " ") + size.str();
    return text;
  }

  std::shared_ptr<ShapeEnv> env_ = std::make_shared<ShapeEnv>();
  Expr u_ = env_->add_unbacked();
  Expr v_ = env_->add_unbacked();
};

TEST_F(Unbacked, ElementwiseOpsAssertThatSizesAreEqual) {
  const TensorMeta sum = result("aten::add", "Tensor", {tensor({u_, 8}), tensor({v_, 8})});
  EXPECT_EQ(sum.sizes.size(), 2u);
  EXPECT_TRUE(env_->is_true(eq(u_, v_)));
}

TEST_F(Unbacked, ProductsAndSoftmaxAskNothing) {
  EXPECT_EQ(sizes(result("aten::matmul", "", {tensor({u_, 8}), tensor({8, 3})})), u_.str() + " 3");
  EXPECT_EQ(sizes(result("aten::softmax", "int", {tensor({u_, 8}), 0})), u_.str() + " 8");
  EXPECT_TRUE(env_->guards().empty());
}

TEST_F(Unbacked, ViewsSplitTheOtherAxes) {
  const TensorMeta view = result("aten::view", "", {tensor({u_, 8}), std::vector<int64_t>{-1, 4, 2}});
  EXPECT_EQ(sizes(view), u_.str() + " 4 2");
  EXPECT_TRUE(env_->guards().empty());
}

TEST_F(Unbacked, CatAddsThemUp) {
  const std::vector<at::Tensor> tensors{tensor({u_, 8}), tensor({v_, 8})};
  EXPECT_EQ(sizes(result("aten::cat", "", {tensors, 0})), (u_ + v_).str() + " 8");
}

TEST_F(Unbacked, SlicesAreClampedByMinAndMax) {
  const TensorMeta head = result("aten::slice", "Tensor", {tensor({u_, 8}), 0, 0, 3});
  const auto at = [&](int64_t value) { return head.sizes[0].evaluate([&](Symbol) { return value; }); };
  EXPECT_EQ(at(2), 2);
  EXPECT_EQ(at(5), 3);
  EXPECT_TRUE(env_->guards().empty());
}

TEST_F(Unbacked, SelectAssertsThatTheIndexIsNotNegative) {
  const TensorMeta row = result("aten::select", "int", {tensor({9, 8}), 0, to_sym_int(u_, env_)});
  EXPECT_EQ(row.storage_offset, u_ * 8);
  EXPECT_TRUE(env_->is_true(ge(u_, 0)));
}

TEST_F(Unbacked, SqueezeCannotKnow) {
  try {
    result("aten::squeeze", "dim", {tensor({u_, 8}), 0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("data"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace exporters
