#pragma once

#include "exporters/executorch/emit/program.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace exporters::executorch {

/// The kernel that lets one tensor show the bytes of another: (self, sizes, out).
constexpr std::string_view kViewKernel = "executorch_prim::et_view";

/// Value indices that an instruction names, in order.
inline std::vector<int32_t> arguments_of(const Instruction& instruction) {
  if (const auto* kernel = std::get_if<KernelCall>(&instruction)) {
    return kernel->args;
  }
  if (const auto* delegate = std::get_if<DelegateCall>(&instruction)) {
    return delegate->args;
  }
  if (const auto* move = std::get_if<MoveCall>(&instruction)) {
    return {move->from, move->to};
  }
  if (const auto* jump = std::get_if<JumpFalseCall>(&instruction)) {
    return {jump->condition};
  }
  return {std::get<FreeCall>(instruction).value};
}

/// Calls `visit(value)` for every tensor among the values, those inside lists included.
template <typename Visit>
void for_each_tensor(const Method& method, const std::vector<int32_t>& values, Visit&& visit) {
  for (const int32_t value : values) {
    if (value < 0) {
      continue;  // None in a list of optional tensors
    }
    const EValue& held = method.values[value];
    if (std::holds_alternative<TensorValue>(held)) {
      visit(value);
    } else if (const auto* list = std::get_if<TensorList>(&held)) {
      for_each_tensor(method, list->values, visit);
    } else if (const auto* optional_list = std::get_if<OptionalTensorList>(&held)) {
      for_each_tensor(method, optional_list->values, visit);
    }
  }
}

struct ViewCall {
  int32_t base = 0;
  int32_t view = 0;
};

/// What a call of et_view ties together; nothing for other instructions.
inline std::optional<ViewCall> view_of(const Method& method, const Instruction& instruction) {
  const auto* call = std::get_if<KernelCall>(&instruction);
  if (call == nullptr || call->args.size() != 3 || method.operators[call->op].name != kViewKernel) {
    return std::nullopt;
  }
  return ViewCall{call->args[0], call->args[2]};
}

}  // namespace exporters::executorch
