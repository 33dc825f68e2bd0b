#include "cli/settings.h"

#include "exporters/support/error.h"

#include <algorithm>

namespace hfx {

std::vector<std::pair<std::string, std::string>> settings_of(const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    exporters::ensure(equals != std::string::npos && equals > 0, "'{}' sets nothing: write --set field=value", word);
    const std::string field = word.substr(0, equals);
    exporters::ensure(
        std::none_of(settings.begin(), settings.end(), [&](const auto& set) { return set.first == field; }),
        "--set gives '{}' twice", field);
    settings.emplace_back(field, word.substr(equals + 1));
  }
  return settings;
}

}  // namespace hfx
