#include "exporters/interpreter/code.h"

#include "exporters/interpreter/code_builder.h"
#include "exporters/interpreter/sym_eval.h"
#include "exporters/support/error.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>

namespace exporters {
namespace {

using Registers = std::vector<c10::IValue>;
using torch::jit::Stack;

c10::IValue fetch(const Operand& operand, Registers& registers) {
  switch (operand.kind) {
    case Operand::Kind::kConstant:
      return operand.constant;
    case Operand::Kind::kRegister: {
      c10::IValue& stored = registers[operand.index];
      c10::IValue value = operand.last_use ? std::move(stored) : stored;
      return operand.conversion == Conversion::kNone ? value : convert(std::move(value), operand.conversion);
    }
    case Operand::Kind::kList:
      break;
  }
  std::vector<c10::IValue> items;
  items.reserve(operand.items.size());
  for (const Operand& item : operand.items) {
    items.push_back(fetch(item, registers));
  }
  return pack_list(operand.list_kind, std::move(items));
}

void store_elements(const Result& result, const c10::IValue& value, Registers& registers) {
  const c10::List<at::Tensor> list = value.toTensorList();
  ensure(list.size() == result.elements.size(), "The op gives {} tensors, the program was traced with {}", list.size(),
         result.elements.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (result.elements[i] != Result::kUnused) {
      registers[result.elements[i]] = list.get(i);
    }
  }
}

void store(const Instruction& instruction, Stack& outputs, Registers& registers) {
  ensure(outputs.size() == instruction.results.size(), "The op gives {} results, the program has {}", outputs.size(),
         instruction.results.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Result& result = instruction.results[i];
    if (!result.elements.empty()) {
      store_elements(result, outputs[i], registers);
    }
    if (result.index != Result::kUnused) {
      registers[result.index] = std::move(outputs[i]);
    }
  }
}

void replace(Stack& stack, c10::IValue result) {
  stack.clear();
  stack.push_back(std::move(result));
}

bool is_true(const c10::IValue& condition) {
  return condition.isTensor() ? condition.toTensor().item().toBool() : condition.toBool();
}

void run_branch(const Instruction& instruction, Stack& stack) {
  const bool condition = is_true(stack[0]);
  stack.erase(stack.begin());
  stack = instruction.branches[condition ? 0 : 1]->run(std::move(stack));
}

void run_loop(const Instruction& instruction, Stack& stack) {
  const Code& condition = *instruction.branches[0];
  const Code& body = *instruction.branches[1];
  while (is_true(condition.run(stack).front())) {
    std::vector<c10::IValue> next = body.run(stack);
    std::move(next.begin(), next.end(), stack.begin());
  }
  stack.resize(instruction.carried);
}

void execute(const Instruction& instruction, Stack& stack) {
  switch (instruction.kind) {
    case Instruction::Kind::kOp:
      return instruction.op->callBoxed(stack);
    case Instruction::Kind::kSize:
      return replace(stack, stack[0].toTensor().size(stack[1].toInt()));
    case Instruction::Kind::kSymOp:
      return replace(stack, evaluate_sym_op(instruction.sym_op, stack));
    case Instruction::Kind::kCond:
      return run_branch(instruction, stack);
    case Instruction::Kind::kWhile:
      return run_loop(instruction, stack);
    case Instruction::Kind::kInline:
      stack = instruction.branches[0]->run(std::move(stack));
      return;
  }
}

void call(const Instruction& instruction, Registers& registers, Stack& stack) {
  stack.clear();
  for (const Operand& operand : instruction.operands) {
    stack.push_back(fetch(operand, registers));
  }
  execute(instruction, stack);
}

template <typename Function>
void named_errors(const Node& node, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    throw error.with_context(node.describe());
  } catch (const c10::Error& error) {
    throw Error(error.what_without_backtrace(), node.describe());
  } catch (const std::exception& error) {
    throw Error(error.what(), node.describe());
  }
}

}  // namespace

Code::Code(const Graph& graph, const Constants& constants) { CodeBuilder(graph, constants, *this).build(); }

std::vector<c10::IValue> Code::run(std::vector<c10::IValue> inputs, const Observer* observer) const {
  ensure(inputs.size() == inputs_.size(), "The graph takes {} inputs, it was given {}", inputs_.size(), inputs.size());
  Registers registers(register_count_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs_[i] != Result::kUnused) {
      registers[inputs_[i]] = std::move(inputs[i]);
    }
  }
  inputs.clear();
  Stack stack;
  for (const Instruction& instruction : instructions_) {
    named_errors(*instruction.node, [&] {
      call(instruction, registers, stack);
      if (observer != nullptr) {
        (*observer)(*instruction.node, stack);
      }
      store(instruction, stack, registers);
    });
  }
  std::vector<c10::IValue> outputs;
  outputs.reserve(outputs_.size());
  for (const Operand& output : outputs_) {
    outputs.push_back(fetch(output, registers));
  }
  return outputs;
}

std::vector<c10::IValue> Code::run_alone(const Node& node, const Constants& constants) {
  Code code;
  CodeBuilder(node.graph(), constants, code).build_call(node);
  Registers registers(code.register_count_);
  Stack stack;
  named_errors(node, [&] { call(code.instructions_.front(), registers, stack); });
  return stack;
}

}  // namespace exporters
