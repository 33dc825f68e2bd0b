#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

Case wide(Case value) {
  for (const char* name : {"d", "h", "w", "s"}) {
    value = value.at_least(name, 2);
  }
  return value;
}

std::vector<Case> pooling() {
  return {
      wide(Case("aten::max_pool1d", {t("b 4 s"), 2})).all_layouts(),
      wide(Case("aten::max_pool1d_with_indices", {t("b 4 s"), 2})).all_layouts(),
      Case("aten::max_pool2d", {t("b 4 h w"), 3, 2, 1})
          .all_layouts()
          .dtypes({ScalarType::BFloat16})
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::max_pool2d", {t("b 4 h w"), 3, 2, 1, 1, true}).all_layouts(),
      Case("aten::max_pool2d", {t("4 h w"), 3, 2, 1, 1, true}).all_layouts(),
      Case("aten::max_pool2d_with_indices", {t("b 4 h w"), list(3, 3), list(1, 2), 1})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::max_pool3d", {t("b 4 d h w"), 3, 2, 1}).all_layouts().guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::max_pool3d_with_indices", {t("b 4 d h w"), 3, 2, 1, 1, true}).all_layouts(),
      wide(Case("aten::avg_pool1d", {t("b 4 s"), 2, 2, 0, true})).all_layouts(),
      Case("aten::avg_pool2d", {t("b 4 h w"), 3, 2, 1}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::avg_pool2d", {t("b 4 h w"), 2, 2, 0, true}).all_layouts().guards({"h >= 1", "w >= 1"}),
      wide(Case("aten::avg_pool3d", {t("b 4 d h w"), 2, 2, 1})).all_layouts(),
      Case("aten::adaptive_avg_pool1d", {t("b 4 s"), 3}).all_layouts().guards({"s >= 1"}),
      Case("aten::adaptive_avg_pool2d", {t("b 4 h w"), list(1, 1)}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::adaptive_avg_pool2d", {t("b 4 h w"), list(3, "h")}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::adaptive_avg_pool3d", {t("b 4 d h w"), list(2, 2, 2)})
          .all_layouts()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::adaptive_avg_pool3d", {t("b 4 d h w"), list(1, 1, 1)})
          .all_layouts()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::adaptive_max_pool1d", {t("b 4 s"), 3}).all_layouts().guards({"s >= 1"}),
      Case("aten::adaptive_max_pool2d", {t("b 4 h w"), list(3, 2)}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::adaptive_max_pool3d", {t("b 4 d h w"), list(3, 2, 1)})
          .all_layouts()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::max_pool2d", {t("b 4 h w"), 3, 2, 2}).refused("padding"),
      Case("aten::avg_pool2d", {t("b 4 2 w"), 3}).refused("2 is not at least 3"),
  };
}

INSTANTIATE_TEST_SUITE_P(Pooling, ShapeOracle, testing::ValuesIn(pooling()), case_name);

std::vector<Case> pixels() {
  return {
      Case("aten::pixel_shuffle", {t("b 8 h w"), 2}).all_layouts(),
      Case("aten::pixel_unshuffle", {t("b 3 2*h 2*w"), 2}).all_layouts(),
      Case("aten::pixel_shuffle", {t("b 6 h w"), 2}).refused("4"),
      Case("aten::channel_shuffle", {t("b 6 h w"), 3}).all_layouts(),
      Case("aten::im2col", {t("b 4 h w"), list(3, 3), list(1, 1), list(1, 1), list(2, 1)})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::im2col", {t("4 h w"), list(3, 3), list(1, 1), list(1, 1), list(2, 1)})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::col2im", {t("b 12 (h+1)*w"), list("h+1", "w"), list(1, 1), list(1, 1), list(0, 0), list(1, 1)})
          .guards({"w >= 1"}),
      Case("aten::col2im", {t("b 12 s"), list(5, 6), list(2, 2), list(1, 1), list(0, 0), list(1, 1)})
          .sample("s", 20)
          .binds({"s"}),
  };
}

INSTANTIATE_TEST_SUITE_P(Pixels, ShapeOracle, testing::ValuesIn(pixels()), case_name);

}  // namespace
}  // namespace exporters::oracle
