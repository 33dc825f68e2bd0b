#pragma once

#include "exporters/symbolic/shape_env.h"

namespace exporters {

/// The float behind a symbolic float node: double(numerator) * scale / double(denominator), or only a sample value
/// where the form is lost. `inputs` are the expressions that fix the value.
struct FloatValue {
  Expr numerator = 1;
  Expr denominator = 1;
  double scale = 1.0;
  bool affine = true;
  std::vector<Expr> inputs;
  std::optional<double> sample;
  std::string text;

  static FloatValue constant(double value);
  static FloatValue ratio(const Expr& numerator, const Expr& denominator, const ShapeEnv& env);

  std::optional<double> as_constant() const;
};

FloatValue negate(const FloatValue& a);
FloatValue add(const FloatValue& a, const FloatValue& b);
FloatValue multiply(const FloatValue& a, const FloatValue& b);
FloatValue divide(const FloatValue& a, const FloatValue& b);
/// Any function of floats: keeps the sample value and the inputs.
FloatValue opaque(std::string text, const std::vector<FloatValue>& inputs, double (*function)(double, double));

/// Largest and smallest integers below and above, as an integer expression; nothing where there is none.
std::optional<Expr> floor(const FloatValue& a, const ShapeEnv& env);
std::optional<Expr> ceil(const FloatValue& a, const ShapeEnv& env);
/// a <= limit as a condition on integers; nothing where there is none.
std::optional<BoolExpr> at_most(const FloatValue& a, double limit);
std::optional<BoolExpr> at_least(const FloatValue& a, double limit);

}  // namespace exporters
