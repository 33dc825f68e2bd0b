#pragma once

#include "exporters/graph/exported_program.h"

#include <memory>
#include <vector>

namespace exporters {

/// The same nodes, names and metadata in a graph of their own, subgraphs too. Linear in the graph.
std::shared_ptr<Graph> clone(const Graph& graph);

/// Copies the calls of `from` to the insertion point of `to`, with `inputs` (values of `to`, or constants) for its
/// placeholders. Gives its outputs as they are in `to`.
std::vector<Argument> copy_calls(const Graph& from, Graph& to, const std::vector<Argument>& inputs);

/// A program that can be rewritten without changing the given one. Tensors of the state are shared, not copied.
ExportedProgram clone(const ExportedProgram& program);

/// A copy of a subgraph as a program of its own, whose inputs are the placeholders. It knows no ranges and has no state.
ExportedProgram program_of(const Graph& subgraph);

}  // namespace exporters
