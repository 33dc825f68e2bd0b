// out= overloads give what their functional ones give: as many results, of the same sizes, in the tensors they are
// given.
#include "tests/fake/oracle.h"

namespace exporters::oracle {
namespace {

TensorArg indices(const std::string& sizes) { return t(sizes).dtype(c10::kLong); }

std::vector<Case> several_outs() {
  return {
      {"aten::max.dim_max", {t("b 8 s"), 1, kw("max", t("b s")), kw("max_values", indices("b s"))}},
      {"aten::max.dim_max", {t("b 8"), -1, true, kw("max", t("b 1")), kw("max_values", indices("b 1"))}},
      {"aten::min.dim_min", {t("8 s"), 0, kw("min", t("s")), kw("min_indices", indices("s"))}},
      {"aten::median.dim_values", {t("b 8"), 1, kw("values", t("b")), kw("indices", indices("b"))}},
      {"aten::nanmedian.dim_values", {t("b 8"), 1, kw("values", t("b")), kw("indices", indices("b"))}},
      {"aten::mode.values", {t("b 8"), kw("values", t("b")), kw("indices", indices("b"))}},
      {"aten::kthvalue.values", {t("b 8"), 2, kw("values", t("b")), kw("indices", indices("b"))}},
      {"aten::topk.values", {t("b 8"), 3, kw("values", t("b 3")), kw("indices", indices("b 3"))}},
      {"aten::sort.values", {t("b s"), 0, kw("values", t("b s")), kw("indices", indices("b s"))}},
      {"aten::sort.values_stable",
       {t("b s"), kw("stable", true), kw("values", t("b s").transposed(0, 1)), kw("indices", indices("b s"))}},
      {"aten::cummax.out", {t("b s"), 1, kw("values", t("b s")), kw("indices", indices("b s"))}},
      {"aten::aminmax.out", {t("b 8"), kw("dim", 1), kw("min", t("b")), kw("max", t("b"))}},
      {"aten::frexp.Tensor_out", {t("b s"), kw("mantissa", t("b s")), kw("exponent", t("b s").dtype(c10::kInt))}},
      {"aten::var_mean.correction_out", {t("b 8"), list(1), kw("out0", t("b")), kw("out1", t("b"))}},
      {"aten::native_layer_norm.out",
       {t("b s 8"), list(8), t("8"), t("8"), 1e-5, kw("out0", t("b s 8")), kw("out1", t("b s 1")),
        kw("out2", t("b s 1"))}},
      Case("aten::max.dim_max", {t("b 8"), 1, kw("max", t("b")), kw("max_values", indices("8"))})
          .refused("size of the tensor"),
  };
}

// The name of an op stands for several functional overloads, of which each out= overload has its own.
std::vector<Case> one_out() {
  return {
      {"aten::max.out", {t("b s"), t("s"), kw("out", t("b s"))}},
      {"aten::max.unary_out", {t("b s"), kw("out", t(""))}},
      {"aten::min.out", {t("b 1"), t("s"), kw("out", t("b s"))}},
  };
}

INSTANTIATE_TEST_SUITE_P(SeveralOuts, ShapeOracle, testing::ValuesIn(several_outs()), case_name);
INSTANTIATE_TEST_SUITE_P(OneOut, ShapeOracle, testing::ValuesIn(one_out()), case_name);

}  // namespace
}  // namespace exporters::oracle
