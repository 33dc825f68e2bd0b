#pragma once

#include "exporters/pt2/graph_reader.h"

namespace exporters::pt2 {

/// The names that a signature gives to inputs that are constants, one for each input; empty for others.
std::vector<std::string> constant_input_names(const Json& signature);

/// `graph` has read the program's graph. Throws Error for kinds that an inference program has not: gradients, and
/// custom objects, which only a pickle holds.
GraphSignature read_signature(const Json& signature, GraphReader& graph, const Graph& target);

}  // namespace exporters::pt2
