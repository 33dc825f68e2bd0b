#pragma once

#include "exporters/graph/graph.h"
#include "exporters/passes/emit.h"
#include "exporters/passes/view_ops.h"

#include <optional>
#include <string>

namespace exporters {

/// What an op that writes to an input is for functionalization.
enum class Mutation {
  kValue,    ///< writes elements of its first argument and gives it back
  kNothing,  ///< marks the tensor for autograd only
  kMetadata  ///< makes the tensor a view of itself: `unsqueeze_`, `t_`
};

/// Throws Error, with the reason, for ops that cannot be functionalized: out= variants, ops that write to several
/// tensors or to another one than the first, those that exchange or resize storage.
Mutation mutation_of(const Node& node);

/// "aten.add.Tensor" for "aten.add_.Tensor", found by name and checked by schema. Throws Error when there is none.
std::string functional_target(const Node& node);

/// Emits what the written tensor holds after the op, with the dtype and sizes of `self`. `node` is the in-place op with
/// its inputs up to date, `owns_memory`: the result must not share memory with another input.
Value* functional_result(Emit& emit, const Node& node, bool owns_memory, const SampleSize& sample);

}  // namespace exporters
