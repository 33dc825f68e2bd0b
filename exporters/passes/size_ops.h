#pragma once

#include "exporters/graph/sym_op.h"
#include "exporters/symbolic/expr.h"

#include <optional>
#include <vector>

namespace exporters {

/// The integer that an operation on integers gives; nothing for one that goes through floats or conditions, and for
/// numbers of operands that the operation does not have. Throws Error for a division by the constant 0 and on overflow.
std::optional<Expr> sym_op_on_sizes(const SymOpInfo& info, const std::vector<Expr>& operands);

}  // namespace exporters
