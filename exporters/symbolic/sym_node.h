#pragma once

#include "exporters/symbolic/shape_env.h"

#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>
#include <c10/core/SymNodeImpl.h>

#include <memory>

namespace exporters {

/// c10's symbolic numbers over our expressions: integers are Expr, conditions BoolExpr. Questions that need an answer
/// (guard_int, guard_bool, expect_true, …) go to the ShapeEnv. `guard_or_false`, `statically_known_true` and the like
/// ask nothing: the facts decide, else the answer is their default (false for guard_size_oblivious).
/// Memory-format questions about sizes and strides are answered from facts too, with false where these don't decide.
/// Rounding a float down or up gives an integer expression where one exists, else the sizes in it become static.
/// The node keeps its ShapeEnv alive.
c10::SymInt to_sym_int(const Expr& expr, const std::shared_ptr<ShapeEnv>& env);
c10::SymBool to_sym_bool(const BoolExpr& condition, const std::shared_ptr<ShapeEnv>& env);

/// Back again. A plain number gives a constant. Throws Error for a node that is not ours.
Expr to_expr(const c10::SymInt& value);
BoolExpr to_bool_expr(const c10::SymBool& value);

/// A float that depends on sizes: double(integer) * scale / double(denominator) when `affine`; else only `text` says
/// something. A plain float v is affine with integer 1 and scale v. Division by a power of two goes into `scale`.
struct FloatExpr {
  Expr integer = 1;
  Expr denominator = 1;
  double scale = 1.0;
  bool affine = true;
  std::string text;  ///< for people
};
/// Nothing for a node that is not ours.
std::optional<FloatExpr> to_float_expr(const c10::SymFloat& value);

}  // namespace exporters
