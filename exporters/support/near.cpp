#include "exporters/support/near.h"

#include "exporters/support/quote.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace exporters {
namespace {

constexpr size_t kMaxLength = 256;

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// Optimal string alignment distance over three rows, given up (limit + 1) once a whole row is above `limit`.
size_t distance(std::string_view a, std::string_view b, size_t limit) {
  size_t length_difference = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (length_difference > limit) {
    return limit + 1;
  }
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    if (*std::min_element(row.begin(), row.end()) > limit) {
      return limit + 1;
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::vector<std::string> near_misses(std::string_view name, std::span<const std::string> candidates, size_t count) {
  if (name.empty() || name.size() > kMaxLength) {
    return {};
  }
  size_t limit = std::max<size_t>(1, name.size() / 3);
  std::string wanted = lowered(name);
  std::vector<std::pair<size_t, const std::string*>> near;
  for (const std::string& candidate : candidates) {
    size_t d = candidate.size() > kMaxLength ? limit + 1 : distance(wanted, lowered(candidate), limit);
    if (d <= limit && candidate != name) {
      near.emplace_back(d, &candidate);
    }
  }
  auto closer = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  };
  std::sort(near.begin(), near.end(), closer);
  std::vector<std::string> names;
  for (size_t i = 0; i < near.size() && i < count; ++i) {
    names.push_back(*near[i].second);
  }
  return names;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  std::vector<std::string> names = near_misses(name, candidates);
  if (names.empty()) {
    return {};
  }
  std::string text = "Did you mean ";
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + quote(names[i]);
  }
  return text + "?";
}

std::string suggest(std::string_view name, std::span<const std::string_view> known) {
  const std::vector<std::string> candidates(known.begin(), known.end());
  std::string hint = did_you_mean(name, candidates);
  return hint.empty() ? fmt::format("Known are: {}.", fmt::join(known, ", ")) : hint;
}

}  // namespace exporters
