#include "exporters/passes/size_ops.h"

namespace exporters {

std::optional<Expr> sym_op_on_sizes(const SymOpInfo& info, const std::vector<Expr>& operands) {
  if (operands.size() != info.operands) {
    return std::nullopt;
  }
  switch (info.op) {
    case SymOp::kAdd:
      return operands[0] + operands[1];
    case SymOp::kSub:
      return operands[0] - operands[1];
    case SymOp::kMul:
      return operands[0] * operands[1];
    case SymOp::kFloorDiv:
      return floordiv(operands[0], operands[1]);
    case SymOp::kMod:
      return mod(operands[0], operands[1]);
    case SymOp::kMin:
      return min(operands[0], operands[1]);
    case SymOp::kMax:
      return max(operands[0], operands[1]);
    case SymOp::kNeg:
      return -operands[0];
    case SymOp::kAbs:
      return max(operands[0], -operands[0]);
    case SymOp::kPos:
    case SymOp::kTrunc:
    case SymOp::kFloor:
    case SymOp::kCeil:
    case SymOp::kToInt:
      return operands[0];
    default:
      return std::nullopt;
  }
}

}  // namespace exporters
