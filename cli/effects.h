#pragma once

#include "exporters/patching/effects.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

// What `hfx export --explain` shows.
namespace hfx {

/// A table, one line for each patch and fix: how often it took effect, and the first places.
std::string effects_text(const std::vector<exporters::Effect>& effects);
/// All of it.
nlohmann::ordered_json effects_json(const std::vector<exporters::Effect>& effects);

}  // namespace hfx
