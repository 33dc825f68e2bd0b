#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// The candidates closest to `name` in edit distance (insert, delete, replace, swap of neighbours; case costs
/// nothing), nearest first, at most `count`; none that differ in more than about a third of the name. Names over
/// 256 bytes have no near ones, so that hostile input costs nothing.
std::vector<std::string> near_misses(std::string_view name, std::span<const std::string> candidates, size_t count = 3);

/// "Did you mean 'input_ids'?" or, for several, "Did you mean 'a', 'b' or 'c'?"; empty when nothing is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// The hint for an unknown name where all known ones are few enough to show: did_you_mean, or "Known are: a, b, c."
/// when nothing is near.
std::string suggest(std::string_view name, std::span<const std::string_view> known);

}  // namespace exporters
