#pragma once

#include "exporters/graph/graph.h"
#include "exporters/passes/emit.h"
#include "exporters/passes/view_ops.h"

#include <optional>
#include <string>
#include <vector>

namespace exporters {

/// What an op that writes to an input is for functionalization.
enum class Mutation {
  kValue,     ///< writes elements of its first argument and gives it back
  kList,      ///< writes elements of the tensors of its first argument: `_foreach_add_`
  kOutputs,   ///< writes its results to its out= arguments and gives these back
  kNothing,   ///< marks the tensor for autograd only
  kMetadata,  ///< makes the tensor a view of itself: `unsqueeze_`, `t_`
  kMemory     ///< gives the tensor other memory, or more or less of it: `set_`, `resize_`
};

/// Throws Error, with the reason, for ops that cannot be functionalized: those that write to other arguments than
/// these, and those that exchange storage in a way that a graph cannot express.
Mutation mutation_of(const Node& node);

/// The tensors that a node of this mutation writes to, in the order of its results.
std::vector<Value*> written_tensors(const Node& node, Mutation mutation);

/// "aten.add.Tensor" for "aten.add_.Tensor", found by name and checked by schema. Throws Error when there is none.
std::string functional_target(const Node& node);

/// Emits what the written tensors hold after the op, in their order, with their dtypes. Sizes are theirs too, but those
/// of the op's results where out= arguments are resized. `node` is the in-place op with its inputs up to date,
/// `owns_memory`: the result must not share memory with another input.
std::vector<Value*> functional_results(Emit& emit, const Node& node, Mutation mutation, bool owns_memory,
                                       const SampleSize& sample);

}  // namespace exporters
