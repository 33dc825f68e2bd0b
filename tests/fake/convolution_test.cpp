#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

std::vector<Case> convolution() {
  return {
      Case("aten::conv2d", {t("b 4 h w"), t("6 4 3 3"), t("6"), list(1, 1), list(1, 1)})
          .all_layouts()
          .dtypes({ScalarType::Double, ScalarType::BFloat16})
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::conv2d", {t("b 3 h w"), t("8 3 2 2"), none, list(2, 2)})
          .all_layouts()
          .at_least("h", 2)
          .at_least("w", 2),
      Case("aten::conv2d", {t("b 4 h w"), t("6 4 3 3"), none, 1, list(2, 2), list(2, 2)})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::conv2d", {t("b 4 h w"), t("8 2 3 3"), none, 2, 1, 1, 2}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::conv2d", {t("b 4 h w"), t("4 1 3 3"), none, 1, 1, 1, 4}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::conv2d", {t("b 4 h w"), t("6 4 1 1")}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::conv2d", {t("4 h w"), t("6 4 3 3"), none, 1, 1}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::conv2d.padding", {t("b 4 h w"), t("6 4 3 3"), none, 1, "same"}).all_layouts(),
      Case("aten::conv2d.padding", {t("b 4 h w"), t("6 4 1 1"), none, 1, "valid"})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::conv1d", {t("b 4 s"), t("6 4 3"), t("6"), 1, 1})
          .all_layouts()
          .dtypes({ScalarType::Double})
          .guards({"s >= 1"}),
      Case("aten::conv1d", {t("b 4 s"), t("6 4 1")}).all_layouts().guards({"s >= 1"}),
      Case("aten::conv1d", {t("b 4 s"), t("6 4 3"), none, 2, 1}).all_layouts().guards({"s >= 1"}),
      Case("aten::conv1d", {t("4 s"), t("6 4 3"), none, 1, 1}).all_layouts().guards({"s >= 1"}),
      Case("aten::conv1d", {t("b 4 s"), t("4 1 3"), none, 1, 1, 1, 4}).all_layouts().guards({"s >= 1"}),
      Case("aten::conv1d.padding", {t("b 4 s"), t("6 4 4"), none, 1, "same"}),
      Case("aten::conv3d", {t("b 4 d h w"), t("6 4 1 1 1")})
          .dtypes({ScalarType::Double})
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::conv3d", {t("b 3 d h w"), t("6 3 3 3 3"), none, 1, 1})
          .all_layouts()
          .view_depends_on_ones()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::convolution",
           {t("b 4 h w"), t("6 4 3 3"), none, list(1, 1), list(1, 1), list(1, 1), false, list(0, 0), 1})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::conv2d", {t("b 4 h w"), t("6 3 3 3"), none, 1, 1}).refused("4"),
      Case("aten::conv2d", {t("b 4 h w"), t("6 4 3 3").dtype(ScalarType::Double), none, 1, 1}).refused("Double"),
      Case("aten::conv2d", {t("b 4 2 w"), t("6 4 3 3")}).refused("3"),
      Case("aten::conv2d.padding", {t("b 4 h w"), t("6 4 3 3"), none, 2, "same"}).refused("stride"),
      Case("aten::conv2d", {t("b 4 h w"), t("6 4 3 3"), t("5"), 1, 1}).refused("6"),
  };
}

INSTANTIATE_TEST_SUITE_P(Convolution, ShapeOracle, testing::ValuesIn(convolution()), case_name);

std::vector<Case> transposed_convolution() {
  return {
      Case("aten::conv_transpose1d", {t("b 4 s"), t("4 6 3"), t("6"), 2}).all_layouts().view_depends_on_ones(),
      Case("aten::conv_transpose2d.input", {t("b 4 h w"), t("4 6 3 3"), none, 2, 1, 1})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::conv_transpose2d.input", {t("b 4 h w"), t("4 3 3 3"), none, 2, 0, 0, 2, 2})
          .all_layouts()
          .dtypes({ScalarType::Double}),
      Case("aten::conv_transpose3d.input", {t("b 4 d h w"), t("4 6 2 2 2"), none, 2})
          .all_layouts()
          .view_depends_on_ones()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::convolution",
           {t("b 4 h w"), t("4 6 3 3"), none, list(1, 1), list(0, 0), list(1, 1), true, list(0, 0), 1}),
      Case("aten::conv_transpose2d.input", {t("b 4 h w"), t("5 6 3 3")}).refused("4"),
  };
}

INSTANTIATE_TEST_SUITE_P(TransposedConvolution, ShapeOracle, testing::ValuesIn(transposed_convolution()), case_name);

}  // namespace
}  // namespace exporters::oracle
