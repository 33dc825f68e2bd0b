#pragma once

#include "exporters/executorch/xnnpack/graph.h"

#include <string>

namespace exporters::executorch::xnnpack {

/// The id that a program's delegates have for this backend.
constexpr std::string_view kBackendId = "XnnpackBackend";

/// The delegate's blob. Constants are not in it: it refers to the program's named data by their keys. The same graph
/// gives the same bytes.
/// Throws Error that names the node and value when an id leaves the list, a value is an input or output twice or passes
/// through untouched, or a constant's size is not what dims and dtype need.
std::string serialize(const XnnGraph& graph);

/// Adds a blob to the program, and the graph's constants to its named data; gives the delegate.
Delegate add_delegate(Program& program, const XnnGraph& graph);

/// A constant under a key made of its content (XXH3, 128 bits), so that equal weights are stored and packed once, and
/// the runtime's cache of packed weights, which knows programs by these keys only, never mixes up two. Reads the bytes
/// in steps and leaves none of a file's pages resident.
Constant constant(Bytes bytes);

}  // namespace exporters::executorch::xnnpack
