#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

TensorArg index(const std::string& sizes, const std::string& high) {
  return t(sizes).dtype(ScalarType::Long).values("0", high);
}
TensorArg mask(const std::string& sizes) { return t(sizes).dtype(ScalarType::Bool); }

std::vector<Case> gather() {
  return {
      Case("aten::gather", {t("b s 5"), 1, index("b n 5", "s")}).all_layouts(),
      Case("aten::gather", {t("b s 5"), -1, index("b s n", "5")}).all_layouts(),
      Case("aten::gather", {t("b s 5"), 1, index("b n 3", "s")}),
      Case("aten::gather", {t("b s 5"), 1, index("b n 6", "s")}).refused("6"),
      Case("aten::gather", {t("b s 5"), 1, index("b n", "s")}).refused("rank"),
      Case("aten::take_along_dim", {t("b s 5"), index("b 1 5", "s"), 1}).all_layouts(),
      Case("aten::take_along_dim", {t("b 1 5"), index("b n m", "1"), 1}).sample("m", 5).binds({"m"}),
      Case("aten::take_along_dim", {t("b s"), index("n", "b*s")}),
      Case("aten::take", {t("b s 5"), index("n m", "b*s*5")}).all_layouts(),
  };
}

INSTANTIATE_TEST_SUITE_P(Gather, ShapeOracle, testing::ValuesIn(gather()), case_name);

std::vector<Case> scatter() {
  return {
      Case("aten::scatter.src", {t("b s 5"), 1, index("b s 5", "s"), t("b s 5")}).all_layouts(),
      Case("aten::scatter.value", {t("b s 5"), 2, index("b s 3", "5"), 1.5}).all_layouts(),
      Case("aten::scatter.reduce", {t("b s 5"), 2, index("b s 3", "5"), t("b s 3"), kw("reduce", "add")}),
      Case("aten::scatter.value_reduce", {t("b s 5"), 2, index("b s 3", "5"), 2.0, kw("reduce", "multiply")}),
      Case("aten::scatter_add", {t("b s 5"), 2, index("b s 3", "5"), t("b s 3")}).all_layouts(),
      Case("aten::scatter_reduce.two", {t("b s 5"), 2, index("b s 3", "5"), t("b s 3"), "amax"}).all_layouts(),
      Case("aten::scatter.src", {t("b s 5"), 2, index("b s 3", "5"), t("b s 2")}).refused("3"),
      Case("aten::scatter.src", {t("b s 5"), 2, index("b s 3", "5"), t("b s 3").dtype(ScalarType::Double)})
          .refused("Double"),
      Case("aten::scatter_.src", {t("b s 5"), 2, index("b s 3", "5"), t("b s 3")}),
      Case("aten::select_scatter", {t("b s 5"), t("b 5"), 1, 0}).all_layouts(),
      Case("aten::slice_scatter", {t("b s 5"), t("b s 2"), 2, 1, 3}).all_layouts(),
      Case("aten::diagonal_scatter", {t("b 4 5"), t("b 4"), 0, 1, 2}).all_layouts(),
      Case("aten::as_strided_scatter", {t("b 4 5"), t("2 3"), list(2, 3), list(1, 2)}),
  };
}

INSTANTIATE_TEST_SUITE_P(Scatter, ShapeOracle, testing::ValuesIn(scatter()), case_name);

std::vector<Case> along_axis() {
  return {
      Case("aten::index_select", {t("b s 5"), 1, index("n", "s")}).all_layouts(),
      Case("aten::index_select", {t("b s 5"), 1, index("n", "s").dtype(ScalarType::Int)}),
      Case("aten::index_select", {t("b s 5"), 1, index("n 2", "s")}).refused("rank 2"),
      Case("aten::index_add", {t("b s 5"), 1, index("n", "s"), t("b n 5")}).all_layouts(),
      Case("aten::index_copy", {t("b s 5"), 1, index("n", "s"), t("b n 5")}).all_layouts(),
      Case("aten::index_reduce", {t("b s 5"), 1, index("n", "s"), t("b n 5"), "amax"}),
      Case("aten::index_add", {t("b s 5"), 1, index("n", "s"), t("b n 4")}).refused("5"),
      Case("aten::index_fill.int_Scalar", {t("b s 5"), 1, index("n", "s"), 2.0}).all_layouts(),
      Case("aten::put", {t("b s 5"), index("n", "b*s*5"), t("n")}).all_layouts(),
  };
}

