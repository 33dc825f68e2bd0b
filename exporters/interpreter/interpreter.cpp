#include "exporters/interpreter/interpreter.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/graph/print.h"
#include "exporters/interpreter/call_arguments.h"
#include "exporters/interpreter/code.h"
#include "exporters/interpreter/size_check.h"
#include "exporters/interpreter/state_writes.h"
#include "exporters/support/error.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <optional>

namespace exporters {
namespace {

using InputKind = InputSpec::Kind;
using OutputKind = OutputSpec::Kind;
using NamedInputs = std::vector<std::pair<const Value*, std::string>>;

// Not InferenceMode: its tensors could not be written to outside of it, and callers own what a run gives them.
struct WithoutAutograd {
  at::NoGradGuard no_grad;
  at::AutoDispatchBelowAutograd below_autograd;
};

// What people call the placeholder, or its own name where in_spec does not say.
NamedInputs user_inputs(const ExportedProgram& program) {
  std::unordered_map<std::string, std::string> paths;
  if (!program.in_spec.is_leaf()) {
    for (LeafInfo& leaf : program.input_leaves()) {
      paths.emplace(leaf.placeholder, std::move(leaf.path));
    }
  }
  NamedInputs inputs;
  const std::vector<Value*> placeholders = program.graph->placeholders();
  for (size_t i = 0; i < placeholders.size(); ++i) {
    const InputSpec& spec = program.signature.inputs[i];
    if (spec.kind == InputKind::kUserInput) {
      const auto path = paths.find(spec.name);
      inputs.emplace_back(placeholders[i], path == paths.end() ? spec.name : path->second);
    }
  }
  return inputs;
}

Code::Constants fixed_inputs(const ExportedProgram& program) {
  Code::Constants constants;
  const std::vector<Value*> placeholders = program.graph->placeholders();
  for (size_t i = 0; i < placeholders.size(); ++i) {
    const InputSpec& spec = program.signature.inputs[i];
    switch (spec.kind) {
      case InputKind::kUserInput:
        break;
      case InputKind::kParameter:
      case InputKind::kBuffer:
      case InputKind::kTensorConstant:
        constants.emplace(placeholders[i], undeferred(program.state.at(spec.target).tensor));
        break;
      case InputKind::kConstantInput:
        constants.emplace(placeholders[i], constant_to_ivalue(spec.constant, *c10::AnyType::get()));
        break;
      case InputKind::kCustomObj:
      case InputKind::kToken:
        fail("The input '{}' is a custom object or a token, which cannot be run", spec.name);
    }
  }
  return constants;
}

const ExportedProgram& verified(const std::shared_ptr<const ExportedProgram>& program) {
  ensure(program != nullptr, "There is no program to run");
  verify(*program);
  return *program;
}

PyTree::Leaf to_leaf(c10::IValue value) {
  if (value.isTensor()) {
    at::Tensor tensor = std::move(value).toTensor();
    return tensor.defined() ? PyTree::Leaf(std::move(tensor)) : PyTree::Leaf();
  }
  if (value.isNone()) {
    return {};
  }
  if (value.isBool()) {
    return value.toBool();
  }
  if (value.isInt()) {
    return value.toInt();
  }
  if (value.isDouble()) {
    return value.toDouble();
  }
  ensure(value.isString(), "The program gives a {}, which is no leaf of an output", value.tagKind());
  return value.toStringRef();
}

std::string leaf_text(const PyTree::Leaf& leaf) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "None";
        } else if constexpr (std::is_same_v<T, at::Tensor>) {
          return "a tensor";
        } else {
          return to_text(Argument(value));
        }
      },
      leaf);
}

bool same_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() && a.storage().is_alias_of(b.storage());
}

/// Mutations as a signature lists them: new values that are written into buffers and inputs after the run.
class WriteBack {
 public:
  void add(at::Tensor target, at::Tensor value) {
    targets_.push_back(std::move(target));
    values_.push_back(std::move(value));
  }

  /// A value that shares memory with a target would change when that is written.
  void protect(c10::IValue& output) const {
    if (output.isTensor() && is_written(output.toTensor(), targets_.size())) {
      output = output.toTensor().clone();
    }
  }

  void run() {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (is_written(values_[i], i)) {
        values_[i] = values_[i].clone();
      }
    }
    for (size_t i = 0; i < values_.size(); ++i) {
      ensure(targets_[i].sizes() == values_[i].sizes(), "A mutation changes a tensor of sizes [{}] to [{}]",
             fmt::join(targets_[i].sizes(), ", "), fmt::join(values_[i].sizes(), ", "));
      targets_[i].copy_(values_[i]);
    }
  }

  bool empty() const { return targets_.empty(); }

 private:
  bool is_written(const at::Tensor& tensor, size_t except) const {
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (i != except && same_storage(tensor, targets_[i])) {
        return true;
      }
    }
    return false;
  }

  std::vector<at::Tensor> targets_;
  std::vector<at::Tensor> values_;
};

}  // namespace

struct Interpreter::Impl {
  std::shared_ptr<const ExportedProgram> program;
  NamedInputs inputs;
  Code code;
  SizeCheck size_check;
  bool mutates = false;
  bool writes_state = false;
  mutable std::mutex state_mutex;  ///< held by runs that write to parameters, buffers or constants

