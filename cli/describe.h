#pragma once

#include "exporters/framework/exporter.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

// What a program takes and gives, as `hfx export` and `hfx inspect` show it.
namespace hfx {

/// Inputs and outputs in a table, and the conditions on their sizes under it.
std::string description_text(const exporters::ProgramDescription& description);

/// {"inputs": {name: {"dtype", "shape"}}, "outputs": …, "conditions": […]}; sizes are numbers, or the text of a symbol.
/// After an export that rounded weights also "quantization".
nlohmann::ordered_json description_json(const exporters::ProgramDescription& description);

/// What was rounded, what was not and why, and the error, a line each.
std::string quantization_text(const exporters::QuantizationSummary& summary);

}  // namespace hfx
