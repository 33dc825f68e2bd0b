#include "dtypes.h"
#include "oracle.h"

#include <limits>

namespace exporters::oracle {
namespace {

std::vector<Case> reshapes() {
  const TensorArg heads = t("b s 24");
  return {
      {"aten::view", {heads, list("b", "s", 4, 6)}},
      {"aten::view", {heads, list("b", -1, 4, 6)}},
      {"aten::view", {heads, list(-1, 24)}},
      {"aten::view", {heads, list("b*s", 24)}},
      {"aten::view", {heads, list(-1)}},
      {"aten::view", {heads, list("b", "s", -1)}},
      {"aten::view", {heads, list(1, "b", "s", 24)}},
      {"aten::view", {heads.sliced(0), list("b", "s", 4, 6)}},
      {"aten::view", {heads.sliced(1), list("b", "s", 4, 6)}},
      {"aten::view", {heads.sliced(2), list("b", "s", 4, 6)}},
      {"aten::view", {heads.transposed(0, 1), list("b", "s", 4, 6)}},
      {"aten::view", {heads.transposed(1, 2), list("b", "s", 4, 6)}},
      {"aten::view", {heads.expanded(0), list("b", "s*24")}},
      {"aten::view", {t("b 2*s 8"), list("b", "s", 16)}},
      {"aten::view", {t("b 2*s 8"), list("b", 2, -1, 8)}},
      {"aten::view", {t(""), list(1, 1)}},
      {"aten::view", {t("1"), list()}},
      {"aten::view", {t("b s"), list("b", 1, 1, "s")}},
      {"aten::view", {t("b 1 s").transposed(0, 1), list("b", "s")}},
      Case("aten::view", {t("b s 8"), list("b", "s", 7)}).refused("don't fit"),
      Case("aten::view", {t("b s 8").transposed(0, 1), list("b*s", 8)}).refused("Use reshape"),
      Case("aten::view", {t("b s 8"), list(-1, -1)}).refused("more than one size"),
      // Only sizes that divide pass: the guard says so.
      Case("aten::view", {t("s 8"), list(-1, 2, 8)}).sample("s", 4).guards({"Eq(Mod(s, 2), 0)"}),
      {"aten::_unsafe_view", {heads, list("b*s", 24)}},
      {"aten::_reshape_alias", {heads, list("b*s", 24), list(24, 1)}},
      {"aten::view_as", {t("b s 8"), t("b 8 s")}},
      // reshape: a view where it can be one, else a copy
      Case("aten::reshape", {heads, list("b", -1, 4, 6)}).all_layouts().view_depends_on_ones(),
      Case("aten::reshape", {heads, list("b", "s*24")}).all_layouts().view_depends_on_ones(),
      Case("aten::reshape", {heads, list(-1, 24)}).all_layouts().view_depends_on_ones(),
      Case("aten::reshape", {t("b h s 8").transposed(1, 2), list("b", "s*8", "h")}).view_depends_on_ones(),
      Case("aten::reshape", {t("b s h 8").transposed(1, 2), list("b", "s", "h*8")}).view_depends_on_ones(),
      Case("aten::reshape_as", {t("b s 8").transposed(0, 1), t("b 8 s")}).view_depends_on_ones(),
      Case("aten::flatten.using_ints", {t("b s 8")}).all_layouts().view_depends_on_ones(),
      Case("aten::flatten.using_ints", {t("b 3 s w"), 2}).all_layouts().view_depends_on_ones(),
      {"aten::flatten.using_ints", {t("b 3 s w"), 1, 1}},
      {"aten::flatten.using_ints", {t("")}},
      Case("aten::ravel", {t("b s 8")}).all_layouts().view_depends_on_ones(),
      Case("aten::unflatten.int", {heads, -1, list(4, -1)}).all_layouts(),
      {"aten::unflatten.int", {t("b 2*s"), 1, list("s", 2)}},
      {"aten::unflatten.int", {t("b 2*s"), 1, list(-1, 2)}},
      {"aten::view.dtype", {t("b s 8"), kInt}},
      {"aten::view.dtype", {t("b s 8"), kHalf}},
      {"aten::view.dtype", {t("b s 8"), kDouble}},
      {"aten::view_as_real", {t("b s").dtype(kComplex)}},
      {"aten::view_as_complex", {t("b s 2")}},
  };
}
INSTANTIATE_TEST_SUITE_P(Reshapes, ShapeOracle, testing::ValuesIn(reshapes()), case_name);

std::vector<Case> axes() {
  return {
      Case("aten::transpose.int", {t("b s 8"), 1, 2}).all_layouts(),
      {"aten::transpose.int", {t("b s 8"), -1, 0}},
      {"aten::transpose.int", {t(""), 0, -1}},
      {"aten::swapaxes", {t("b s 8"), 0, 1}},
      {"aten::swapdims", {t("b s 8"), 0, 1}},
      {"aten::t", {t("b s")}},
      {"aten::t", {t("s")}},
      {"aten::numpy_T", {t("b s 8")}},
      {"aten::mT", {t("b s 8")}},
      {"aten::adjoint", {t("b s 8")}},
      Case("aten::permute", {t("b h s 8"), list(0, 2, 1, 3)}).all_layouts(),
      {"aten::permute", {t("b h s 8"), list(-1, 0, 1, 2)}},
      Case("aten::permute", {t("b s"), list(0, 0)}).refused("twice"),
      {"aten::movedim.int", {t("b s 8 w"), 1, -1}},
      {"aten::movedim.intlist", {t("b s 8 w"), list(0, 1), list(2, 0)}},
      {"aten::moveaxis.int", {t("b s 8"), 0, 1}},
      Case("aten::unsqueeze", {t("b s 8"), 1}).all_layouts(),
      {"aten::unsqueeze", {t("b s 8"), -1}},
      {"aten::unsqueeze", {t("b s 8"), 0}},
      {"aten::unsqueeze", {t(""), 0}},
      {"aten::squeeze.dim", {t("b 1 s"), 1}},
      {"aten::squeeze.dim", {t("b 8 s"), 1}},
      {"aten::squeeze.dims", {t("1 8 1"), list(0, 2)}},
      {"aten::squeeze", {t("1 8 1")}},
      {"aten::squeeze.dim", {t(""), 0}},
      // Whether the axis stays is asked.
      Case("aten::squeeze.dim", {t("b s 8"), 1}).sample("b", 4).sample("s", 6).guards({"Ne(s, 1)"}),
      Case("aten::squeeze.dim", {t("b s 8"), 1}).sample("b", 4).sample("s", 1).binds({"s"}),
      {"aten::atleast_1d", {t("")}},
      {"aten::atleast_2d", {t("s")}},
      {"aten::atleast_3d", {t("b s")}},
      {"aten::alias", {t("b s").sliced(1)}},
      {"aten::detach", {t("b s").transposed(0, 1)}},
      {"aten::data", {t("b s").transposed(0, 1)}},
      {"aten::lift_fresh", {t("b s")}},
      {"aten::real", {t("b s")}},
      {"aten::unsqueeze_", {t("b s"), 1}},
      {"aten::unsqueeze_", {t("b s").transposed(0, 1), -1}},
      {"aten::squeeze_.dim", {t("b 1 s"), 1}},
      {"aten::squeeze_.dims", {t("b 1 s 1"), list(1, -1)}},
      {"aten::transpose_", {t("b s 8"), 1, 2}},
      {"aten::swapaxes_", {t("b s 8"), 0, 2}},
      {"aten::swapdims_", {t("b s 8"), 0, -1}},
      {"aten::t_", {t("b s")}},
      {"aten::as_strided_", {t("b 4"), list(2, 2), list(1, 2)}},
      Case("aten::resize_", {t("b s"), list(2)}).refused("Make a new tensor"),
  };
}
INSTANTIATE_TEST_SUITE_P(Axes, ShapeOracle, testing::ValuesIn(axes()), case_name);

std::vector<Case> expands() {
  return {
      {"aten::expand", {t("b 1 8"), list("b", "s", 8)}},
      {"aten::expand", {t("b 1 s"), list("b", 4, "s")}},
      {"aten::expand", {t("b 1 s"), list(-1, "s", -1)}},
      {"aten::expand", {t("b 1 s"), list("b", "b", -1, "s")}},
      {"aten::expand", {t("1 s"), list("s", "s")}},
      {"aten::expand", {t("s"), list(1, "s")}},
      {"aten::expand", {t("s"), list(3, 1, "s")}},
      {"aten::expand", {t("b s").transposed(0, 1), list(4, "b", "s")}},
      {"aten::expand", {t(""), list("4")}},
      {"aten::expand_as", {t("b 1 1"), t("b s 8")}},
      {"aten::broadcast_to", {t("b 1"), list(3, "b", 4)}},
      Case("aten::broadcast_tensors", {list(t("b 1"), t("s"), t("b s"))}).view_depends_on_ones(),
      Case("aten::expand", {t("b s"), list("b", 4)}).sample("b", 5).sample("s", 4).binds({"s"}),
      Case("aten::expand", {t("b s"), list("b", 4)}).sample("b", 5).sample("s", 1).binds({"s"}),
      Case("aten::expand", {t("b s"), list("b", 4)}).sample("b", 5).sample("s", 3).refused("do not broadcast"),
      Case("aten::expand", {t("b 4"), list("b", 1)}).refused("cannot be expanded to 1"),
  };
}
INSTANTIATE_TEST_SUITE_P(Expands, ShapeOracle, testing::ValuesIn(expands()), case_name);

std::vector<Case> parts() {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  return {
      Case("aten::select.int", {t("b 6 8"), 1, 2}).all_layouts(),
      {"aten::select.int", {t("b 6 8"), 1, -1}},
      Case("aten::select.int", {t("b s 8"), 1, -1}).all_layouts(),
      Case("aten::select.int", {t("b s 8"), 1, 0}).all_layouts(),
      {"aten::select.int", {t("b s+1 8"), 1, "s"}},
      Case("aten::select.int", {t("b 4"), 1, 4}).refused("outside axis 1 of size 4"),
      Case("aten::slice.Tensor", {t("b s 8"), 2, 1, 5}).all_layouts(),
      {"aten::slice.Tensor", {t("b s 8"), 1, 0, kEnd}},
      {"aten::slice.Tensor", {t("b s 8"), 1, none, none}},
      {"aten::slice.Tensor", {t("b s 8"), 1, none, none, 2}},
      {"aten::slice.Tensor", {t("b 9 8"), 1, 1, kEnd, 3}},
      {"aten::slice.Tensor", {t("b 9 8"), 1, -3, kEnd}},
      {"aten::slice.Tensor", {t("b 9 8"), 1, 0, 100}},
      {"aten::slice.Tensor", {t("b 9 8"), 1, 5, 2}},
      {"aten::slice.Tensor", {t("b 9 8"), 1, -100, -2}},
      {"aten::slice.Tensor", {t("b s+3 8"), 1, 0, "s"}},
      {"aten::slice.Tensor", {t("b s+3 8"), 1, "s", kEnd}},
      {"aten::slice.Tensor", {t("b s+3 8"), 1, -3, kEnd}},
      {"aten::slice.Tensor", {t("b 2*s"), 1, "s", "2*s"}},
      // A part of a fixed table: the length has to fit it.
      Case("aten::slice.Tensor", {t("512 8"), 0, 0, "s"}).guards({"s <= 512"}),
      // Every guard says on which side the axis's size lies.
      Case("aten::slice.Tensor", {t("b s"), 1, -1, kEnd}).sample("b", 4).sample("s", 3).guards({"s >= 1"}),
      Case("aten::slice.Tensor", {t("b s"), 1, 0, 6}).sample("b", 4).sample("s", 7).guards({"s >= 6"}),
      Case("aten::slice.Tensor", {t("b s"), 1, 0, 6}).sample("b", 4).sample("s", 3).guards({"s <= 5"}),
      {"aten::narrow", {t("b s+2 8"), 1, 1, "s"}},
      {"aten::narrow", {t("b 9 8").transposed(0, 1), 1, -4, 3}},
      Case("aten::narrow", {t("b 9 8"), 1, 7, 3}).refused("outside axis 1"),
      Case("aten::split.Tensor", {t("b s 24"), 8, -1}).all_layouts(),
      {"aten::split.Tensor", {t("b s 10"), 4, 2}},
      {"aten::split.Tensor", {t("b 2*s 8"), "s", 1}},
      {"aten::split.Tensor", {t("b 3*s 8"), "s", 1}},
      Case("aten::split.Tensor", {t("s 8"), 4}).sample("s", 7).guards({"Eq((s + 3)//4, 2)"}),
      Case("aten::split_with_sizes", {t("b s 10"), list(2, 3, 5), -1}).all_layouts(),
      {"aten::split_with_sizes", {t("b s+4 8"), list("s", 4), 1}},
      {"aten::split.sizes", {t("b s 10"), list(2, 8), -1}},
      Case("aten::split_with_sizes", {t("b 10"), list(2, 3), 1}).refused("don't make up the size 10"),
      Case("aten::chunk", {t("b s 24"), 3, -1}).all_layouts(),
      {"aten::chunk", {t("b s 10"), 4, 2}},
      {"aten::chunk", {t("b s 5"), 4, 2}},
      {"aten::chunk", {t("b 2*s 8"), 2, 1}},
      {"aten::unsafe_chunk", {t("b 3*s 8"), 3, 1}},
      {"aten::tensor_split.sections", {t("b s 8"), 3, 1}},
      {"aten::tensor_split.indices", {t("b 9 8"), list(2, 5), 1}},
      {"aten::hsplit.int", {t("b 8"), 2}},
      Case("aten::unbind.int", {t("b s 3"), 2}).all_layouts(),
      {"aten::unbind.int", {t("3 s")}},
      Case("aten::unbind.int", {t("b s"), 0}).sample("b", 3).sample("s", 5).binds({"b"}),
  };
}
INSTANTIATE_TEST_SUITE_P(Parts, ShapeOracle, testing::ValuesIn(parts()), case_name);

std::vector<Case> windows() {
  return {
      {"aten::as_strided", {t("b s 8"), list("b", "s"), list("s*8", 8)}},
      {"aten::as_strided", {t("b s 8"), list("s", 4), list(8, 2), 1}},
      {"aten::as_strided", {t("s 8").sliced(0), list("s"), list(8)}},
      Case("aten::unfold", {t("b s 8"), 1, 3, 2}).at_least("s", 3).all_layouts(),
      {"aten::unfold", {t("b 9"), 1, 4, 1}},
      Case("aten::unfold", {t("b 4"), 1, 5, 1}).refused("don't fit an axis of size 4"),
      {"aten::diagonal", {t("s s")}},
      {"aten::diagonal", {t("b s s"), 0, 1, 2}},
      {"aten::diagonal", {t("b 6 4"), 1, -2, -1}},
      {"aten::diagonal", {t("b 6 4"), -2, 1, 2}},
      {"aten::diag_embed", {t("b s")}},
      {"aten::diag_embed", {t("b s 4"), -2, 0, 2}},
      {"aten::diag", {t("s")}},
      {"aten::diag", {t("s s"), 1}},
      {"aten::diagonal", {t("s n")}},
  };
}
std::vector<Case> copies() {
  return {
      {"aten::view_copy", {t("b s 24"), list("b", "s", 4, 6)}},
      {"aten::transpose_copy.int", {t("b s 8"), 0, 1}},
      {"aten::permute_copy", {t("b s 8"), list(2, 0, 1)}},
      {"aten::expand_copy", {t("b 1"), list("b", 4)}},
      {"aten::select_copy.int", {t("b s 8"), 2, 1}},
      {"aten::slice_copy.Tensor", {t("b s 8"), 2, 1, 5}},
      {"aten::unsqueeze_copy", {t("b s"), 1}},
      {"aten::squeeze_copy.dim", {t("b 1 s"), 1}},
      {"aten::split_copy.Tensor", {t("b s 10"), 4, 2}},
      {"aten::split_with_sizes_copy", {t("b s 10"), list(4, 6), 2}},
      {"aten::unbind_copy.int", {t("b s 3"), 2}},
      {"aten::diagonal_copy", {t("s n")}},
      {"aten::unfold_copy", {t("b 9"), 1, 4, 1}},
      {"aten::as_strided_copy", {t("b s 8"), list("s", 4), list(8, 2), 1}},
      {"aten::alias_copy", {t("b s").transposed(0, 1)}},
      {"aten::detach_copy", {t("b s")}},
      {"aten::t_copy", {t("b s")}},
  };
}
INSTANTIATE_TEST_SUITE_P(ViewCopies, ShapeOracle, testing::ValuesIn(copies()), case_name);

INSTANTIATE_TEST_SUITE_P(Windows, ShapeOracle, testing::ValuesIn(windows()), case_name);

}  // namespace
}  // namespace exporters::oracle