  explicit Impl(std::shared_ptr<const ExportedProgram> given)
      : program(std::move(given)),
        inputs(user_inputs(verified(program))),
        code(*program->graph, fixed_inputs(*program)),
        size_check(*program, inputs),
        writes_state(writes_to_state(*program)) {
    for (const OutputSpec& spec : program->signature.outputs) {
      mutates = mutates || !is_user_output(spec);
    }
  }

  static bool is_user_output(const OutputSpec& spec) {
    return spec.kind == OutputKind::kUserOutput || spec.kind == OutputKind::kLossOutput;
  }

  c10::IValue input_value(const at::Tensor& tensor, size_t i) const {
    const auto& [placeholder, name] = inputs[i];
    if (placeholder->is_tensor()) {
      return tensor;
    }
    ensure(tensor.defined() && tensor.dim() == 0 && !tensor.is_floating_point(),
           "Input '{}' is an integer: give it as a 0-d tensor", name);
    return tensor.item().toLong();
  }

  std::vector<PyTree::Leaf> run(std::vector<c10::IValue> values) const {
    const WithoutAutograd guard;
    SizeCheck::Symbols symbols = size_check.bind(values);
    std::unique_lock<std::mutex> lock(state_mutex, std::defer_lock);
    if (writes_state) {
      lock.lock();
    }
    const std::vector<c10::IValue> kept = mutates ? values : std::vector<c10::IValue>();
    const Code::Observer observer = [&](const Node& node, std::span<const c10::IValue> outputs) {
      size_check.observe(node, outputs, symbols);
    };
    std::vector<c10::IValue> outputs =
        code.run(std::move(values), size_check.needs_observation() ? &observer : nullptr);
    if (mutates) {
      write_back(kept, outputs);
    }
    return user_leaves(std::move(outputs));
  }

  at::Tensor mutated(const OutputSpec& spec, const std::vector<c10::IValue>& values) const {
    if (spec.kind != OutputKind::kUserInputMutation) {
      return program->state.at(spec.target).tensor;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].first->name() == spec.target) {
        return values[i].toTensor();
      }
    }
    fail("The program mutates '{}', which is no input", spec.target);
  }

  void write_back(const std::vector<c10::IValue>& values, std::vector<c10::IValue>& outputs) const {
    const std::vector<OutputSpec>& specs = program->signature.outputs;
    WriteBack writes;
    for (size_t i = 0; i < specs.size(); ++i) {
      ensure(specs[i].kind != OutputKind::kToken, "A program with token outputs cannot be run");
      if (!is_user_output(specs[i])) {
        writes.add(mutated(specs[i], values), outputs[i].toTensor());
      }
    }
    for (size_t i = 0; i < specs.size(); ++i) {
      if (is_user_output(specs[i])) {
        writes.protect(outputs[i]);
      }
    }
    writes.run();
  }

  std::vector<PyTree::Leaf> user_leaves(std::vector<c10::IValue> outputs) const {
    std::vector<PyTree::Leaf> leaves;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (is_user_output(program->signature.outputs[i])) {
        leaves.push_back(to_leaf(std::move(outputs[i])));
      }
    }
    return leaves;
  }

  c10::IValue leaf_value(const PyTree::Leaf& leaf, size_t i) const {
    if (const auto* tensor = std::get_if<at::Tensor>(&leaf)) {
      return input_value(*tensor, i);
    }
    const auto& [placeholder, name] = inputs[i];
    ensure(!placeholder->is_tensor(), "Input '{}' has to be a tensor, it is {}", name, leaf_text(leaf));
    const auto* integer = std::get_if<int64_t>(&leaf);
    ensure(integer != nullptr, "Input '{}' has to be an integer, it is {}", name, leaf_text(leaf));
    return *integer;
  }
};

Interpreter::Interpreter(std::shared_ptr<const ExportedProgram> program)
    : impl_(std::make_unique<const Impl>(std::move(program))) {}

Interpreter::~Interpreter() = default;

Interpreter module(const ExportedProgram& program) {
  return Interpreter(std::make_shared<const ExportedProgram>(program));
}

const ExportedProgram& Interpreter::program() const { return *impl_->program; }

std::vector<PyTree::Leaf> Interpreter::run(std::span<const at::Tensor> inputs) const {
  std::vector<std::string> names;
  for (const auto& [placeholder, name] : impl_->inputs) {
    names.push_back(name);
  }
  ensure(inputs.size() == names.size(), "The program takes {} inputs ({}), it was given {}", names.size(),
         fmt::join(names, ", "), inputs.size());
  std::vector<c10::IValue> values;
  values.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(impl_->input_value(inputs[i], i));
  }
  return impl_->run(std::move(values));
}

PyTree Interpreter::operator()(const std::vector<PyTree>& args, const PyTree& kwargs) const {
  const std::vector<PyTree::Leaf> leaves = flatten_call(program().in_spec, args, kwargs);
  std::vector<c10::IValue> values;
  size_t next_leaf = 0;
  for (const InputSpec& spec : program().signature.inputs) {
    if (spec.kind == InputKind::kConstantInput) {
      const PyTree::Leaf& leaf = leaves[next_leaf++];
      ensure(is_same_constant(leaf, spec.constant), "The input '{}' is {}, the program was traced with {}", spec.name,
             leaf_text(leaf), to_text(spec.constant));
    } else if (spec.kind == InputKind::kUserInput) {
      values.push_back(impl_->leaf_value(leaves[next_leaf++], values.size()));
    }
  }
  return PyTree::unflatten(program().out_spec, impl_->run(std::move(values)));
}

}  // namespace exporters
