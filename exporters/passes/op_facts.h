#pragma once

#include "exporters/graph/graph.h"

namespace exporters {

/// The same arguments always give the same results, and nothing else happens: no mutation, no randomness, no assertion.
/// Sym ops are; a higher-order op is when its subgraphs are.
bool is_pure(const Node& node);

/// A normalization in training mode, which updates its running statistics although its schema does not say so.
bool updates_statistics(const Node& node);

/// The op writes to one of its inputs, or it is a higher-order op in whose subgraphs one does.
bool mutates_inputs(const Node& node);
/// No op of the graph writes to its inputs.
bool is_functional(const Graph& graph);

}  // namespace exporters
