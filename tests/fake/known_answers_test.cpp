#include "exporters/fake/fake_tensor.h"
#include "exporters/fake/infer.h"
#include "exporters/fake/registry.h"
#include "exporters/support/error.h"
#include "exporters/support/place.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace exporters {
namespace {

class KnownAnswers : public testing::Test {
 protected:
  at::Tensor symbolic(const std::string& name, int64_t sample, c10::ScalarType dtype = c10::ScalarType::Float) {
    TensorMeta meta;
    meta.dtype = dtype;
    meta.sizes = {env_->add_axis({name, 0}, sample, Dim::Auto()), 3};
    meta.strides = {3, 1};
    return make_fake(std::move(meta), env_);
  }

  c10::IValue run(const char* op, torch::jit::Stack stack) {
    infer(c10::Dispatcher::singleton().findSchemaOrThrow(op, ""), stack, env_);
    return stack.at(0);
  }

  std::shared_ptr<ShapeEnv> env_ = std::make_shared<ShapeEnv>();
};

TEST_F(KnownAnswers, a_tensor_equals_itself) {
  const at::Tensor x = symbolic("x", 4);
  EXPECT_TRUE(run("aten::equal", {x, x}).toBool());
  EXPECT_TRUE(env_->guards().empty());
}

TEST_F(KnownAnswers, other_tensors_of_the_same_size_may_differ) {
  const at::Tensor x = symbolic("x", 4);
  const at::Tensor y = make_fake(meta_of(x), env_);
  EXPECT_THROW(run("aten::equal", {x, y}), Error);
}

TEST_F(KnownAnswers, an_item_is_a_fresh_symbol_each_time) {
  TensorMeta meta;
  meta.dtype = c10::ScalarType::Long;
  const at::Tensor x = make_fake(meta, env_);
  const Expr first = to_expr(run("aten::item", {x}).toSymInt());
  const Expr second = to_expr(run("aten::item", {x}).toSymInt());
  EXPECT_TRUE(first.has_unbacked());
  EXPECT_FALSE(first == second);
  EXPECT_FALSE(env_->statically(eq(first, second)).has_value());
}

TEST_F(KnownAnswers, the_number_of_nonzeros_is_at_most_that_of_elements) {
  TensorMeta meta;
  meta.sizes = {4, 3};
  meta.strides = {3, 1};
  const Expr count = meta_of(run("aten::nonzero", {make_fake(meta, env_)}).toTensor()).sizes[0];
  EXPECT_EQ(env_->bounds(count), (Range{0, 12}));
}

TEST_F(KnownAnswers, training_statistics_name_the_module) {
  const at::Tensor x = symbolic("x", 4);
  TensorMeta channels;
  channels.sizes = {3};
  channels.strides = {1};
  const at::Tensor c = make_fake(channels, env_);
  const ModuleScope module("backbone");
  const ModuleScope layer("norm1");
  try {
    run("aten::batch_norm", {x, c, c, c, c, true, 0.1, 1e-5, false});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("backbone.norm1"));
    EXPECT_THAT(error.hint(), testing::HasSubstr("eval()"));
  }
}

TEST_F(KnownAnswers, a_false_assertion_about_sizes_is_an_error) {
  const c10::IValue condition = to_sym_bool(lt(meta_of(symbolic("x", 4)).sizes[0], 4), env_);
  EXPECT_THROW(run("aten::_assert_scalar", {condition, "x is short"}), Error);
}

}  // namespace
}  // namespace exporters
