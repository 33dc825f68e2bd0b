#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace exporters {

/// Where bytes go that come in order and in pieces.
struct ByteSink {
  std::function<void(std::span<const std::byte>)> write;
  std::function<void(uint64_t)> write_zeros;  ///< so many zero bytes: holes of a sparse file
};

}  // namespace exporters
