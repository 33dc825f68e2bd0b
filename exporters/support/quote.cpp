#include "exporters/support/quote.h"

#include <fmt/format.h>

#include <array>

namespace exporters {

std::string quote(std::string_view text, size_t max) {
  bool cut = text.size() > max;
  if (cut) {
    size_t end = max;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;
    }
    text = text.substr(0, end);
  }
  return "'" + printable(text) + (cut ? "…'" : "'");
}

std::string printable(std::string_view text) {
  std::string result;
  for (char character : text) {
    auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += character;
    }
  }
  return result;
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string bytes_text(uint64_t nbytes) {
  const std::string text = fmt::format("{} bytes", nbytes);
  return nbytes < 10'000 ? text : fmt::format("{} ({})", text, short_bytes_text(nbytes));
}

std::string short_bytes_text(uint64_t nbytes) {
  constexpr std::array kUnits{"kB", "MB", "GB", "TB", "PB", "EB"};
  if (nbytes < 1000) {
    return fmt::format("{} B", nbytes);
  }
  double amount = static_cast<double>(nbytes) / 1000;
  size_t unit = 0;
  while (amount >= 1000 && unit + 1 < kUnits.size()) {
    amount /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

}  // namespace exporters
