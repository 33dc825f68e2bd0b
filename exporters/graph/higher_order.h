#pragma once

#include "exporters/graph/graph.h"

#include <vector>

namespace exporters {

/// The call of a higher-order op by what it does.
struct HigherOrderCall {
  enum class Kind {
    kInline,  ///< runs its one subgraph on `operands`
    kCond,    ///< runs the first subgraph if the condition holds, else the second, on the operands behind it
    kWhile,   ///< while the first subgraph gives true, runs the second, which gives the new carried values
  };
  Kind kind = Kind::kInline;
  std::vector<const GraphArgument*> branches;
  std::vector<Argument> operands;  ///< of kCond with the condition first; of kWhile with the carried first
  size_t carried = 0;              ///< kWhile: how many of `operands`; as many as the node has outputs
};

/// Reads cond, while_loop, and those ops whose subgraph is simply run, with grad mode, autocast or a name around it.
/// Throws Error that names the node for other ops (map, scan, …), for arguments of another form than the op's, and for
/// subgraphs whose numbers of inputs and outputs don't fit the call.
HigherOrderCall read_higher_order(const Node& node);
/// Whether the op is one of kInline.
bool only_runs_subgraph(const Node& node);

}  // namespace exporters
