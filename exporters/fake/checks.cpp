#include "exporters/fake/checks.h"

#include <fmt/format.h>

namespace exporters {
namespace {

void require(const ShapeCall& call, const BoolExpr& condition, const Expr& actual, std::string_view relation,
             const Expr& bound, std::string_view what) {
  if (call.env().statically(condition) == false) {
    call.refuse(fmt::format("{}: {} is not {} {}", what, actual.str(), relation, bound.str()),
                "Check the shapes of the arguments.");
  }
  call.env().require(condition);
}

}  // namespace

void require_equal(const ShapeCall& call, const Expr& actual, const Expr& expected, std::string_view what) {
  require(call, eq(actual, expected), actual, "equal to", expected, what);
}

void require_at_least(const ShapeCall& call, const Expr& actual, const Expr& least, std::string_view what) {
  require(call, ge(actual, least), actual, "at least", least, what);
}

void require_at_most(const ShapeCall& call, const Expr& actual, const Expr& most, std::string_view what) {
  require(call, le(actual, most), actual, "at most", most, what);
}

void require_multiple(const ShapeCall& call, const Expr& actual, const Expr& factor, std::string_view what) {
  if (factor == Expr(0)) {
    call.refuse(fmt::format("{}: a multiple of 0", what));
  }
  require(call, eq(mod(actual, factor), 0), actual, "a multiple of", factor, what);
}

}  // namespace exporters
