#include "exporters/graph/sym_op.h"

namespace exporters {
namespace {

using Result = SymOpInfo::Result;

constexpr SymOpInfo kSymOps[] = {
    {"_operator.add", SymOp::kAdd, 2, Result::kSame},
    {"_operator.sub", SymOp::kSub, 2, Result::kSame},
    {"_operator.mul", SymOp::kMul, 2, Result::kSame},
    {"_operator.floordiv", SymOp::kFloorDiv, 2, Result::kSame},
    {"_operator.mod", SymOp::kMod, 2, Result::kSame},
    {"_operator.pow", SymOp::kPow, 2, Result::kSame},
    {"_operator.truediv", SymOp::kTrueDiv, 2, Result::kFloat},
    {"_operator.neg", SymOp::kNeg, 1, Result::kSame},
    {"_operator.pos", SymOp::kPos, 1, Result::kSame},
    {"_operator.abs", SymOp::kAbs, 1, Result::kSame},
    {"_operator.eq", SymOp::kEq, 2, Result::kBool},
    {"_operator.ne", SymOp::kNe, 2, Result::kBool},
    {"_operator.lt", SymOp::kLt, 2, Result::kBool},
    {"_operator.le", SymOp::kLe, 2, Result::kBool},
    {"_operator.gt", SymOp::kGt, 2, Result::kBool},
    {"_operator.ge", SymOp::kGe, 2, Result::kBool},
    {"_operator.and_", SymOp::kAnd, 2, Result::kSame},
    {"_operator.or_", SymOp::kOr, 2, Result::kSame},
    {"_operator.lshift", SymOp::kLShift, 2, Result::kInt},
    {"_operator.rshift", SymOp::kRShift, 2, Result::kInt},
    {"math.trunc", SymOp::kTrunc, 1, Result::kInt},
    {"math.floor", SymOp::kFloor, 1, Result::kInt},
    {"math.ceil", SymOp::kCeil, 1, Result::kInt},
    {"torch.sym_min", SymOp::kMin, 2, Result::kSame},
    {"torch.sym_max", SymOp::kMax, 2, Result::kSame},
    {"torch.sym_float", SymOp::kToFloat, 1, Result::kFloat},
    {"torch.sym_int", SymOp::kToInt, 1, Result::kInt},
    {"torch.sym_not", SymOp::kNot, 1, Result::kBool},
    {"torch.sym_ite", SymOp::kIte, 3, Result::kSame},
    {"torch.sym_sqrt", SymOp::kSqrt, 1, Result::kFloat},
    {"torch._sym_sqrt", SymOp::kSqrt, 1, Result::kFloat},
};

}  // namespace

std::optional<SymOpInfo> find_sym_op(std::string_view target) {
  for (const SymOpInfo& info : kSymOps) {
    if (info.target == target) {
      return info;
    }
  }
  return std::nullopt;
}

}  // namespace exporters
