#pragma once

#include "exporters/graph/sym_op.h"

#include <ATen/core/ivalue.h>

#include <span>

namespace exporters {

/// A sym op on plain numbers (int, double, bool), with Python's rules: division and modulo of integers round down, a
/// bool counts as an integer. Throws Error on overflow of int64, on division by zero and on operands of other kinds.
c10::IValue evaluate_sym_op(SymOp op, std::span<const c10::IValue> operands);

}  // namespace exporters
