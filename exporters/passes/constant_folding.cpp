#include "exporters/passes/constant_folding.h"

#include "exporters/graph/deferred_tensor.h"
#include "exporters/graph/op_name.h"
#include "exporters/interpreter/evaluate.h"
#include "exporters/passes/dead_code.h"
#include "exporters/passes/emit.h"
#include "exporters/passes/op_facts.h"
#include "exporters/support/error.h"

#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

namespace exporters {
namespace {

bool gives_uninitialized_memory(const Node& node) {
  static constexpr std::array<std::string_view, 5> kOps = {"aten.empty", "aten.new_empty", "aten.empty_like",
                                                           "aten.empty_strided", "aten.new_empty_strided"};
  return std::any_of(kOps.begin(), kOps.end(), [&](std::string_view op) {
    return node.target().starts_with(op) && node.target()[op.size()] == '.';
  });
}

class Folding {
 public:
  Folding(ExportedProgram& program, size_t largest) : program_(program), graph_(*program.graph), largest_(largest) {}

  size_t run() {
    const c10::InferenceMode inference(false);  // the results outlive this call, as any tensor of the state
    take_state();
    for (Node& node : graph_) {
      ensure(!mutates_inputs(node), "constants cannot be folded in a graph with in-place ops: functionalize it first");
      if (can_be_run(node)) {
        run(node);
      }
    }
    replace_results();
    return eliminate_dead_code(graph_);
  }

 private:
  void take_state() {
    std::set<std::string> written;
    for (const OutputSpec& output : program_.signature.outputs) {
      if (output.kind == OutputSpec::Kind::kBufferMutation) {
        written.insert(output.target);
      }
    }
    for (const InputSpec& input : program_.signature.inputs) {
      const bool is_constant = input.kind == InputSpec::Kind::kTensorConstant ||
                               (input.kind == InputSpec::Kind::kBuffer && !written.contains(input.target));
      const auto state = is_constant ? program_.state.find(input.target) : program_.state.end();
      if (state != program_.state.end() && state->second.tensor.defined() &&
          state->second.tensor.nbytes() <= largest_) {
        known_.emplace(graph_.find(input.name), undeferred(state->second.tensor));
      }
    }
  }

  // Metadata says beforehand what would come out.
  bool is_small(const Value& value) const {
    if (!value.is_tensor()) {
      return false;
    }
    const auto numel = value.meta().numel().as_int();
    const bool fixed = std::all_of(value.meta().sizes.begin(), value.meta().sizes.end(),
                                   [](const Expr& size) { return size.is_int(); });
    const size_t element = c10::elementSize(value.meta().dtype);
    return fixed && numel && static_cast<size_t>(*numel) <= largest_ / element;
  }

  bool can_be_run(const Node& node) const {
    if (node.kind() != Node::Kind::kCall || !is_dispatcher_target(node.target()) || !is_pure(node) ||
        gives_uninitialized_memory(node)) {
      return false;
    }
    const auto inputs = node.inputs();
    return std::all_of(inputs.begin(), inputs.end(), [&](Value* input) { return known_.contains(input); }) &&
           std::all_of(node.outputs().begin(), node.outputs().end(), [&](Value* output) { return is_small(*output); });
  }

  void run(const Node& node) {
    std::vector<c10::IValue> results;
    try {
      results = evaluate(node, [&](const Value& value) { return c10::IValue(known_.at(&value)); });
    } catch (const Error& error) {
      throw error.with_context("constant folding");
    }
    for (size_t i = 0; i < results.size(); ++i) {
      known_.emplace(node.output(i), results[i].toTensor());
      folded_.push_back(node.output(i));
    }
  }

  bool is_wanted(const Value& value) const {
    const auto users = value.users();
    return std::any_of(users.begin(), users.end(), [&](const Node* user) {
      return user->is_output() || !known_.contains(user->outputs().empty() ? nullptr : user->output(0));
    });
  }

  void replace_results() {
    for (Value* value : folded_) {
      if (is_wanted(*value)) {
        value->replace_all_uses_with(constant(*value));
      }
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i].is_value()) {
        program_.signature.outputs[i].argument = graph_.outputs()[i];
      }
    }
  }

  Value* constant(const Value& value) {
    // A tensor of its own: a view would keep the memory of what it was taken from.
    const at::Tensor tensor = known_.at(&value).contiguous().clone();
    Value* placeholder = graph_.add_placeholder("folded_" + value.name());
    placeholder->meta() = contiguous_meta(value.meta());
    const std::string target = "folded." + value.name();
    program_.signature.inputs.push_back({InputSpec::Kind::kTensorConstant, placeholder->name(), target, true, {}});
    program_.state[target] = {tensor, {}};
    return placeholder;
  }

  ExportedProgram& program_;
  Graph& graph_;
  size_t largest_;
  std::unordered_map<const Value*, at::Tensor> known_;
  std::vector<Value*> folded_;  // in the order of the graph
};

}  // namespace

size_t fold_constants(ExportedProgram& program, size_t largest) { return Folding(program, largest).run(); }

}  // namespace exporters
