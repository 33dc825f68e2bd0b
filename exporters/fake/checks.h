#pragma once

#include "exporters/fake/shape_call.h"

#include <string_view>

// What an op requires of sizes. Each is a fact of the traced program: known already, recorded, or an Error that names
// the op, `what` ("the input's channels") and both values.
namespace exporters {

void require_equal(const ShapeCall& call, const Expr& actual, const Expr& expected, std::string_view what);
void require_at_least(const ShapeCall& call, const Expr& actual, const Expr& least, std::string_view what);
void require_at_most(const ShapeCall& call, const Expr& actual, const Expr& most, std::string_view what);
/// Of a factor other than 0.
void require_multiple(const ShapeCall& call, const Expr& actual, const Expr& factor, std::string_view what);

}  // namespace exporters
