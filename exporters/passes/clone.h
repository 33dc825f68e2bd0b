#pragma once

#include "exporters/graph/exported_program.h"

#include <memory>

namespace exporters {

/// The same nodes, names and metadata in a graph of their own, subgraphs too. Linear in the graph.
std::shared_ptr<Graph> clone(const Graph& graph);

/// A program that can be rewritten without changing the given one. Tensors of the state are shared, not copied.
ExportedProgram clone(const ExportedProgram& program);

}  // namespace exporters
