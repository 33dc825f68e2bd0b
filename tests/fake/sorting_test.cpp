#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

std::vector<Case> sorting() {
  return {
      Case("aten::sort", {t("b s 5"), 1, true}).all_layouts().dtypes({ScalarType::BFloat16}),
      Case("aten::sort", {t("b s 5").dtype(ScalarType::Long)}),
      Case("aten::sort.stable", {t("b s 5"), kw("stable", true), kw("dim", 0)}).all_layouts(),
      Case("aten::argsort", {t("b s 5"), 1}).all_layouts(),
      Case("aten::argsort.stable", {t("b s 5"), kw("stable", true)}).all_layouts(),
      Case("aten::msort", {t("b s 5")}).all_layouts(),
      Case("aten::sort", {t("")}),
      Case("aten::sort", {t("b s").dtype(ScalarType::ComplexFloat)}).refused("complex"),
      Case("aten::topk", {t("b s 5"), 2}).all_layouts().dtypes({ScalarType::BFloat16}),
      Case("aten::topk", {t("b s 5"), 2, 1}).at_least("s", 2).sample("s", 6),
      Case("aten::topk", {t("b s 5"), "s", 1}).all_layouts(),
      Case("aten::topk", {t("b s 5"), 6}).refused("5"),
      Case("aten::kthvalue", {t("b s 5"), 2}).all_layouts(),
      Case("aten::kthvalue", {t("b s 5"), 1, 1, true}).all_layouts().guards({"s >= 1"}),
      Case("aten::kthvalue", {t("b s 5"), 0}).refused("1"),
      Case("aten::searchsorted.Tensor", {t("9"), t("b s")}).all_layouts(),
      Case("aten::searchsorted.Tensor", {t("b s 9"), t("b s n"), kw("out_int32", true)}).all_layouts(),
      Case("aten::searchsorted.Scalar", {t("9"), 0.5}),
      Case("aten::searchsorted.Tensor", {t("b 9"), t("n")}).refused("rank"),
      Case("aten::bucketize.Tensor", {t("b s"), t("9"), kw("out_int32", true)}).all_layouts(),
      Case("aten::bucketize.Scalar", {0.5, t("9")}),
      Case("aten::bucketize.Tensor", {t("b s"), t("9 2")}).refused("rank 2"),
  };
}

INSTANTIATE_TEST_SUITE_P(Sorting, ShapeOracle, testing::ValuesIn(sorting()), case_name);

}  // namespace
}  // namespace exporters::oracle