INSTANTIATE_TEST_SUITE_P(AlongAxis, ShapeOracle, testing::ValuesIn(along_axis()), case_name);

std::vector<Case> embedding() {
  return {
      Case("aten::embedding", {t("9 8"), index("b s", "9")}).all_layouts().dtypes({ScalarType::BFloat16}),
      Case("aten::embedding", {t("9 8"), index("b s", "9").dtype(ScalarType::Int)}),
      Case("aten::embedding", {t("v h"), index("b s", "v"), 0}).sample("v", 11),
      Case("aten::embedding", {t("9 8"), index("b", "9")}),
      Case("aten::embedding", {t("9 8"), t("b s")}).refused("Float"),
      Case("aten::embedding", {t("9 8 2"), index("b s", "9")}).refused("rank 3"),
      Case("aten::one_hot", {index("b s", "4"), 4}).all_layouts(),
      Case("aten::one_hot", {index("b s", "4")}).refused("num_classes"),
  };
}

INSTANTIATE_TEST_SUITE_P(Embedding, ShapeOracle, testing::ValuesIn(embedding()), case_name);

std::vector<Case> by_tensors() {
  return {
      Case("aten::index.Tensor", {t("b s 5"), list(index("n", "b"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(none, index("n", "s"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(none, none, index("n", "5"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(none, index("n m", "s"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(none, index("n m", "s").transposed(0, 1))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(none, index("n", "s"), index("n", "5"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(index("n", "b"), index("n", "s"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(index("n 1", "b"), index("m", "s"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(index("n", "b"), none, index("n", "5"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5 3"), list(none, index("n", "s"), none, index("n", "3"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5 3"), list(none, index("n m", "s"), index("n m", "5"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(none, index("", "s"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(index("n", "b").dtype(ScalarType::Int))}),
      Case("aten::index.Tensor", {t("b s 5"), list(t("n"))}).refused("Float"),
      Case("aten::index.Tensor", {t("b s"), list(index("n", "b"), none, index("n", "2"))}).refused("rank 2"),
      // As many elements as the mask has set.
      Case("aten::index.Tensor", {t("b s 5"), list(mask("b s"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(mask("b s 5"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(mask("b"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(none, mask("s"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(mask("b"), none, index("1", "5"))}).all_layouts(),
      Case("aten::index.Tensor", {t("b s 5"), list(mask("b 4"))}).sample("s", 3).refused("4"),
      Case("aten::_unsafe_index.Tensor", {t("b s 5"), list(none, index("n", "s"))}),
  };
}

INSTANTIATE_TEST_SUITE_P(ByTensors, ShapeOracle, testing::ValuesIn(by_tensors()), case_name);

std::vector<Case> put_by_tensors() {
  return {
      Case("aten::index_put", {t("b s 5"), list(index("n", "b")), t("n s 5")}).all_layouts(),
      Case("aten::index_put", {t("b s 5"), list(index("n", "b")), t("5")}).all_layouts(),
      Case("aten::index_put", {t("b s 5"), list(none, index("n", "s")), t("b n 5"), true}).all_layouts(),
      Case("aten::index_put", {t("b s 5"), list(mask("b s")), t("")}).all_layouts(),
      Case("aten::index_put", {t("b s 5"), list(mask("b s 5")), t("1")}),
      Case("aten::index_put_", {t("b s 5"), list(index("n", "b"), index("n", "s")), t("n 5")}),
      Case("aten::index_put_", {t("b s 5"), list(mask("b s")), t("5")}),
      Case("aten::_index_put_impl_", {t("b s 5"), list(index("n", "b")), t("")}),
      Case("aten::index_put", {t("b s 5"), list(index("n", "b")), t("4")}).refused("5"),
      Case("aten::index_put", {t("b s 5"), list(index("n", "b")), t("5").dtype(ScalarType::Double)}).refused("Double"),
  };
}

INSTANTIATE_TEST_SUITE_P(PutByTensors, ShapeOracle, testing::ValuesIn(put_by_tensors()), case_name);

}  // namespace
}  // namespace exporters::oracle
