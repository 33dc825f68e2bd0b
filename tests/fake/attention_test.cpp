#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

const std::vector<ScalarType> kFloats = {ScalarType::Double, ScalarType::BFloat16, ScalarType::Half};
const char* const kOp = "aten::scaled_dot_product_attention";

// (batch, heads, length, features) over memory of (batch, length, heads, features): what a projection gives.
TensorArg heads(const std::string& sizes) { return t(sizes).transposed(1, 2); }
TensorArg mask(const std::string& sizes) { return t(sizes).dtype(ScalarType::Bool); }
TensorArg bias(const std::string& sizes) { return t(sizes); }

std::vector<Case> attention() {
  return {
      Case(kOp, {t("b 3 l 8"), t("b 3 s 8"), t("b 3 s 8")}).all_layouts().dtypes(kFloats),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8")}).dtypes(kFloats),
      Case(kOp, {heads("b 3 l 8"), t("b 3 s 8"), t("b 3 s 8")}),
      Case(kOp, {heads("b 3 s 8"), heads("b 3 s 8"), heads("b 3 s 8"), mask("b 1 1 s")}).dtypes(kFloats),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), mask("b 1 l s")}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), mask("b 3 l s")}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), mask("1 1 l s")}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), mask("l s")}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), bias("1 s")}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), bias("b 1 l s")}).dtypes(kFloats),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), bias("b 3 l s").expanded(1)}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), bias("3 l s")}),
      Case(kOp, {heads("b 3 l 8").dtype(ScalarType::BFloat16), heads("b 3 s 8").dtype(ScalarType::BFloat16),
                 heads("b 3 s 8").dtype(ScalarType::BFloat16), bias("l s")}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), none, 0.0, true}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), none, 0.0, false, kw("scale", 0.5)}),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), none, 0.1}),
      // Grouped heads.
      Case(kOp, {heads("b 6 l 8"), heads("b 3 s 8"), heads("b 3 s 8"), none, 0.0, false, kw("enable_gqa", true)})
          .dtypes(kFloats),
      Case(kOp,
           {heads("b 6 l 8"), heads("b 2 s 8"), heads("b 2 s 8"), mask("b 1 l s"), 0.0, false, kw("enable_gqa", true)}),
      Case(kOp, {heads("b 6 l 8"), heads("b 3 s 8"), heads("b 2 s 8"), none, 0.0, false, kw("enable_gqa", true)}),
      Case(kOp, {heads("b 6 l 8"), heads("b 4 s 8"), heads("b 4 s 8"), none, 0.0, false, kw("enable_gqa", true)})
          .refused("6"),
      Case(kOp, {heads("b 6 l 8"), heads("b 3 s 8"), heads("b 3 s 8")}).refused("6"),
      // The plain path: other ranks, other feature sizes, broadcast batches, features not side by side.
      Case(kOp, {t("b l 8"), t("b s 8"), t("b s 8")}).all_layouts(),
      Case(kOp, {t("l 8"), t("s 8"), t("s 8")}).all_layouts(),
      Case(kOp, {t("2 b 3 l 8"), t("2 b 3 s 8"), t("2 b 3 s 8")}).all_layouts(),
      Case(kOp, {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 5")}),
      Case(kOp, {heads("1 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8")}).view_depends_on_ones(),
      Case(kOp, {heads("b 3 l 8"), heads("1 3 s 8"), heads("1 3 s 8")}).view_depends_on_ones(),
      Case(kOp, {heads("b 3 l 8"), heads("b 1 s 8"), heads("b 1 s 8")}),
      Case(kOp, {t("b 3 l 8").transposed(2, 3), heads("b 3 s 8"), heads("b 3 s 8")}),
      // Symbolic heads and features.
      Case(kOp, {heads("b n l d"), heads("b n s d"), heads("b n s d"), mask("b 1 l s")}),
      // Refused, as the op does.
      Case(kOp, {t("b 3 l 8"), t("b 3 s 8"), t("b 3 s 8"), t("l s").dtype(ScalarType::Long)}).refused("Long"),
      Case(kOp, {t("b 3 l 8"), t("b 3 s 8").dtype(ScalarType::Double), t("b 3 s 8")}).refused("Double"),
      Case(kOp, {t("b 3 l 8"), t("b 3 s 8"), t("b 3 s 8"), t("s")}).refused("rank 1"),
      Case(kOp, {t("b 3 l 8"), t("b 3 s 8"), t("b 3 s 8"), t("1 b 3 l s")}).refused("rank 5"),
      Case(kOp, {t("b 3 l 8"), t("b 3 s 9"), t("b 3 s 9")}).refused("8"),
  };
}

INSTANTIATE_TEST_SUITE_P(Attention, ShapeOracle, testing::ValuesIn(attention()), case_name);

std::vector<Case> attention_parts() {
  return {
      Case("aten::_scaled_dot_product_flash_attention_for_cpu", {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8")})
          .dtypes(kFloats),
      Case("aten::_scaled_dot_product_flash_attention_for_cpu",
           {t("b 6 l 8"), t("b 3 s 8"), t("b 3 s 8"), kw("attn_mask", bias("b 1 l s"))}),
      Case("aten::_scaled_dot_product_attention_math", {heads("b 3 l 8"), heads("b 3 s 8"), heads("b 3 s 8")})
          .dtypes(kFloats),
      Case("aten::_scaled_dot_product_attention_math",
           {t("b 6 l 8"), t("b 3 s 8"), t("b 3 s 8"), kw("enable_gqa", true)}),
  };
}

INSTANTIATE_TEST_SUITE_P(AttentionParts, ShapeOracle, testing::ValuesIn(attention_parts()), case_name);

}  // namespace
}  // namespace exporters::oracle
