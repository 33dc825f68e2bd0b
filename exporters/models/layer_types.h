#pragma once

#include "exporters/models/config.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace exporters::models {

/// Which of the layers see only a window: by "layer_types" of the config ("sliding_attention" or "full_attention" for
/// each layer), else by `otherwise`. Throws Error for other types and another number of them.
std::vector<bool> sliding_layers(const ModelConfig& config, size_t layers,
                                 const std::function<bool(size_t)>& otherwise);

}  // namespace exporters::models
