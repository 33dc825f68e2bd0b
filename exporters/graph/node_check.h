#pragma once

#include "exporters/graph/graph.h"
#include "exporters/support/error.h"

#include <utility>

namespace exporters {

/// Throws Error about this node: its description and the message, which begins with " " or ": ".
template <typename... Args>
[[noreturn]] void fail_at(const Node& node, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(node.describe() + fmt::format(format, std::forward<Args>(args)...));
}

/// As above unless the condition holds. The node is described only when it has to be.
template <typename... Args>
void ensure_at(const Node& node, bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) {
    fail_at(node, format, std::forward<Args>(args)...);
  }
}

}  // namespace exporters
