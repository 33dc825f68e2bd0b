#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace exporters {

/// What a program may compute on sizes without the dispatcher: Python's operators, as torch.export records them.
enum class SymOp {
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kMod,
  kPow,
  kTrueDiv,
  kNeg,
  kPos,
  kAbs,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kNot,
  kTrunc,
  kFloor,
  kCeil,
  kMin,
  kMax,
  kToFloat,
  kToInt,
  kIte,
  kSqrt,
  kLShift,
  kRShift,
};

struct SymOpInfo {
  /// What the result is, whatever the operands: a condition, a float, an integer; or as the operands are.
  enum class Result { kSame, kBool, kFloat, kInt };
  std::string_view target;  ///< "_operator.add"
  SymOp op;
  size_t operands;
  Result result;
};

/// Nothing for targets that are no sym op ("aten.sym_size.int" is the dispatcher's).
std::optional<SymOpInfo> find_sym_op(std::string_view target);

}  // namespace exporters
