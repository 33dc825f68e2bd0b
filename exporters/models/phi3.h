#pragma once

#include "exporters/models/config.h"

#include <cstdint>
#include <optional>

namespace exporters::models {

/// Where LongRoPE changes its rotations: the reference's generate recomputes the cache there (registry.h,
/// cache_boundary).
std::optional<int64_t> phi3_cache_boundary(const ModelConfig& config);

}  // namespace exporters::models
