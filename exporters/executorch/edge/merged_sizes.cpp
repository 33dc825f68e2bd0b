// Sizes that depend on which branch of cond runs.
#include "exporters/executorch/edge/bounds.h"
#include "exporters/executorch/edge/passes.h"
#include "exporters/graph/higher_order.h"
#include "exporters/graph/op_name.h"

#include <algorithm>

namespace exporters::executorch {
namespace {

// The sizes of a tensor, or a number; nothing for other results.
std::vector<Expr> sizes_of(const Argument& result) {
  if (const auto* number = result.get_if<int64_t>()) {
    return {Expr(*number)};
  }
  const auto* value = result.get_if<Value*>();
  if (value != nullptr && (*value)->is_tensor()) {
    return (*value)->meta().sizes;
  }
  return value != nullptr && (*value)->kind() == Value::Kind::kSymInt ? std::vector<Expr>{(*value)->sym()}
                                                                      : std::vector<Expr>();
}

void bound_results(ExportedProgram& program, const Node& node, const HigherOrderCall& call) {
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    const std::vector<Expr> merged = sizes_of(node.output(i));
    const std::vector<Expr> first = sizes_of(call.branches[0]->graph->outputs()[i]);
    const std::vector<Expr> second = sizes_of(call.branches[1]->graph->outputs()[i]);
    for (size_t axis = 0; axis < std::min({merged.size(), first.size(), second.size()}); ++axis) {
      const auto symbol = merged[axis].as_symbol();
      if (!symbol || !merged[axis].has_unbacked()) {
        continue;
      }
      const Bounds bounds(program);
      const int64_t max = std::max(bounds.range(first[axis]).max, bounds.range(second[axis]).max);
      Range& range = program.range_constraints[symbol->name()];
      range.max = std::max(range.min, std::min(range.max, max));
    }
  }
}

void bound_results(ExportedProgram& program, const Graph& graph) {
  for (const Node& node : graph) {
    if (node.kind() != Node::Kind::kCall || !is_higher_order_target(node.target())) {
      continue;
    }
    const HigherOrderCall call = read_higher_order(node);
    for (const GraphArgument* branch : call.branches) {
      bound_results(program, *branch->graph);
    }
    if (call.kind == HigherOrderCall::Kind::kCond) {
      bound_results(program, node, call);
    }
  }
}

}  // namespace

void bound_merged_sizes(ExportedProgram& program) { bound_results(program, *program.graph); }

}  // namespace exporters::executorch
