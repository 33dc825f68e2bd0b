#include "dtypes.h"
#include "oracle.h"

namespace exporters::oracle {
namespace {

std::vector<Case> of_sizes() {
  std::vector<Case> cases;
  for (const char* op : {"aten::zeros", "aten::ones", "aten::rand", "aten::randn", "aten::empty.memory_format"}) {
    cases.push_back(Case(op, {list("b", "s", 8)}));
    cases.push_back(Case(op, {list("b", 8), kw("dtype", kHalf)}));
  }
  const std::vector<Case> more = {
      {"aten::empty.memory_format", {list("b", 3, "s", "w"), kw("memory_format", c10::MemoryFormat::ChannelsLast)}},
      {"aten::full", {list("b", "s"), 1}},
      {"aten::full", {list("b", "s"), 1.5}},
      {"aten::full", {list("b", "s"), true}},
      {"aten::full", {list("b", "s"), 1, kw("dtype", kHalf)}},
      {"aten::full", {list("b"), "b"}},
      {"aten::randint", {10, list("b", "s")}},
      {"aten::randint.low", {1, 10, list("b", "s"), kw("dtype", kInt)}},
      {"aten::randperm", {"b"}},
      {"aten::eye", {"b"}},
      {"aten::eye.m", {"b", "s", kw("dtype", kLong)}},
      {"aten::scalar_tensor", {1}},
      {"aten::scalar_tensor", {"b", kw("dtype", kLong)}},
      {"aten::empty_strided", {list("b", "s"), list(1, "b")}},
      {"aten::empty_permuted", {list("b", "s", 8), list(1, 0, 2)}},
      Case("aten::zeros", {list("b", -3)}).refused("size -3 is negative"),
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}
INSTANTIATE_TEST_SUITE_P(OfSizes, ShapeOracle, testing::ValuesIn(of_sizes()), case_name);

std::vector<Case> ranges() {
  return {
      {"aten::arange", {"s"}},
      {"aten::arange", {"s", kw("dtype", kFloat)}},
      {"aten::arange", {5}},
      {"aten::arange", {5.5}},
      {"aten::arange.start", {1, "s+1"}},
      {"aten::arange.start", {"s", "2*s+1"}},
      {"aten::arange.start", {0.5, 4}},
      {"aten::arange.start_step", {0, "s", 2}},
      {"aten::arange.start_step", {0, "s", 2, kw("dtype", kLong)}},
      {"aten::arange.start_step", {"s", -1, -1}},
      {"aten::arange.start_step", {"s", -1, -3}},
      {"aten::arange.start_step", {0, 1, 0.1}},
      {"aten::arange.start_step", {0.0, "s", 2.0}},
      Case("aten::arange.start", {4, 2}).refused("leads away from the end"),
      {"aten::range", {0, 4}},
      {"aten::range.step", {0, "s", 2}},
      {"aten::range.step", {0.0, 1.0, 0.3}},
      {"aten::hann_window", {7}},
      {"aten::hamming_window.periodic", {7, false}},
      {"aten::linspace", {0.0, 1.0, 7}},
      {"aten::linspace", {0, 10, 5, kw("dtype", kLong)}},
      {"aten::logspace", {0.0, 1.0, 7}},
  };
}
INSTANTIATE_TEST_SUITE_P(Ranges, ShapeOracle, testing::ValuesIn(ranges()), case_name);

std::vector<Case> triangles() {
  std::vector<Case> cases{
      Case("aten::tril", {t("b s s")}).all_layouts(),
      Case("aten::triu", {t("s n"), 1}).all_layouts(),
      {"aten::triu", {t("s s").dtype(kBool), "s"}},
      {"aten::triu_", {t("s s"), 1}},
      Case("aten::tril", {t("s")}).refused("rank 1, not 2 or more"),
  };
  for (const int rows : {0, 1, 3, 5}) {
    for (const int columns : {0, 1, 4, 5}) {
      for (const int offset : {-6, -2, -1, 0, 1, 3, 6}) {
        cases.push_back({"aten::tril_indices", {rows, columns, offset}});
        cases.push_back({"aten::triu_indices", {rows, columns, offset}});
      }
    }
  }
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Triangles, ShapeOracle, testing::ValuesIn(triangles()), case_name);

std::vector<Case> like_another() {
  std::vector<Case> cases;
  for (const char* op :
       {"aten::empty_like", "aten::zeros_like", "aten::ones_like", "aten::rand_like", "aten::randn_like"}) {
    cases.push_back(Case(op, {t("b s 8")}).all_layouts().dtypes({kHalf}));
    cases.push_back(Case(op, {t("b 3 s w")}).all_layouts());
    cases.push_back(
        Case(op, {t("b s 8"), kw("dtype", kDouble), kw("memory_format", c10::MemoryFormat::Contiguous)}).all_layouts());
  }
  for (const char* op : {"aten::new_empty", "aten::new_zeros", "aten::new_ones"}) {
    cases.push_back(Case(op, {t("b s").dtype(kHalf), list("s", 4)}));
    cases.push_back(Case(op, {t("b s").transposed(0, 1), list("b", "s"), kw("dtype", kLong)}));
  }
  const std::vector<Case> more = {
      Case("aten::full_like", {t("b s 8"), 1}).all_layouts(),
      {"aten::full_like", {t("b s").dtype(kLong), 1.5}},
      {"aten::randint_like", {t("b s").dtype(kLong), 10}},
      {"aten::new_full", {t("b s").dtype(kHalf), list("s"), 1}},
      {"aten::new_empty_strided", {t("b s"), list("b", "s"), list(1, "b")}},
      {"aten::empty_like", {t("b 3 s w"), kw("memory_format", c10::MemoryFormat::ChannelsLast)}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}
INSTANTIATE_TEST_SUITE_P(LikeAnother, ShapeOracle, testing::ValuesIn(like_another()), case_name);

}  // namespace
}  // namespace exporters::oracle
