#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

TensorArg ints(const std::string& sizes, const std::string& high = "4") {
  return t(sizes).dtype(ScalarType::Long).values("0", high);
}
TensorArg mask(const std::string& sizes) { return t(sizes).dtype(ScalarType::Bool); }

std::vector<Case> data_sized() {
  return {
      Case("aten::nonzero", {mask("b s")}).all_layouts(),
      Case("aten::nonzero", {ints("b s 3")}).all_layouts(),
      Case("aten::nonzero", {mask("")}),
      Case("aten::argwhere", {mask("b s")}).all_layouts(),
      Case("aten::nonzero_static", {mask("b s"), kw("size", 6)}).all_layouts(),
      Case("aten::masked_select", {t("b s 5"), mask("b s 5")}).all_layouts(),
      Case("aten::masked_select", {t("b s 5"), mask("s 1")}).all_layouts(),
      Case("aten::masked_select", {t("b s"), ints("b s")}).refused("Long"),
      Case("aten::masked_scatter", {t("b s 5"), mask("b s 1"), t("b s 5")}).all_layouts(),
      Case("aten::masked_scatter", {t("s 5"), mask("b s 1"), t("b s 5")}),
      Case("aten::_unique", {ints("b s"), true, true}).all_layouts(),
      Case("aten::_unique2", {ints("b s"), true, true, true}).all_layouts(),
      Case("aten::_unique2", {ints("b s")}),
      Case("aten::unique_dim", {ints("b s 3", "2"), 1, true, true, true}).all_layouts(),
      Case("aten::unique_dim", {ints("b s 3", "2"), 0}),
      Case("aten::unique_dim", {ints("b s 3", "2"), 2}),
      Case("aten::unique_consecutive", {ints("b s", "2"), true, true}).all_layouts(),
      Case("aten::unique_consecutive", {ints("b s", "2"), false, false}),
      Case("aten::unique_consecutive", {ints("b s 3", "2"), false, false, 2}).all_layouts(),
      Case("aten::unique_dim_consecutive", {ints("b s 3", "2"), 1, true, true}),
      Case("aten::bincount", {ints("s")}).all_layouts(),
      Case("aten::bincount", {ints("s"), none, 7}),
      Case("aten::bincount", {ints("s"), t("s")}),
      Case("aten::bincount", {ints("s"), ints("s")}),
      Case("aten::bincount", {ints("b s")}).refused("rank 2"),
      Case("aten::repeat_interleave.Tensor", {ints("s")}),
      Case("aten::repeat_interleave.Tensor", {ints("s").dtype(ScalarType::Int)}),
      Case("aten::repeat_interleave.self_Tensor", {t("b s 5"), ints("s"), 1}).all_layouts(),
      Case("aten::repeat_interleave.self_Tensor", {t("b s 5"), ints("1"), 1}),
      Case("aten::repeat_interleave.self_int", {t("b s 5"), 3, 1}).all_layouts(),
      Case("aten::repeat_interleave.self_int", {t("b s 5"), 2}),
      Case("aten::repeat_interleave.self_int", {t("b s 5"), 2, -1, kw("output_size", 10)}),
  };
}

INSTANTIATE_TEST_SUITE_P(DataSized, ShapeOracle, testing::ValuesIn(data_sized()), case_name);

std::vector<Case> answers() {
  return {
      Case("aten::item", {ints("1 1")}),
      Case("aten::item", {ints("").dtype(ScalarType::Byte)}),
      Case("aten::_local_scalar_dense", {ints("").dtype(ScalarType::Int)}),
      Case("aten::item", {t("")}).refused("data-dependent"),
      Case("aten::item", {mask("")}).refused("data-dependent"),
      Case("aten::item", {ints("2")}).refused("2 is not equal to 1"),
      Case("aten::is_nonzero", {mask("")}).refused("data-dependent"),
      Case("aten::allclose", {t("s"), t("s")}).refused("data-dependent"),
      Case("aten::equal", {t("b s"), t("b s")}).refused("data-dependent"),
      Case("aten::equal", {t("b 3"), t("b 4")}),
      Case("aten::equal", {t("b 3"), t("b 3 1")}),
      Case("aten::_assert_async", {ints("").values("1", "2")}),
      Case("aten::_assert_tensor_metadata", {t("b 3"), none, none, ScalarType::Float}),
      Case("aten::_assert_tensor_metadata", {t("b 3"), list("b", 3)}),
      Case("aten::_assert_tensor_metadata", {t("b 3"), none, none, ScalarType::Double}).refused("Float"),
      Case("aten::sym_size.int", {t("b s"), -1}),
      Case("aten::sym_stride.int", {t("b s").transposed(0, 1), 1}),
      Case("aten::sym_numel", {t("b s 3")}),
      Case("aten::sym_storage_offset", {t("b s").sliced(0)}),
      Case("aten::is_same_size", {t("b s"), t("b s")}),
      Case("aten::is_same_size", {t("b 2"), t("b 3")}),
  };
}

INSTANTIATE_TEST_SUITE_P(Answers, ShapeOracle, testing::ValuesIn(answers()), case_name);

}  // namespace
}  // namespace exporters::oracle
