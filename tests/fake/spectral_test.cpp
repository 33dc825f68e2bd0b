#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

TensorArg z(const std::string& sizes) { return t(sizes).dtype(ScalarType::ComplexFloat); }

std::vector<Case> complex_numbers() {
  return {
      Case("aten::view_as_real", {z("b s 5")}).all_layouts(),
      Case("aten::view_as_complex", {t("b s 2")}),
      Case("aten::view_as_complex", {t("b s 2").transposed(0, 1)}),
      Case("aten::view_as_complex", {t("b s 2").dtype(ScalarType::Double)}),
      Case("aten::view_as_complex", {t("b s 3")}).refused("3 is not equal to 2"),
      Case("aten::real", {z("b s 5")}).all_layouts(),
      Case("aten::real", {t("b s 5")}),
      Case("aten::imag", {z("b s 5")}).all_layouts(),
      Case("aten::conj", {z("b s 5")}).all_layouts(),
      Case("aten::complex", {t("b s 5"), t("b s 5")}).all_layouts(),
      Case("aten::polar", {t("b s 1"), t("s 5")}).all_layouts().dtypes({ScalarType::Double}),
      Case("aten::polar", {t("b s"), t("b s").dtype(ScalarType::Double)}).refused("Double"),
  };
}

INSTANTIATE_TEST_SUITE_P(ComplexNumbers, ShapeOracle, testing::ValuesIn(complex_numbers()), case_name);

std::vector<Case> transforms() {
  return {
      Case("aten::fft_fft", {z("b s 6")}).all_layouts(),
      Case("aten::fft_fft", {t("b s 6"), none, 1}).all_layouts().guards({"s >= 1"}),
      Case("aten::fft_ifft", {z("b s 6"), none, 1}).all_layouts().guards({"s >= 1"}),
      Case("aten::fft_fft", {z("b s 6"), 8}),
      Case("aten::fft_rfft", {t("b s 6")}).all_layouts(),
      Case("aten::fft_rfft", {t("b s 6"), none, 1}).all_layouts().dtypes({ScalarType::Double}).guards({"s >= 1"}),
      Case("aten::fft_irfft", {z("b s 4")}).all_layouts(),
      Case("aten::fft_irfft", {z("b s 4"), 5, 2}).all_layouts(),
      Case("aten::fft_fft2", {z("b s 6")}).all_layouts().guards({"s >= 1"}),
      Case("aten::fft_fftn", {z("b s 6")}).all_layouts().guards({"b >= 1", "s >= 1"}),
      Case("aten::fft_rfftn", {t("b s 6")}).all_layouts().guards({"b >= 1", "s >= 1"}),
      Case("aten::_fft_c2c", {z("b s 6"), list(0, 2), 0, true}).all_layouts(),
      Case("aten::_fft_r2c", {t("b s 6"), list(1, 2), 0, true}).all_layouts(),
      Case("aten::_fft_c2r", {z("b s 4"), list(1, 2), 0, 6}).all_layouts(),
      Case("aten::_fft_c2c", {t("b s"), list(1), 0, true}).refused("Float"),
      Case("aten::stft", {t("b s"), 8, 2, none, none, false, none, true}).at_least("s", 8),
      Case("aten::stft", {t("s"), 8, 3, 8, t("8"), false, none, true}).at_least("s", 8),
      Case("aten::stft.center", {t("b s"), 8, kw("return_complex", true)}).at_least("s", 5),
      Case("aten::stft.center", {t("b s"), 8, 2, kw("onesided", false), kw("return_complex", false)}).at_least("s", 5),
      Case("aten::stft.center", {t("b s"), 8}).at_least("s", 5).refused("return_complex"),
  };
}

INSTANTIATE_TEST_SUITE_P(Transforms, ShapeOracle, testing::ValuesIn(transforms()), case_name);

}  // namespace
}  // namespace exporters::oracle
