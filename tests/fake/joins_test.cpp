#include "dtypes.h"
#include "oracle.h"

namespace exporters::oracle {
namespace {

std::vector<Case> joins() {
  return {
      Case("aten::cat", {list(t("b s 8"), t("b s 8")), -1}).all_layouts().dtypes({kHalf}),
      Case("aten::cat", {list(t("b s 8"), t("b n 8"), t("b 1 8")), 1}).all_layouts(),
      Case("aten::cat", {list(t("b 3 s w"), t("b 5 s w")), 1}).all_layouts(),
      {"aten::cat", {list(t("b 3 s w").channels_last(), t("b 5 s w").channels_last()), 1}},
      {"aten::cat", {list(t("s").dtype(kLong), t("n")), 0}},
      {"aten::cat", {list(t("s").dtype(kHalf), t("n").dtype(kBFloat16)), 0}},
      {"aten::cat", {list(t("0"), t("b s")), 1}},
      {"aten::cat", {list(t("s"))}},
      {"aten::concat", {list(t("b s"), t("b 2")), 1}},
      {"aten::concatenate", {list(t("b s"), t("b 2")), 1}},
      Case("aten::cat", {list(t("a s"), t("b s")), 1}).sample("a", 4).sample("b", 4).binds({"b"}),
      Case("aten::cat", {list(t("3 s"), t("4 s")), 1}).refused("sizes 3 and 4 of axis 0 differ"),
      Case("aten::cat", {list(t(""), t(""))}).refused("Use stack"),
      Case("aten::stack", {list(t("b s"), t("b s")), 1}).all_layouts(),
      {"aten::stack", {list(t("b s"), t("b s")), -1}},
      {"aten::stack", {list(t(""), t(""), t("").dtype(kLong))}},
      {"aten::hstack", {list(t("b s"), t("b 2"))}},
      {"aten::vstack", {list(t("b s"), t("2 s"))}},
      {"aten::dstack", {list(t("b s"), t("b s"))}},
      {"aten::column_stack", {list(t("b"), t("b"))}},
      {"aten::block_diag", {list(t("s 3"), t("n"), t(""))}},
      {"aten::block_diag", {list(t("2 3"), t("4 5"))}},
  };
}
INSTANTIATE_TEST_SUITE_P(Joins, ShapeOracle, testing::ValuesIn(joins()), case_name);

std::vector<Case> repeats() {
  return {
      Case("aten::repeat", {t("b s 8"), list(1, 2, 1)}).all_layouts(),
      {"aten::repeat", {t("s"), list("b", 3)}},
      {"aten::repeat", {t(""), list(3)}},
      {"aten::tile", {t("b s"), list(2)}},
      {"aten::tile", {t("s"), list(2, "b", 1)}},
      Case("aten::repeat_interleave.self_int", {t("b s 8"), 2, 1}).all_layouts(),
      {"aten::repeat_interleave.self_int", {t("b s"), 3}},
      {"aten::repeat_interleave.self_int", {t("b s"), "s", 0}},
      Case("aten::roll", {t("b s 8"), list(1), list(1)}).all_layouts(),
      Case("aten::roll", {t("b 3 s w"), list(1, -1), list(2, 3)}).all_layouts().view_depends_on_ones(),
      {"aten::roll", {t("b s"), list(2)}},
      Case("aten::flip", {t("b s 8"), list(1)}).all_layouts(),
      Case("aten::flip", {t("b 3 s w"), list(2, -1)}).all_layouts(),
      {"aten::fliplr", {t("b s")}},
      Case("aten::rot90", {t("b s")}).all_layouts(),
      {"aten::rot90", {t("b s 8"), 2, list(1, 2)}},
      Case("aten::rot90", {t("b s 8"), -1, list(0, 2)}).all_layouts(),
      Case("aten::rot90", {t("b s"), 4}).all_layouts(),
      {"aten::meshgrid", {list(t("s"), t("n"))}},
      {"aten::meshgrid.indexing", {list(t("s"), t("n"), t("4")), kw("indexing", "ij")}},
      {"aten::meshgrid.indexing", {list(t("s"), t("n"), t("4")), kw("indexing", "xy")}},
      {"aten::cartesian_prod", {list(t("s"), t("n"))}},
      {"aten::kron", {t("s n"), t("2 3")}},
  };
}
INSTANTIATE_TEST_SUITE_P(Repeats, ShapeOracle, testing::ValuesIn(repeats()), case_name);

std::vector<Case> pads() {
  return {
      Case("aten::constant_pad_nd", {t("b s 8"), list(1, 2)}).all_layouts(),
      Case("aten::constant_pad_nd", {t("b 3 s w"), list(1, 2, 0, 3), 0.5}).all_layouts(),
      {"aten::constant_pad_nd", {t("b s 8"), list(0, 0)}},
      {"aten::constant_pad_nd", {t("b s+2 8"), list(0, 0, -1, -1)}},
      {"aten::constant_pad_nd", {t("b s"), list(0, "b")}},
      Case("aten::pad", {t("b 3 s w"), list(1, 1, 2, 2)}).all_layouts(),
      {"aten::pad", {t("b s 8"), list(2, 1), "replicate"}},
      {"aten::pad", {t("b s 8"), list(2, 1), "reflect"}},
      Case("aten::pad", {t("b 3 8 8"), list(2, 1, 1, 1), "reflect"}).all_layouts(),
      Case("aten::pad", {t("b 3 s w"), list(2, 1, 1, 1), "replicate"}).all_layouts(),
      Case("aten::pad", {t("b 3 4 8 8"), list(2, 1, 1, 1, 1, 1), "replicate"}).all_layouts(),
      Case("aten::pad", {t("b 3 4 8 8"), list(2, 1, 1, 1, 1, 1), "reflect"}).all_layouts(),
      Case("aten::pad", {t("b s 8"), list(2, 1), "circular"}).all_layouts(),
      {"aten::pad", {t("b 3 s w"), list(1, 1, 1, 1), "circular"}},
      Case("aten::constant_pad_nd", {t("b 3"), list(-2, -2)}).refused("removes more than there is"),
      Case("aten::constant_pad_nd", {t("b 3"), list(1)}).refused("does not fit"),
  };
}
INSTANTIATE_TEST_SUITE_P(Pads, ShapeOracle, testing::ValuesIn(pads()), case_name);

}  // namespace
}  // namespace exporters::oracle
