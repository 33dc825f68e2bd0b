#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

std::vector<Case> interpolation() {
  return {
      Case("aten::upsample_nearest1d", {t("b 4 s"), list(7)}).all_layouts().guards({"s >= 1"}),
      Case("aten::upsample_nearest2d", {t("b 4 h w"), list(7, "w")}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_nearest2d.vec", {t("b 4 h w"), none, list(2.0, 3.0)})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_nearest2d.vec", {t("b 4 h w"), none, list(1.5, 1.1)}).guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_nearest2d.vec", {t("b 4 h w"), list(5, 6), none}).guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_nearest3d", {t("b 4 d h w"), list(4, 5, 6)})
          .all_layouts()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::_upsample_nearest_exact1d.vec", {t("b 4 s"), none, list(2.5)}).guards({"s >= 1"}),
      Case("aten::_upsample_nearest_exact2d", {t("b 4 h w"), list(7, 5)}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::_upsample_nearest_exact3d.vec", {t("b 4 d h w"), none, list(2.0, 2.0, 2.0)})
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::upsample_linear1d", {t("b 4 s"), list(7), false}).all_layouts().guards({"s >= 1"}),
      Case("aten::upsample_bilinear2d", {t("b 4 h w"), list("2*h", 5), true})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_bilinear2d.vec", {t("b 4 h w"), none, false, list(1.3, 2.0)}).guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_bicubic2d", {t("b 4 h w"), list(3, 5), false}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_bicubic2d.vec", {t("b 4 h w"), list("h", "w"), false, none})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_trilinear3d", {t("b 4 d h w"), list(3, 5, 7), false})
          .all_layouts()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::_upsample_bilinear2d_aa", {t("b 4 h w"), list(3, 5), false})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::_upsample_bicubic2d_aa.vec", {t("b 4 h w"), list(3, 5), false, none})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::upsample_nearest2d.vec", {t("b 4 h w"), none, none}).refused("exactly one"),
      Case("aten::upsample_nearest2d", {t("4 h w"), list(7, 7)}).refused("rank 3"),
  };
}

INSTANTIATE_TEST_SUITE_P(Interpolation, ShapeOracle, testing::ValuesIn(interpolation()), case_name);

std::vector<Case> grids() {
  return {
      Case("aten::grid_sampler", {t("b 4 h w"), t("b n m 2"), 0, 0, false}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::grid_sampler_2d", {t("b 4 h w"), t("b n m 2"), 2, 1, true})
          .all_layouts()
          .guards({"h >= 1", "w >= 1"}),
      Case("aten::grid_sampler_3d", {t("b 4 d h w"), t("b 2 n m 3"), 0, 0, false})
          .all_layouts()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::grid_sampler", {t("b 4 h w"), t("b n m 3"), 0, 0, false}).refused("3"),
      Case("aten::affine_grid_generator", {t("b 2 3"), list("b", 3, 4, 5), false}),
      Case("aten::affine_grid_generator", {t("b 3 4"), list("b", 3, 2, 4, 5), false}),
  };
}

INSTANTIATE_TEST_SUITE_P(Grids, ShapeOracle, testing::ValuesIn(grids()), case_name);

Case padded(Case value) {
  for (const char* name : {"d", "h", "w", "s"}) {
    value = value.at_least(name, 2);
  }
  return value;
}

std::vector<Case> border_padding() {
  return {
      padded(Case("aten::reflection_pad1d", {t("b 4 s"), list(1, 1)})).all_layouts(),
      padded(Case("aten::reflection_pad2d", {t("b 4 h w"), list(1, 1, 1, 1)})).all_layouts(),
      padded(Case("aten::reflection_pad3d", {t("b 4 d h w"), list(1, 0, 1, 1, 1, 1)})).all_layouts(),
      Case("aten::replication_pad1d", {t("b 4 s"), list(2, 1)}).all_layouts().guards({"s >= 1"}),
      Case("aten::replication_pad2d", {t("b 4 h w"), list(2, 1, 0, 3)}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::replication_pad3d", {t("b 4 d h w"), list(2, 1, 0, 3, 1, 1)})
          .all_layouts()
          .guards({"d >= 1", "h >= 1", "w >= 1"}),
      Case("aten::replication_pad2d", {t("4 h w"), list(2, 1, 0, 3)}).all_layouts().guards({"h >= 1", "w >= 1"}),
      Case("aten::reflection_pad1d", {t("b 4 3"), list(3, 1)}).refused("3"),
  };
}

INSTANTIATE_TEST_SUITE_P(BorderPadding, ShapeOracle, testing::ValuesIn(border_padding()), case_name);

}  // namespace
}  // namespace exporters::oracle
