#include "exporters/executorch/exporter.h"

#include "exporters/executorch/report.h"
#include "exporters/framework/call_inputs.h"
#include "exporters/support/error.h"

#include <fmt/format.h>

namespace exporters::executorch {
namespace {

const ExecutorchProgram& program_of(const ExportedComponent& component) {
  const auto* program = dynamic_cast<const ExecutorchProgram*>(component.program.get());
  ensure(program != nullptr, "the program was not made by the ExecuTorch exporter");
  return *program;
}

// The method of that name, where the program has one for each of its components.
std::string method_of(const Program& program, const std::string& name) {
  ensure(!program.methods.empty(), "the program has no method");
  for (const std::string& each : {name, std::string("forward")}) {
    if (program.method(each) != nullptr) {
      return each;
    }
  }
  return program.methods.front().name;
}

// What the program was made for in a slot that is no tensor.
std::optional<ExecutorchRunner::Value> constant_of(const EValue& value) {
  if (std::holds_alternative<std::monostate>(value)) {
    return ExecutorchRunner::Value();
  }
  if (const auto* truth = std::get_if<bool>(&value)) {
    return ExecutorchRunner::Value(*truth);
  }
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return ExecutorchRunner::Value(*integer);
  }
  const auto* real = std::get_if<double>(&value);
  return real != nullptr ? std::optional(ExecutorchRunner::Value(*real)) : std::nullopt;
}

Argument argument_of(const ExecutorchRunner::Value& value) {
  return std::visit(
      [](const auto& held) -> Argument {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate> ||
                      std::is_same_v<std::decay_t<decltype(held)>, at::Tensor>) {
          return {};
        } else {
          return held;
        }
      },
      value);
}

PyTree::Leaf leaf_of(ExecutorchRunner::Value value) {
  return std::visit([](auto&& held) -> PyTree::Leaf { return std::forward<decltype(held)>(held); }, std::move(value));
}

}  // namespace

ExecutorchComponentRunner::ExecutorchComponentRunner(const ExportedComponent& component)
    : runner_(program_of(component).runner()),
      method_(method_of(runner_->program(), program_of(component).method())),
      facts_(facts_of(runner_->program(), method_)),
      out_spec_(component.metadata.out_spec) {
  const Method& method = *runner_->program().method(method_);
  // Slots are the leaves of in_spec, in order; a lone file says itself what they are called.
  const TreeSpec& in_spec = component.metadata.in_spec;
  std::vector<std::string> paths;
  if (in_spec.children.size() == 2) {
    paths = in_spec.children[1].leaf_paths();
    ensure(paths.size() == method.inputs.size(), "the program has {} inputs, in_spec {} leaves", method.inputs.size(),
           paths.size());
  }
  for (size_t i = 0; i < method.inputs.size(); ++i) {
    const TensorValue* tensor = method.tensor(method.inputs[i]);
    Input input;
    input.path = !paths.empty()                               ? paths[i]
                 : tensor != nullptr && !tensor->name.empty() ? tensor->name
                                                              : fmt::format("input_{}", i);
    if (tensor == nullptr) {
      input.constant = constant_of(method.values[static_cast<size_t>(method.inputs[i])]);
      ensure(input.constant.has_value(), "input {} of the program is neither a tensor nor a number", i);
    }
    inputs_.push_back(std::move(input));
  }
}

PyTree ExecutorchComponentRunner::run(const NamedInputs& inputs) {
  LeavesByPath given(inputs);
  std::vector<ExecutorchRunner::Value> values;
  std::map<std::string, at::Tensor> tensors;
  for (const Input& input : inputs_) {
    if (!input.constant) {
      const at::Tensor& tensor = tensors[input.path] = given.take_tensor(input.path);
      values.emplace_back(tensor);
      continue;
    }
    if (const auto leaf = given.take(input.path)) {
      check_constant(input.path, *leaf, argument_of(*input.constant));
    }
    values.push_back(*input.constant);
  }
  given.check();
  if (facts_) {
    facts_->check(tensors);
  }
  std::vector<ExecutorchRunner::Value> outputs = runner_->run(values, method_);
  // The last ones are the leaves of out_spec; inputs that the program writes to come before.
  const size_t count = out_spec_.leaf_count();
  ensure(outputs.size() >= count, "the program has {} outputs, out_spec asks for {}", outputs.size(), count);
  std::vector<PyTree::Leaf> leaves;
  for (size_t i = outputs.size() - count; i < outputs.size(); ++i) {
    leaves.push_back(leaf_of(std::move(outputs[i])));
  }
  return PyTree::unflatten(out_spec_, std::move(leaves));
}

}  // namespace exporters::executorch
