#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

// Ends of three groups along an axis of that size: increasing, the last one its end.
TensorArg offsets(const std::string& end) { return t("3").dtype(ScalarType::Int).values(end, end + "+1"); }
TensorArg index(const std::string& sizes, const std::string& high) {
  return t(sizes).dtype(ScalarType::Long).values("0", high);
}

std::vector<Case> grouped_products() {
  return {
      Case("aten::_grouped_mm", {t("n 8"), t("3 8 16"), offsets("n")}).dtypes({ScalarType::BFloat16}),
      Case("aten::_grouped_mm", {t("n 8"), t("3 8 m").transposed(1, 2), offsets("n")})
          .dtypes({ScalarType::BFloat16, ScalarType::Half}),
      Case("aten::_grouped_mm", {t("g n 8"), t("g 8 m").transposed(1, 2)}).dtypes({ScalarType::BFloat16}),
      Case("aten::_grouped_mm", {t("3 n 8"), t("8 12"), offsets("12")}),
      Case("aten::_grouped_mm", {t("n 8"), t("8 12"), offsets("8")}),
      Case("aten::_grouped_mm", {t("n 8"), t("3 8 16")}).refused("offs"),
      Case("aten::_grouped_mm", {t("n 8"), t("3 4 16"), offsets("n")}).refused("8 is not equal to 4"),
      Case("aten::_grouped_mm", {t("n 8"), t("2 8 16"), offsets("n")}).refused("3 is not equal to 2"),
      Case("aten::_grouped_mm", {t("n 6"), t("3 6 16"), offsets("n")}).refused("6 is not a multiple of 4"),
      Case("aten::_grouped_mm", {t("n 8"), t("3 8 16").dtype(ScalarType::BFloat16), offsets("n")}).refused("BFloat16"),
  };
}

INSTANTIATE_TEST_SUITE_P(GroupedProducts, ShapeOracle, testing::ValuesIn(grouped_products()), case_name);

std::vector<Case> bags() {
  std::vector<Case> cases;
  for (const int mode : {0, 1, 2}) {
    cases.push_back(
        Case("aten::embedding_bag", {t("9 8"), index("n", "9"), index("1", "1"), false, mode}).all_layouts());
    cases.push_back(
        Case("aten::_embedding_bag", {t("9 8"), index("n", "9"), index("1", "1"), false, mode, false, none, false, 2}));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Bags, ShapeOracle, testing::ValuesIn(bags()), case_name);

}  // namespace
}  // namespace exporters::oracle
