#pragma once

#include <span>
#include <string>
#include <string_view>

namespace exporters::models {

/// The hint for an unknown name: near ones, or all known ones when nothing is near.
std::string suggest(std::string_view name, std::span<const std::string_view> known);

}  // namespace exporters::models
