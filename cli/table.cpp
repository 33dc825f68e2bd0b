#include "cli/table.h"

#include "exporters/support/quote.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>

namespace hfx {

namespace {

// One of "sequence >= 1" and "sequence <= 512".
struct Bound {
  std::string what;
  std::string number;
  bool is_lower = false;
};

std::optional<Bound> bound_of(const std::string& condition) {
  for (const char* relation : {" >= ", " <= "}) {
    const size_t at = condition.find(relation);
    if (at == std::string::npos) {
      continue;
    }
    const std::string number = condition.substr(at + 4);
    if (!number.empty() && number.find_first_not_of("0123456789") == std::string::npos) {
      return Bound{condition.substr(0, at), number, relation[1] == '>'};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < header.size(); ++c) {
    size_t width = header[c].size();
    for (const auto& row : rows) {
      width = std::max(width, exporters::printable(row[c]).size());
    }
    widths.push_back(width);
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c) {
      const bool last = c + 1 == cells.size();
      const std::string shown = exporters::printable(cells[c]);
      text += last ? shown : fmt::format("{:<{}}  ", shown, widths[c]);
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
  struct Bounds {
    std::string lower;
    std::string upper;
  };
  std::map<std::string, Bounds> bounds;
  std::vector<std::string> others;
  for (const std::string& condition : conditions) {
    if (const auto bound = bound_of(condition)) {
      (bound->is_lower ? bounds[bound->what].lower : bounds[bound->what].upper) = bound->number;
    } else {
      others.push_back(condition);
    }
  }
  std::string text;
  const auto add = [&](const std::string& condition) {
    text += (text.empty() ? "\nSizes: " : ", ") + exporters::printable(condition);
  };
  for (const auto& [what, range] : bounds) {
    if (range.lower.empty() || range.upper.empty()) {
      add(range.lower.empty() ? what + " <= " + range.upper : what + " >= " + range.lower);
    } else {
      add(range.lower + " <= " + what + " <= " + range.upper);
    }
  }
  for (const std::string& condition : others) {
    add(condition);
  }
  return text.empty() ? text : text + "\n";
}

std::string paragraph(const std::vector<std::string>& words) {
  constexpr size_t kWidth = 100;
  std::string text;
  std::string line = " ";
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (line.size() + 1 + word.size() > kWidth && line.size() > 1) {
      text += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return line.size() > 1 ? text + line + "\n" : text;
}

std::string shape_text(const std::vector<std::string>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + dims[i];
  }
  return text + "]";
}

}  // namespace hfx
