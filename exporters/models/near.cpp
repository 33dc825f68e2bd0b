#include "exporters/models/near.h"

#include "exporters/support/near.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <vector>

namespace exporters::models {

std::string suggest(std::string_view name, std::span<const std::string_view> known) {
  const std::vector<std::string> candidates(known.begin(), known.end());
  std::string hint = did_you_mean(name, candidates);
  return hint.empty() ? fmt::format("Known are: {}", fmt::join(known, ", ")) : hint;
}

}  // namespace exporters::models
