#pragma once

#include "exporters/graph/graph.h"
#include "exporters/passes/emit.h"

#include <functional>
#include <optional>

namespace exporters {

/// A size at the program's sample inputs, or at made-up ones.
using SampleSize = std::function<int64_t(const Expr&)>;

/// How a call's results relate to the memory of its inputs.
enum class Aliasing {
  kFresh,  ///< memory of their own
  kView,   ///< the memory of one input
  kUnsure  ///< may be either, depending on more than metadata
};

struct AliasInfo {
  Aliasing aliasing = Aliasing::kFresh;
  size_t input = 0;  ///< kView: the position of the input among the schema's arguments
};

/// From the schema's alias annotations, and from metadata for ops that give their input back only sometimes (reshape,
/// contiguous, to, dropout). Not for ops that write to inputs.
AliasInfo aliasing_of(const Node& node, const SampleSize& sample);

/// What the viewed tensor is once `contents` is written into the view: the view's inverse.
/// `out`: the view, an output or list element of `view`; `base`: the viewed tensor before. Throws Error for views that
/// have no inverse.
Value* write_through(Emit& emit, const Node& view, const Value& out, Value* base, Value* contents);

}  // namespace exporters
