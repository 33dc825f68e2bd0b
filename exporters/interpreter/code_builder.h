#pragma once

#include "exporters/interpreter/code.h"

namespace exporters {

/// Translates a graph, last node first, so that the first use that it meets of a value is the last one of a run.
/// Registers are shared by values that do not live at the same time.
class CodeBuilder {
 public:
  CodeBuilder(const Graph& graph, const Code::Constants& constants, Code& code)
      : graph_(graph), constants_(constants), code_(code) {}
  void build();
  /// The one instruction of a call.
  void build_call(const Node& node);

 private:
  void build_dispatched(const Node& node, Instruction& instruction);
  void build_higher_order(const Node& node, Instruction& instruction);
  std::vector<Operand> untyped_operands(const std::vector<Argument>& arguments);
  Operand untyped_operand(const Argument& argument);
  Operand operand(const Argument& argument, const c10::Type& type, std::optional<int32_t> fixed_length);
  Operand value_operand(const Value* value, Conversion conversion);
  Operand list_operand(const Argument::List& items, const c10::Type& element);
  Result result(const Value& value);
  uint32_t take_register(const Value* value);
  uint32_t release_register(const Value* value);

  const Graph& graph_;
  const Code::Constants& constants_;
  Code& code_;
  std::unordered_map<const Value*, uint32_t> registers_;
  std::vector<uint32_t> free_;
};

}  // namespace exporters
