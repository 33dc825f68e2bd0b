#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hfx {

/// The words of --set: field=value. Throws Error for others.
std::vector<std::pair<std::string, std::string>> settings_of(const std::vector<std::string>& words);

}  // namespace hfx
