#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/operator_name.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

class Argument;
class Node;

/// "aten::add.Tensor" → "aten.add.Tensor", "aten::relu" → "aten.relu.default".
std::string target_from_op(std::string_view op);
std::string target_from_op(const c10::OperatorName& op);
/// "aten.add.Tensor" → "aten::add.Tensor", "aten.relu.default" → "aten::relu". Throws Error unless the target has the
/// form "namespace.name.overload".
std::string op_from_target(std::string_view target);
c10::OperatorName operator_name(std::string_view target);

/// True for targets that the dispatcher is to know: not for "_operator.add", "math.trunc", "torch.sym_max" and
/// "higher_order.cond".
bool is_dispatcher_target(std::string_view target);
bool is_higher_order_target(std::string_view target);

/// The dispatcher's operator for a target, nothing when there is none. Thread-safe; ATen's are cached.
std::optional<c10::OperatorHandle> find_operator(std::string_view target);
/// As above; throws Error that lists the overloads or the nearest names there are.
c10::OperatorHandle lookup_operator(std::string_view target);

/// For each argument of the schema the node's argument, null where it is left to its default. Throws Error that names
/// the node for a surplus, unknown or doubled argument; whether required ones are there it does not check.
std::vector<const Argument*> bind_arguments(const Node& node, const c10::FunctionSchema& schema);

/// The index of the input that output `i` may share its storage with, by the schema's alias annotations.
std::optional<size_t> aliased_input(const c10::FunctionSchema& schema, size_t output);

}  // namespace exporters
