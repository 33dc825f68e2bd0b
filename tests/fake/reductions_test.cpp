#include "dtypes.h"
#include "oracle.h"

namespace exporters::oracle {
namespace {

// Over all axes, over one, over a list, keeping them or not.
std::vector<Case> over_axes(const std::string& all, const std::string& listed,
                            const std::vector<c10::ScalarType>& dtypes) {
  std::vector<Case> cases;
  if (!all.empty()) {
    cases.push_back(Case(all, {t("b s 8")}).all_layouts().dtypes(dtypes));
    cases.push_back(Case(all, {t("")}));
  }
  for (const bool keep : {false, true}) {
    cases.push_back(Case(listed, {t("b s 8"), list(-1), keep}).all_layouts().dtypes(dtypes));
    cases.push_back(Case(listed, {t("b 3 s w"), list(0, 2), keep}).all_layouts());
    cases.push_back(Case(listed, {t("b s"), list(1, -2), keep}));
    cases.push_back(Case(listed, {t(""), list(0), keep}));
  }
  return cases;
}

std::vector<Case> along_axis(const std::string& op, const std::vector<c10::ScalarType>& dtypes, bool keeps = true) {
  std::vector<Case> cases{Case(op, {t("b s 8"), 1}).all_layouts().dtypes(dtypes),
                          Case(op, {t("b 3 s w"), -1}).all_layouts(), Case(op, {t(""), 0})};
  if (keeps) {
    cases.push_back(Case(op, {t("b s 8"), 1, true}).all_layouts());
  }
  return cases;
}

std::vector<Case> join(const std::vector<std::vector<Case>>& parts) {
  std::vector<Case> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const std::vector<c10::ScalarType> kFloats{kHalf, kBFloat16, kDouble};
const std::vector<c10::ScalarType> kMost{kHalf, kBFloat16, kDouble, kLong, kInt, kByte, kBool};

std::vector<Case> sums() {
  const TensorArg ints = t("b s 8").dtype(kInt);
  return join({over_axes("aten::sum", "aten::sum.dim_IntList", kMost),
               over_axes("aten::mean", "aten::mean.dim", kFloats),
               over_axes("aten::nansum", "aten::nansum", kFloats),
               over_axes("aten::any", "aten::any.dims", kMost),
               over_axes("aten::all", "aten::all.dims", kMost),
               over_axes("", "aten::amax", kMost),
               over_axes("", "aten::amin", kMost),
               over_axes("", "aten::logsumexp", {kHalf, kDouble, kLong}),
               {
                   {"aten::sum", {t("b s"), kw("dtype", kDouble)}},
                   {"aten::sum.dim_IntList", {ints, list(1), true, kw("dtype", kFloat)}},
                   {"aten::sum.dim_IntList", {ints, none}},
                   {"aten::sum.dim_IntList", {ints, list(), true}},
                   {"aten::sum.dim_IntList", {t("b s 8").dtype(kComplex), list(0)}},
                   {"aten::mean.dim", {ints, list(0), false, kw("dtype", kFloat)}},
                   {"aten::mean.dim", {t("b s 8"), none, true}},
                   {"aten::amax", {t("b s 8"), list()}},
                   {"aten::any.dims", {t("b s 8"), none}},
                   {"aten::prod", {t("b s").dtype(kBool)}},
                   {"aten::prod", {t("b s").transposed(0, 1)}},
                   {"aten::prod.dim_int", {t("b s 8").dtype(kByte), 1, true}},
                   {"aten::prod.dim_int", {t("b s 8"), 1, false, kw("dtype", kDouble)}},
                   {"aten::any.dim", {t("b s 8").dtype(kBool), 1}},
                   {"aten::all.dim", {t("b s 8"), -1, true}},
                   {"aten::_is_all_true", {t("b s 8").dtype(kBool)}},
                   {"aten::_is_any_true", {t("b s 8").dtype(kBool)}},
                   {"aten::count_nonzero", {t("b s 8")}},
                   {"aten::count_nonzero", {t("b s 8"), 1}},
                   {"aten::count_nonzero.dim_IntList", {t("b s 8"), list(0, 2)}},
                   Case("aten::mean", {ints}).refused("Give a floating dtype"),
                   Case("aten::sum.dim_IntList", {t("b s"), list(2)}).refused("outside a tensor of rank 2"),
                   Case("aten::sum.dim_IntList", {t("b s"), list(0, -2)}).refused("named twice"),
               }});
}
INSTANTIATE_TEST_SUITE_P(Sums, ShapeOracle, testing::ValuesIn(sums()), case_name);

std::vector<Case> extremes() {
  return join({along_axis("aten::max.dim", {kHalf, kLong, kBool}),
               along_axis("aten::min.dim", {kHalf, kLong}),
               along_axis("aten::argmax", {kHalf, kLong}),
               along_axis("aten::argmin", {kHalf, kLong}),
               along_axis("aten::median.dim", {kLong}),
               along_axis("aten::mode", {kLong}),
               along_axis("aten::nanmedian.dim", {}),
               {
                   Case("aten::max", {t("b s 8")}).all_layouts().dtypes(kMost),
                   Case("aten::min", {t("b s 8")}).all_layouts(),
                   {"aten::argmax", {t("b s 8")}},
                   {"aten::argmax", {t("b s 8"), none, true}},
                   {"aten::argmin", {t("b s 8").transposed(0, 2)}},
                   {"aten::median", {t("b s")}},
                   {"aten::trace", {t("s n")}},
                   {"aten::trace", {t("s n").dtype(kInt)}},
                   {"aten::dist", {t("b s"), t("s")}},
                   {"aten::aminmax", {t("b s 8")}},
                   {"aten::aminmax", {t("b s 8"), kw("dim", 1)}},
                   {"aten::aminmax", {t("b s 8"), kw("dim", 1), kw("keepdim", true)}},
               }});
}
INSTANTIATE_TEST_SUITE_P(Extremes, ShapeOracle, testing::ValuesIn(extremes()), case_name);

std::vector<Case> spreads() {
  std::vector<Case> cases;
  for (const char* op : {"aten::var", "aten::std", "aten::var_mean", "aten::std_mean"}) {
    const std::string name = op;
    cases.push_back(
        Case(name + ".correction", {t("b s 8"), list(-1), kw("correction", 0)}).all_layouts().dtypes(kFloats));
    cases.push_back(Case(name + ".correction", {t("b s 8"), list(0, 1), kw("keepdim", true)}));
    cases.push_back(Case(name + ".correction", {t("b s 8"), none}));
    cases.push_back(Case(name + ".correction", {t("b s").dtype(kComplex), list(1)}));
    cases.push_back(Case(name, {t("b s 8"), false}));
    cases.push_back(Case(name + ".dim", {t("b s 8"), list(1), false, true}));
  }
  const std::vector<Case> more = {
      {"aten::norm.Scalar", {t("b s 8"), 2}},
      {"aten::norm.ScalarOpt_dim", {t("b s 8").transposed(0, 1), 2, list(-1), true}},
      {"aten::norm.ScalarOpt_dim_dtype", {t("b s 8"), 2, list(-1), true, kw("dtype", kDouble)}},
      {"aten::norm.ScalarOpt_dtype", {t("b s 8"), 2, kw("dtype", kDouble)}},
      Case("aten::linalg_vector_norm", {t("b s 8"), 2, list(-1), true}).all_layouts().dtypes(kFloats),
      {"aten::linalg_vector_norm", {t("b s 8"), 1}},
      {"aten::linalg_vector_norm", {t("b s").dtype(kComplex), 2, list(0)}},
      {"aten::linalg_norm", {t("b s 8"), none, list(-1)}},
      {"aten::frobenius_norm.dim", {t("b s 8"), list(1, 2)}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Spreads, ShapeOracle, testing::ValuesIn(spreads()), case_name);

std::vector<Case> scans() {
  return join({along_axis("aten::cumsum", kMost, false),
               along_axis("aten::cumprod", kMost, false),
               along_axis("aten::cummax", {kLong, kHalf}, false),
               along_axis("aten::cummin", {kLong}, false),
               along_axis("aten::logcumsumexp", {kDouble}, false),
               along_axis("aten::softmax.int", kFloats, false),
               along_axis("aten::log_softmax.int", kFloats, false),
               along_axis("aten::_safe_softmax", kFloats, false),
               {
                   {"aten::cumsum", {t("b s").dtype(kInt), 1, kw("dtype", kFloat)}},
                   {"aten::softmax.int", {t("b s").dtype(kHalf), -1, kFloat}},
                   {"aten::softmax.int", {t("b s").dtype(kLong), -1, kFloat}},
                   {"aten::log_softmax.int", {t("b s").transposed(0, 1), 0, kDouble}},
                   Case("aten::_softmax", {t("b h s s"), -1, false}).all_layouts().dtypes(kFloats),
                   Case("aten::_log_softmax", {t("b h s s"), 1, false}).all_layouts(),
                   {"aten::special_softmax", {t("b s"), 1}},
                   Case("aten::softmax.int", {t("b s").dtype(kLong), -1}).refused("Give a floating dtype"),
                   {"aten::cumsum_", {t("b s"), 1}},
                   Case("aten::diff", {t("b s")}).guards({"s >= 1"}),
               }});
}
INSTANTIATE_TEST_SUITE_P(Scans, ShapeOracle, testing::ValuesIn(scans()), case_name);

std::vector<Case> losses() {
  std::vector<Case> cases;
  for (const int reduction : {0, 1, 2}) {
    cases.push_back({"aten::mse_loss", {t("b s").transposed(0, 1), t("b s"), reduction}});
    cases.push_back({"aten::smooth_l1_loss", {t("b s"), t("b s"), reduction}});
    cases.push_back({"aten::huber_loss", {t("b s"), t("b s"), reduction}});
    cases.push_back({"aten::l1_loss", {t("b s"), t("b s"), reduction}});
    cases.push_back({"aten::binary_cross_entropy_with_logits", {t("b s"), t("b s"), none, none, reduction}});
    cases.push_back({"aten::nll_loss_nd", {t("b 4"), t("b").dtype(kLong).values("0", "4"), none, reduction}});
    cases.push_back({"aten::cross_entropy_loss", {t("b 4"), t("b").dtype(kLong).values("0", "4"), none, reduction}});
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Losses, ShapeOracle, testing::ValuesIn(losses()), case_name);

}  // namespace
}  // namespace exporters::oracle
