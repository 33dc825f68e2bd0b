#include "exporters/passes/replay_arguments.h"

#include "exporters/graph/op_name.h"
#include "exporters/interpreter/ivalue.h"
#include "exporters/support/error.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <optional>

namespace exporters {
namespace {

bool is_number(const c10::IValue& value) { return value.isInt() || value.isSymInt(); }

// A list of sizes, of plain numbers if it can.
c10::IValue size_list(const std::vector<c10::IValue>& items) {
  const bool plain = std::all_of(items.begin(), items.end(), [](const c10::IValue& item) { return item.isInt(); });
  if (plain) {
    return pack_list(ListKind::kInt, items);
  }
  c10::impl::GenericList list(c10::SymIntType::get());
  for (const c10::IValue& item : items) {
    list.push_back(item.isInt() ? c10::IValue(c10::SymInt(item.toInt())) : item);
  }
  return list;
}

c10::IValue list_ivalue(const Argument::List& items, const c10::Type& element, const ReplayedValue& value_of);

c10::IValue to_ivalue(const Argument& argument, const c10::Type& type, std::optional<int32_t> fixed_length,
                      const ReplayedValue& value_of) {
  const c10::Type& wanted = unwrap_optional(type);
  if (argument.is_none()) {
    return {};
  }
  const auto* value = argument.get_if<Value*>();
  const c10::IValue* known = value != nullptr ? &value_of(*value) : nullptr;
  if (wanted.kind() == c10::TypeKind::ListType && (known == nullptr || is_number(*known))) {
    // One number stands for a list of that number.
    const Argument::List items =
        argument.is_list() ? argument.list() : Argument::List(fixed_length.value_or(1), argument);
    return list_ivalue(items, *wanted.containedType(0), value_of);
  }
  if (known != nullptr) {
    return wanted.kind() == c10::TypeKind::ListType ? convert(*known, conversion_for(**value, type)) : *known;
  }
  return constant_to_ivalue(argument, type);
}

c10::IValue list_ivalue(const Argument::List& items, const c10::Type& element, const ReplayedValue& value_of) {
  std::vector<c10::IValue> values;
  for (const Argument& item : items) {
    values.push_back(to_ivalue(item, element, std::nullopt, value_of));
  }
  const ListKind kind = list_kind_of(element);
  return kind == ListKind::kInt ? size_list(values) : pack_list(kind, std::move(values));
}

}  // namespace

torch::jit::Stack replay_arguments(const Node& node, const c10::OperatorHandle& op, const ReplayedValue& value_of) {
  const c10::FunctionSchema& schema = op.schema();
  const std::vector<const Argument*> bound = bind_arguments(node, schema);
  torch::jit::Stack stack;
  for (size_t i = 0; i < bound.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    ensure(bound[i] != nullptr || formal.default_value().has_value(), "The argument '{}' is missing", formal.name());
    stack.push_back(bound[i] == nullptr ? *formal.default_value()
                                        : to_ivalue(*bound[i], *formal.real_type(), formal.N(), value_of));
  }
  return stack;
}

}  // namespace exporters
