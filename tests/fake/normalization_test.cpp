#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

const std::vector<ScalarType> kFloats = {ScalarType::Double, ScalarType::BFloat16, ScalarType::Half};

std::vector<Case> layer_norm() {
  return {
      Case("aten::layer_norm", {t("b s 8"), list(8), t("8"), t("8")}).all_layouts().dtypes(kFloats),
      Case("aten::layer_norm", {t("b s 8"), list(8)}).all_layouts(),
      Case("aten::layer_norm", {t("b s h"), list("h"), t("h"), t("h")}).all_layouts(),
      Case("aten::layer_norm", {t("b c 4 8"), list(4, 8), t("4 8")}).all_layouts(),
      Case("aten::layer_norm", {t("b s 8").dtype(ScalarType::BFloat16), list(8), t("8"), t("8")}),
      Case("aten::native_layer_norm", {t("b s 8"), list(8), t("8"), t("8"), 1e-5}).all_layouts().dtypes(kFloats),
      Case("aten::native_layer_norm", {t("b s 4 8"), list(4, 8), none, none, 1e-5}).all_layouts(),
      Case("aten::native_layer_norm", {t("b s 8").dtype(ScalarType::BFloat16), list(8), t("8"), none, 1e-5}),
      Case("aten::layer_norm", {t("b s 8").dtype(ScalarType::Long), list(8)}).refused("Long"),
      Case("aten::layer_norm", {t("b s 8"), list(8), t("8").dtype(ScalarType::Double)}).refused("weight Double"),
      Case("aten::layer_norm", {t("b s 8"), list(7)}).refused("8"),
      Case("aten::layer_norm", {t("b s 8"), list(8), t("1 8")}).refused("rank 2"),
  };
}

INSTANTIATE_TEST_SUITE_P(LayerNorm, ShapeOracle, testing::ValuesIn(layer_norm()), case_name);

std::vector<Case> rms_norm() {
  return {
      Case("aten::rms_norm", {t("b s 8"), list(8), t("8"), 1e-6}).all_layouts().dtypes(kFloats),
      Case("aten::rms_norm", {t("b s 8"), list(8)}).all_layouts(),
      Case("aten::rms_norm", {t("b s 4 8"), list(8), t("8")}).all_layouts(),
      Case("aten::rms_norm", {t("b s 8").dtype(ScalarType::BFloat16), list(8), t("8")}).all_layouts(),
      Case("aten::_fused_rms_norm", {t("b s 4 8"), list(8), t("8"), 1e-6}).all_layouts().dtypes(kFloats),
  };
}

INSTANTIATE_TEST_SUITE_P(RmsNorm, ShapeOracle, testing::ValuesIn(rms_norm()), case_name);

std::vector<Case> group_norm() {
  return {
      Case("aten::group_norm", {t("b 6 h w"), 3, t("6"), t("6")}).all_layouts().dtypes(kFloats),
      Case("aten::group_norm", {t("b 6 s"), 2}).all_layouts(),
      Case("aten::group_norm", {t("b 6 2 h w"), 2, t("6")}).all_layouts(),
      Case("aten::group_norm", {t("b 6 h w").dtype(ScalarType::BFloat16), 3, t("6"), t("6")}),
      Case("aten::group_norm", {t("b 6 h w"), 4}).refused("6"),
      Case("aten::native_group_norm", {t("b 6 h w"), t("6"), t("6"), "b", 6, "h*w", 3, 1e-5}).dtypes(kFloats),
      Case("aten::native_group_norm", {t("b 6 h w").dtype(ScalarType::BFloat16), t("6"), none, "b", 6, "h*w", 3, 1e-5}),
  };
}

INSTANTIATE_TEST_SUITE_P(GroupNorm, ShapeOracle, testing::ValuesIn(group_norm()), case_name);

std::vector<Case> batch_norm() {
  return {
      Case("aten::batch_norm", {t("b 6 h w"), t("6"), t("6"), t("6"), t("6"), false, 0.1, 1e-5, false})
          .all_layouts()
          .dtypes(kFloats),
      Case("aten::batch_norm", {t("b 6 h w"), none, none, t("6"), t("6"), false, 0.1, 1e-5, false}).all_layouts(),
      Case("aten::batch_norm", {t("b 6 s"), t("6"), t("6"), t("6"), t("6"), false, 0.1, 1e-5, false}).all_layouts(),
      Case("aten::batch_norm", {t("b 6"), t("6"), t("6"), t("6"), t("6"), false, 0.1, 1e-5, false}).all_layouts(),
      Case("aten::batch_norm", {t("b 6 d h w"), t("6"), t("6"), t("6"), t("6"), false, 0.1, 1e-5, false}).all_layouts(),
      Case("aten::batch_norm", {t("b 6 h w"), t("6"), t("6"), t("6"), t("6"), true, 0.1, 1e-5, false})
          .refused("training mode"),
      Case("aten::batch_norm", {t("b 6 h w"), t("6"), t("6"), none, none, false, 0.1, 1e-5, false})
          .refused("training mode"),
      Case("aten::native_batch_norm", {t("b 6 h w"), t("6"), t("6"), t("6"), t("6"), false, 0.1, 1e-5}).all_layouts(),
      Case("aten::_native_batch_norm_legit_no_training", {t("b 6 h w"), t("6"), t("6"), t("6"), t("6"), 0.1, 1e-5}),
      Case("aten::instance_norm", {t("b 6 h w"), t("6"), t("6"), none, none, true, 0.1, 1e-5, false})
          .all_layouts()
          .at_least("h", 2),
      Case("aten::instance_norm", {t("b 6 s"), none, none, t("6"), t("6"), false, 0.1, 1e-5, false}).all_layouts(),
  };
}

INSTANTIATE_TEST_SUITE_P(BatchNorm, ShapeOracle, testing::ValuesIn(batch_norm()), case_name);

}  // namespace
}  // namespace exporters::oracle
