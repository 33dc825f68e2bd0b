#include "cli/effects.h"

#include "cli/table.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace hfx {
namespace {

constexpr size_t kMostPlaces = 8;

std::string text_of(const exporters::EffectPlace& place) {
  const std::string module = place.module_path.empty() ? "the root module" : place.module_path;
  return place.node.empty() ? module : place.node + " (" + module + ")";
}

std::string text_of(const std::vector<exporters::EffectPlace>& places) {
  std::string text;
  const size_t shown = std::min(places.size(), kMostPlaces);
  for (size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? "" : ", ") + text_of(places[i]);
  }
  return shown == places.size() ? text : text + fmt::format(" and {} more", places.size() - shown);
}

}  // namespace

std::string effects_text(const std::vector<exporters::Effect>& effects) {
  if (effects.empty()) {
    return "no patch or fix took effect\n";
  }
  std::vector<std::vector<std::string>> rows;
  for (const exporters::Effect& effect : effects) {
    rows.push_back({effect.backend, effect.kind, effect.name, std::to_string(effect.count), text_of(effect.places)});
  }
  return "patches and fixes that took effect\n" + table({"backend", "kind", "name", "times", "where"}, rows);
}

nlohmann::ordered_json effects_json(const std::vector<exporters::Effect>& effects) {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const exporters::Effect& effect : effects) {
    nlohmann::ordered_json places = nlohmann::ordered_json::array();
    for (const exporters::EffectPlace& place : effect.places) {
      places.push_back({{"node", place.node}, {"module_path", place.module_path}});
    }
    document.push_back({{"kind", effect.kind},
                        {"backend", effect.backend},
                        {"name", effect.name},
                        {"count", effect.count},
                        {"places", std::move(places)}});
  }
  return document;
}

}  // namespace hfx
