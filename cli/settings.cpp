#include "cli/settings.h"

#include "exporters/support/error.h"

namespace hfx {

std::vector<std::pair<std::string, std::string>> settings_of(const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    exporters::ensure(equals != std::string::npos && equals > 0, "'{}' sets nothing: write --set field=value", word);
    settings.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return settings;
}

}  // namespace hfx
