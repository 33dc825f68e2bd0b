#include "exporters/executorch/edge/lower.h"

#include "exporters/executorch/edge/kernels.h"
#include "exporters/executorch/edge/passes.h"
#include "exporters/graph/op_name.h"
#include "exporters/passes/clone.h"
#include "exporters/passes/cse.h"
#include "exporters/passes/dead_code.h"
#include "exporters/support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace exporters::executorch {
namespace {

void merge_equal_calls(ExportedProgram& program) {
  merge_common_subexpressions(*program.graph);
  eliminate_dead_code(*program.graph);
}

}  // namespace

std::span<const EdgePass> edge_passes() {
  static constexpr auto kPasses = std::to_array<EdgePass>({
      {"bound_merged_sizes", "A size that depends on which branch runs has the larger of their bounds.",
       bound_merged_sizes},
      {"make_contiguous", "Kernels take and give dense tensors.", make_contiguous},
      {"copy_views", "The runtime has views only as et_view and as ops that copy.", copy_views},
      {"drop_no_ops", "Without writes and layouts a copy of a tensor is the tensor.", drop_no_ops},
      {"drop_expands", "Kernels broadcast: a tensor that was expanded for one takes memory for nothing.", drop_expands},
      {"read_sizes_from_inputs", "A delegate need not give out a tensor whose size only is asked for.",
       read_sizes_from_inputs},
      {"merge_equal_calls", "Layers make the same numbers anew.", merge_equal_calls},
      {"fold_constants", "What is known is computed once, at the export.", fold_constants},
      {"merge_equal_calls", "Layers compute masks anew.", merge_equal_calls},
  });
  return kPasses;
}

namespace {

EdgeProgram lower_functional(ExportedProgram edge, const Partitioner* partitioner);

// What stands for an operand inside is a constant if it is one outside; what a loop carries changes.
const StateTensor* constant_operand(const EdgeProgram& outer, const HigherOrderCall& call, size_t operand) {
  const auto* value = operand < call.carried ? nullptr : call.operands[operand].get_if<Value*>();
  return value == nullptr ? nullptr : outer.constant(**value);
}

// What a branch finds in its data has sizes of its own, of which the program says nothing.
void declare_own_sizes(ExportedProgram& program) {
  const auto declare = [&](const Expr& size) {
    for (const Symbol symbol : size.free_symbols()) {
      program.range_constraints.try_emplace(symbol.name());
    }
  };
  for (const Node& node : *program.graph) {
    for (const Value* value : node.outputs()) {
      std::for_each(value->meta().sizes.begin(), value->meta().sizes.end(), declare);
      declare(value->sym());
    }
  }
}

// Constants are named after their placeholders: names of state could be those that passes make up inside.
ExportedProgram branch_program(const EdgeProgram& outer, const HigherOrderCall& call, const GraphArgument& branch) {
  ExportedProgram program = program_of(*branch.graph);
  program.range_constraints = outer.program().range_constraints;
  program.guards = outer.program().guards;
  declare_own_sizes(program);
  const std::vector<Value*> placeholders = program.graph->placeholders();
  const size_t first = call.operands.size() - placeholders.size();  // the condition of cond is no input
  for (size_t i = 0; i < placeholders.size(); ++i) {
    if (const StateTensor* state = constant_operand(outer, call, first + i)) {
      const std::string& name = placeholders[i]->name();
      program.signature.inputs[i] = {InputSpec::Kind::kTensorConstant, name, name, true, {}};
      program.state.emplace(name, *state);
    }
  }
  return program;
}

void lower_branches(EdgeProgram& outer, const Node& node, const Partitioner* partitioner) {
  EdgeCall call{read_higher_order(node), {}};
  for (const GraphArgument* branch : call.call.branches) {
    try {
      call.branches.push_back(std::make_unique<const EdgeProgram>(
          lower_functional(branch_program(outer, call.call, *branch), partitioner)));
    } catch (const Error& error) {
      throw error.with_context(node.describe() + ", " + branch->name);
    }
  }
  outer.add_call(node, std::move(call));
}

EdgeProgram lower_functional(ExportedProgram edge, const Partitioner* partitioner) {
  for (const EdgePass& pass : edge_passes()) {
    try {
      pass.run(edge);
      verify(edge);
    } catch (const Error& error) {
      throw error.with_context(pass.name);
    }
  }
  if (partitioner != nullptr) {
    partitioner->prepare(edge);
    const EdgeProgram view(std::move(edge));
    edge = view.program();
    lower_matmul(edge, [&](const Node& node) { return partitioner->refuse(node, view).empty(); });
    read_sizes_from_inputs(edge);
    merge_equal_calls(edge);
  }
  spell_out_remainders(edge);
  verify(edge);
  EdgeProgram result(std::move(edge));
  for (const Node& node : result.graph()) {
    if (node.kind() == Node::Kind::kCall && is_higher_order_target(node.target())) {
      lower_branches(result, node, partitioner);
    }
  }
  return result;
}

bool is_computable(const Node& node) {
  const std::string& target = node.target();
  const bool has_sym_kernel = !find_sym_kernel(target).empty();
  return is_dispatcher_target(target)
             ? find_kernel(node) != nullptr || has_sym_kernel || target == "aten.view_copy.default"
             : has_sym_kernel;
}

}  // namespace

EdgeProgram lower_to_edge(const ExportedProgram& program, DecompositionTable table, const Partitioner* partitioner,
                          const std::function<void(ExportedProgram&)>& fix) {
  if (partitioner != nullptr) {
    partitioner->keep_ops(table);
  }
  ExportedProgram edge = run_decompositions(program, table);
  fix(edge);
  return lower_functional(std::move(edge), partitioner);
}

void check_kernels(const Delegation& delegation) {
  std::map<std::string, std::set<std::string>> missing;  // op → module paths
  for_each_delegation(delegation, [&](const Delegation& each) {
    for (const ScheduledStep& step : each.steps) {
      const auto* node = std::get_if<const Node*>(&step);
      if (node != nullptr && !each.branches.contains(*node) && !is_computable(**node)) {
        const std::string& path = (*node)->place().module_path;
        missing[(*node)->target()].insert(path.empty() ? (*node)->describe() : path);
      }
    }
  });
  if (missing.empty()) {
    return;
  }
  std::string list;
  for (const auto& [target, paths] : missing) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", target, fmt::join(paths, ", "));
  }
  throw Error("ExecuTorch has no kernel for: " + list, {},
              "Register a patch or a decomposition that takes these ops apart: see docs/adding_a_patch.md.");
}

}  // namespace exporters::executorch
