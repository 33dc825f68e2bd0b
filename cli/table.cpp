#include "cli/table.h"

#include <fmt/core.h>

#include <algorithm>

namespace hfx {

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < header.size(); ++c) {
    size_t width = header[c].size();
    for (const auto& row : rows) {
      width = std::max(width, row[c].size());
    }
    widths.push_back(width);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c) {
      const bool last = c + 1 == cells.size();
      text += last ? cells[c] : fmt::format("{:<{}}  ", cells[c], widths[c]);
    }
    return text + "\n";
  };
  std::string text = line(header);
  for (const auto& row : rows) {
    text += line(row);
  }
  return text;
}

std::string conditions_text(const std::vector<std::string>& conditions) {
  std::string text;
  for (const std::string& condition : conditions) {
    text += (text.empty() ? "\nSizes: " : ", ") + condition;
  }
  return text.empty() ? text : text + "\n";
}

std::string shape_text(const std::vector<std::string>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + dims[i];
  }
  return text + "]";
}

}  // namespace hfx
