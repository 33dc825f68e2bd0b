#include "dtypes.h"
#include "oracle.h"

namespace exporters::oracle {
namespace {

std::vector<Case> products() {
  return {
      Case("aten::mm", {t("s 8"), t("8 n")}).all_layouts().dtypes({kDouble, kBFloat16}),
      Case("aten::bmm", {t("b s 8"), t("b 8 n")}).all_layouts(),
      Case("aten::addmm", {t("n"), t("s 8"), t("8 n")}).all_layouts(),
      {"aten::addmm", {t("1 n"), t("s 8"), t("8 n").transposed(0, 1), kw("beta", 2)}},
      Case("aten::baddbmm", {t("b 1 n"), t("b s 8"), t("b 8 n")}).all_layouts(),
      {"aten::addbmm", {t("s n"), t("b s 8"), t("b 8 n")}},
      Case("aten::mv", {t("s 8"), t("8")}).all_layouts(),
      {"aten::addmv", {t("s"), t("s 8"), t("8")}},
      {"aten::dot", {t("s"), t("s")}},
      {"aten::vdot", {t("s"), t("s")}},
      {"aten::inner", {t("b s 8"), t("n 8")}},
      {"aten::outer", {t("s"), t("n")}},
      {"aten::outer", {t("s"), t("n").dtype(kLong)}},
      {"aten::ger", {t("s"), t("n")}},
      {"aten::addr", {t("s n"), t("s"), t("n")}},
      {"aten::cdist", {t("b s 8"), t("b n 8")}},
      {"aten::linalg_cross", {t("b 3"), t("1 3")}},
      {"aten::_int_mm", {t("s 8").dtype(c10::ScalarType::Char), t("8 16").dtype(c10::ScalarType::Char)}},
      Case("aten::mm", {t("s 8"), t("7 n")}).refused("inner sizes 8 and 7 differ"),
      Case("aten::mm", {t("s 8"), t("8 n").dtype(kHalf)}).refused("dtypes Float and Half differ"),
      // An inner size that two names share becomes one name.
      Case("aten::mm", {t("s k"), t("m n")}).sample("k", 4).sample("m", 4).binds({"m"}),
  };
}
INSTANTIATE_TEST_SUITE_P(Products, ShapeOracle, testing::ValuesIn(products()), case_name);

std::vector<Case> matmuls() {
  return {
      Case("aten::matmul", {t("s 8"), t("8 n")}).all_layouts(),
      {"aten::matmul", {t("8"), t("8")}},
      {"aten::matmul", {t("s 8"), t("8")}},
      {"aten::matmul", {t("8"), t("8 n")}},
      {"aten::matmul", {t("8"), t("b 8 n")}},
      Case("aten::matmul", {t("b s 8"), t("8")}).all_layouts(),
      Case("aten::matmul", {t("b s 8"), t("8 n")}).all_layouts(),
      Case("aten::matmul", {t("s 8"), t("b 8 n")}).all_layouts(),
      Case("aten::matmul", {t("b s 8"), t("b 8 n")}).all_layouts(),
      Case("aten::matmul", {t("b h s 8"), t("b h 8 s")}).all_layouts(),
      Case("aten::matmul", {t("b h s 8"), t("h 8 n")}).all_layouts(),
      Case("aten::matmul", {t("b 1 s 8"), t("4 8 n")}).all_layouts(),
      Case("aten::matmul", {t("b h s 8"), t("8 n")}).all_layouts(),
      Case("aten::linear", {t("b s 8"), t("n 8"), t("n")}).all_layouts().dtypes({kDouble, kBFloat16}),
      Case("aten::linear", {t("b s 8"), t("16 8")}).all_layouts(),
      Case("aten::linear", {t("b h s 8"), t("16 8"), t("16")}).all_layouts(),
      {"aten::linear", {t("s 8"), t("n 8"), t("n")}},
      {"aten::linear", {t("8"), t("n 8"), t("n")}},
      {"aten::linear", {t("b s 8"), t("8")}},
      Case("aten::linear", {t("b s 8"), t("16 7")}).refused("inner sizes"),
  };
}
INSTANTIATE_TEST_SUITE_P(Matmul, ShapeOracle, testing::ValuesIn(matmuls()), case_name);

std::vector<Case> contractions() {
  const auto einsum = [](const char* equation, auto... operands) {
    return Case("aten::einsum", {equation, list(operands...)}).view_depends_on_ones();
  };
  return {
      {"aten::tensordot", {t("b s 8"), t("8 n"), list(2), list(0)}},
      {"aten::tensordot", {t("b s 8"), t("n 8 s"), list(1, 2), list(2, 1)}},
      {"aten::tensordot", {t("b s"), t("n"), list(), list()}},
      einsum("bhsd,bhtd->bhst", t("b h s 8"), t("b h t 8")),
      einsum("bhsd,bhtd->bhst", t("b h s 8").transposed(1, 2), t("b h t 8").transposed(1, 2)),
      einsum("bhst,bhtd->bshd", t("b h s t"), t("b h t 8")),
      einsum("bsd,nd->bsn", t("b s 8"), t("n 8")),
      einsum("bsd,bsd->bs", t("b s 8"), t("b s 8")),
      einsum("i,j->ij", t("s"), t("n")),
      einsum("i,j", t("s"), t("n")),
      einsum("ij,jk", t("s 8"), t("8 n")),
      einsum("ii->i", t("s s")),
      einsum("ii", t("s s")),
      einsum("ij->ji", t("s n")),
      einsum("bij->bj", t("b s n")),
      einsum("...d,de->...e", t("b s 8"), t("8 n")),
      einsum("b...d,b...d->b...", t("b s 8"), t("b s 8")),
      einsum("bij,bjk,bkl->bil", t("b s 8"), t("b 8 n"), t("b n 4")),
      einsum("bhld,lrd->bhlr", t("b h s 8"), t("s r 8")),
      einsum("bn,anm,bm->ba", t("b 8"), t("4 8 6"), t("b 6")),
      Case("aten::einsum", {"bij,bjk,bkl->bil", list(t("b s 8"), t("b 8 n"), t("b n 4")), kw("path", list(1, 2, 0, 1))})
          .view_depends_on_ones(),
      Case("aten::einsum", {"ij,jk->iz", list(t("s 8"), t("8 n"))}).refused("no operand has the output's 'z'"),
      Case("aten::einsum", {"ij->ij", list(t("s 8"), t("8 n"))}).refused("fewer terms than operands"),
  };
}
INSTANTIATE_TEST_SUITE_P(Contractions, ShapeOracle, testing::ValuesIn(contractions()), case_name);

}  // namespace
}  // namespace exporters::oracle
