#include "exporters/executorch/edge/lower.h"

#include "exporters/executorch/edge/kernels.h"
#include "exporters/executorch/edge/passes.h"
#include "exporters/graph/op_name.h"
#include "exporters/passes/cse.h"
#include "exporters/passes/dead_code.h"
#include "exporters/support/error.h"

#include <fmt/format.h>

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

EdgeProgram lower_to_edge(const ExportedProgram& program, DecompositionTable table, const Partitioner* partitioner,
                          const std::function<void(ExportedProgram&)>& fix) {
  if (partitioner != nullptr) {
    partitioner->keep_ops(table);
  }
  ExportedProgram edge = run_decompositions(program, table);
  fix(edge);
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
  verify(edge);
  return EdgeProgram(std::move(edge));
}

void check_kernels(const Delegation& delegation) {
  std::map<std::string, std::set<std::string>> missing;  // op → module paths
  for (const ScheduledStep& step : delegation.steps) {
    const auto* node = std::get_if<const Node*>(&step);
    if (node == nullptr) {
      continue;
    }
    const std::string& target = (*node)->target();
    const bool has_kernel =
        is_dispatcher_target(target)
            ? find_kernel(**node) != nullptr || !find_sym_kernel(target).empty() || target == "aten.view_copy.default"
            : !find_sym_kernel(target).empty();
    if (!has_kernel) {
      const std::string& path = (*node)->place().module_path;
      missing[target].insert(path.empty() ? (*node)->describe() : path);
    }
  }
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
