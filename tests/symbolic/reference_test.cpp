#include "exporters/support/error.h"
#include "exporters/symbolic/expr.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace exporters {
namespace {

// Written by tests/reference/make_symbolic_expressions.py with torch 2.13 and sympy.
nlohmann::json reference() {
  std::ifstream file(EXPORTERS_TEST_DATA "/symbolic/expressions.json");
  return nlohmann::json::parse(file);
}

std::vector<std::string> notations(const nlohmann::json& entry) {
  std::vector<std::string> texts = {entry.at("str"), entry.at("srepr")};
  if (entry.at("python").is_string()) {
    texts.push_back(entry.at("python"));
  }
  return texts;
}

Valuation at(const nlohmann::json& point) {
  return [&point](Symbol symbol) { return point.at("at").at(symbol.name()).get<int64_t>(); };
}

TEST(Reference, IntegerExpressionsOfTorchHaveTorchsValues) {
  int checked = 0;
  for (const nlohmann::json& entry : reference()) {
    if (entry.at("points").at(0).at("value").is_boolean()) {
      continue;
    }
    for (const std::string& text : notations(entry)) {
      const Expr expr = Expr::parse(text);
      EXPECT_EQ(Expr::parse(expr.srepr()), expr) << text;
      EXPECT_EQ(Expr::parse(expr.str()), expr) << text;
      for (const nlohmann::json& point : entry.at("points")) {
        EXPECT_EQ(expr.evaluate(at(point)), point.at("value").get<int64_t>()) << text << point.dump();
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 700);
}

TEST(Reference, ConditionsOfTorchHaveTorchsValues) {
  int checked = 0;
  for (const nlohmann::json& entry : reference()) {
    if (!entry.at("points").at(0).at("value").is_boolean()) {
      continue;
    }
    for (const std::string& text : notations(entry)) {
      const BoolExpr condition = BoolExpr::parse(text);
      EXPECT_EQ(BoolExpr::parse(condition.srepr()), condition) << text;
      for (const nlohmann::json& point : entry.at("points")) {
        EXPECT_EQ(condition.evaluate(at(point)), point.at("value").get<bool>()) << text << point.dump();
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 300);
}

TEST(Reference, PolynomialsPrintAsTorchPrintsThem) {
  for (const char* text : {"Symbol('s77', positive=True, integer=True)",
                           "Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))",
                           "Mul(Integer(-1), Symbol('s0', positive=True, integer=True))",
                           "FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2))",
                           "PythonMod(Symbol('u0', integer=True), Integer(3))",
                           "Mod(Symbol('s0', positive=True, integer=True), Integer(2))",
                           "TruncToInt(Mul(Float('2.5', precision=53), ToFloat(Symbol('s0', positive=True, "
                           "integer=True))))"}) {
    EXPECT_EQ(Expr::parse(text).srepr(), text);
  }
}

}  // namespace
}  // namespace exporters
