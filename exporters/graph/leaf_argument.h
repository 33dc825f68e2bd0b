#pragma once

#include "exporters/graph/argument.h"
#include "exporters/graph/pytree.h"

namespace exporters {

/// A leaf that is no tensor as an argument of a node; None for a tensor.
inline Argument constant_argument(const PyTree::Leaf& leaf) {
  return std::visit(
      [](const auto& value) -> Argument {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, at::Tensor>) {
          return {};
        } else {
          return value;
        }
      },
      leaf);
}

}  // namespace exporters
