#include "oracle.h"

namespace exporters::oracle {
namespace {

using c10::ScalarType;

// Parameters of one layer and direction: `gates` times 6 rows, for inputs of that many features.
void add_parameters(Arg::List& list, int gates, const std::string& features) {
  const std::string rows = std::to_string(gates * 6);
  list.emplace_back(t(rows + " " + features));
  list.emplace_back(t(rows + " 6"));
  list.emplace_back(t(rows));
  list.emplace_back(t(rows));
}

Arg parameters(int gates, int layers, bool bidirectional) {
  Arg::List list;
  for (int layer = 0; layer < layers; ++layer) {
    for (int direction = 0; direction < (bidirectional ? 2 : 1); ++direction) {
      add_parameters(list, gates, layer == 0 ? "4" : bidirectional ? "12" : "6");
    }
  }
  return list;
}

std::vector<Case> recurrent() {
  return {
      Case("aten::lstm.input",
           {t("s b 4"), list(t("1 b 6"), t("1 b 6")), parameters(4, 1, false), true, 1, 0.0, false, false, false})

          .dtypes({ScalarType::Double}),
      Case("aten::lstm.input",
           {t("b s 4"), list(t("4 b 6"), t("4 b 6")), parameters(4, 2, true), true, 2, 0.0, false, true, true}),
      Case("aten::lstm.input",
           {t("b s 5"), list(t("1 b 6"), t("1 b 6")), parameters(4, 1, false), true, 1, 0.0, false, false, true})
          .refused("5 is not equal to 4"),
      Case("aten::lstm.input",
           {t("b s 4"), list(t("2 b 6"), t("2 b 6")), parameters(4, 1, false), true, 1, 0.0, false, false, true})
          .refused("2 is not equal to 1"),
      Case("aten::gru.input", {t("s b 4"), t("2 b 6"), parameters(3, 1, true), true, 1, 0.0, false, true, false}),
      Case("aten::lstm.input", {t("s b 4").transposed(0, 1), list(t("1 b 6"), t("1 b 6").transposed(1, 2)),
                                parameters(4, 1, false), true, 1, 0.0, false, false, false}),
      Case("aten::gru.input",
           {t("b s 4").transposed(0, 1), t("2 b 6"), parameters(3, 2, false), true, 2, 0.0, false, false, true}),
      Case("aten::rnn_tanh.input",
           {t("s b 4"), t("1 b 6"), parameters(1, 1, false), true, 1, 0.0, false, false, false}),
      Case("aten::rnn_relu.input", {t("b s 4"), t("1 b 6"), parameters(1, 1, false), true, 1, 0.0, false, false, true}),
      Case("aten::lstm_cell", {t("b 4"), list(t("b 6"), t("b 6")), t("24 4"), t("24 6"), t("24"), t("24")}),
      Case("aten::gru_cell", {t("b 4"), t("b 6"), t("18 4"), t("18 6"), t("18"), t("18")}),
      Case("aten::rnn_tanh_cell", {t("b 4"), t("b 6"), t("6 4"), t("6 6"), t("6"), t("6")}),
      Case("aten::gru_cell", {t("b 4"), t("b 5"), t("18 4"), t("18 6"), t("18"), t("18")})
          .refused("5 is not equal to 6"),
  };
}

INSTANTIATE_TEST_SUITE_P(Recurrent, ShapeOracle, testing::ValuesIn(recurrent()), case_name);

}  // namespace
}  // namespace exporters::oracle
