#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/graph/pytree.h"

#include <vector>

namespace exporters {

/// The leaves of a call in the order of `in_spec`, which is (args tuple, kwargs dict). Throws Error for missing and
/// surplus arguments and for containers of another structure.
std::vector<PyTree::Leaf> flatten_call(const TreeSpec& in_spec, const std::vector<PyTree>& args, const PyTree& kwargs);

/// Whether a leaf is the constant that the program was traced with.
bool is_same_constant(const PyTree::Leaf& leaf, const Argument& constant);

}  // namespace exporters
