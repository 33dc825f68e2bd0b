#include "exporters/executorch/edge/passes.h"
#include "exporters/graph/deferred_tensor.h"
#include "exporters/graph/op_name.h"
#include "exporters/interpreter/evaluate.h"
#include "exporters/passes/dead_code.h"
#include "exporters/passes/emit.h"
#include "exporters/passes/op_facts.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace exporters::executorch {
namespace {

using Known = std::unordered_map<const Value*, at::Tensor>;

std::unordered_set<std::string> mutated_state(const ExportedProgram& program) {
  std::unordered_set<std::string> result;
  for (const OutputSpec& spec : program.signature.outputs) {
    if (spec.kind == OutputSpec::Kind::kBufferMutation || spec.kind == OutputSpec::Kind::kParameterMutation) {
      result.insert(spec.target);
    }
  }
  return result;
}

// Small constants of the program.
Known known_state(const ExportedProgram& program) {
  const auto mutated = mutated_state(program);
  Known known;
  for (const InputSpec& spec : program.signature.inputs) {
    const auto state = program.state.find(spec.target);
    if (state != program.state.end() && !mutated.contains(spec.target) &&
        state->second.tensor.nbytes() <= kLargestFolded) {
      known.emplace(program.graph->find(spec.name), state->second.tensor);
    }
  }
  return known;
}

uint64_t static_bytes(const TensorMeta& meta) {
  uint64_t bytes = c10::elementSize(meta.dtype);
  for (const Expr& size : meta.sizes) {
    const auto number = size.as_int();
    if (!number || *number < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(*number), &bytes)) {
      return kLargestFolded + 1;
    }
  }
  return bytes;
}

bool can_fold(const Node& node, const Known& known) {
  if (node.kind() != Node::Kind::kCall || !is_dispatcher_target(node.target()) || !is_pure(node) ||
      node.outputs().size() != 1 || !node.output()->is_tensor() ||
      static_bytes(node.output()->meta()) > kLargestFolded) {
    return false;
  }
  const std::vector<Value*> inputs = node.inputs();
  return std::all_of(inputs.begin(), inputs.end(), [&](const Value* input) { return known.contains(input); });
}

}  // namespace

Value* add_constant(ExportedProgram& program, std::string_view name_hint, StateTensor state) {
  Graph& graph = *program.graph;
  const std::string name = graph.reserve_name("c_" + std::string(name_hint));
  Value* placeholder = graph.add_placeholder(name);
  TensorMeta& meta = placeholder->meta();
  meta.dtype = state.tensor.scalar_type();
  meta.sizes.assign(state.tensor.sizes().begin(), state.tensor.sizes().end());
  meta = contiguous_meta(meta);
  program.signature.inputs.push_back({InputSpec::Kind::kTensorConstant, placeholder->name(), name, true, {}});
  program.state[name] = std::move(state);
  return placeholder;
}

void fold_constants(ExportedProgram& program) {
  Graph& graph = *program.graph;
  Known known = known_state(program);
  std::vector<Value*> folded;
  for (const Node& node : graph) {
    if (!can_fold(node, known)) {
      continue;
    }
    const auto results = evaluate(node, [&](const Value& value) { return undeferred(known.at(&value)); });
    at::Tensor result = results.at(0).toTensor().contiguous();
    known.emplace(node.output(), std::move(result));
    folded.push_back(node.output());
  }
  for (Value* value : folded) {
    const std::vector<Node*> users = value->users();
    const bool is_used = std::any_of(users.begin(), users.end(), [&](const Node* user) {
      return user->outputs().empty() || !known.contains(user->output());
    });
    if (is_used) {
      value->replace_all_uses_with(add_constant(program, "folded_" + value->name(), {known.at(value), std::nullopt}));
    }
  }
  eliminate_dead_code(graph);
  update_outputs(program);
}

}  // namespace exporters::executorch
