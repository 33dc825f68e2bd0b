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
/// ask nothing. The node keeps its ShapeEnv alive.
c10::SymInt to_sym_int(const Expr& expr, const std::shared_ptr<ShapeEnv>& env);
c10::SymBool to_sym_bool(const BoolExpr& condition, const std::shared_ptr<ShapeEnv>& env);

/// Back again. A plain number gives a constant. Throws Error for a node that is not ours.
Expr to_expr(const c10::SymInt& value);
BoolExpr to_bool_expr(const c10::SymBool& value);

/// A float that depends on sizes: `expr * scale`, or nothing simpler can be said. Plain floats give a constant.
struct FloatExpr {
  Expr integer;        ///< the value is double(integer) * scale when `affine`
  double scale = 1.0;
  std::string text;    ///< for people
};
std::optional<FloatExpr> to_float_expr(const c10::SymFloat& value);

}  // namespace exporters
