#pragma once

#include "exporters/graph/graph.h"

#include <string>

namespace exporters {

/// As it stands in a printed call: "add_1", "1.0", "[1, None]", "torch.float32", "device('cpu')".
std::string to_text(const Argument& argument);
/// "f32[s0, 3]"
std::string to_text(const TensorMeta& meta);

}  // namespace exporters
