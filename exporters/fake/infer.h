#pragma once

#include "exporters/symbolic/shape_env.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <optional>

namespace exporters {

/// Replaces an op's arguments on the stack by fake results, without running it. Tries, in this order: the registered
/// shape function; for an in-place op, that of its functional form; for a view_copy
/// op, that of the view; the op's own composite kernel with shape functions
/// below it; the Meta kernel when every size is a plain number. Throws Error that names the op and says how to register
/// a shape function. Real tensors among the arguments count by their metadata only.
void infer(const c10::OperatorHandle& op, torch::jit::Stack& stack, const std::shared_ptr<ShapeEnv>& env);

/// Of an in-place op, the op that gives the result instead of writing it: "aten::add_.Tensor" → "aten::add.Tensor".
std::optional<c10::OperatorName> functional_name(c10::OperatorName name);
/// Of an op that copies what a view shows, the view: "aten::permute_copy" → "aten::permute".
std::optional<c10::OperatorName> copied_view(c10::OperatorName name);

/// Tensors made while tracing that do hold data, because code fills them where no op call shows: `at::tensor({…})` is
/// `empty` and writes through data_ptr.
/// Whether the call is such an `empty`: fixed sizes, few elements.
bool makes_real_tensor(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Whether the call has tensor arguments and all of them are real.
bool has_only_real_tensors(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace exporters
