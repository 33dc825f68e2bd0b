#pragma once

#include "exporters/interpreter/code.h"

#include <vector>

namespace exporters {

/// A higher-order op as the interpreter runs it.
struct HigherOrderCall {
  Instruction::Kind kind = Instruction::Kind::kInline;
  std::vector<const GraphArgument*> branches;  ///< in the order that `kind` says
  std::vector<Argument> operands;              ///< of kCond with the condition first; of kWhile with the carried first
  size_t carried = 0;                          ///< kWhile
};

/// Reads cond, while_loop, and those ops whose subgraph is simply run, with grad mode, autocast or a name around it.
/// Throws Error that names the node for other ops (map, scan, …), for arguments of another form than the op's, and for
/// subgraphs whose numbers of inputs and outputs don't fit the call.
HigherOrderCall read_higher_order(const Node& node);

}  // namespace exporters
