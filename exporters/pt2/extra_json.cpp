#include "exporters/pt2/extra_json.h"

#include "exporters/pt2/fields.h"
#include "exporters/pt2/meta_json.h"
#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/quote.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <set>
#include <unordered_map>

namespace exporters::pt2 {
namespace {

constexpr uint64_t kMaxBytes = 16u << 20;
constexpr size_t kMaxName = 200;

// The members of a place, each a text.
constexpr std::pair<const char*, std::string Place::*> kPlaceFields[] = {{"module_path", &Place::module_path},
                                                                         {"module_class", &Place::module_class},
                                                                         {"op", &Place::op},
                                                                         {"source", &Place::source}};

Json place_json(const Place& place) {
  Json json = Json::object();
  for (const auto& [key, field] : kPlaceFields) {
    if (!(place.*field).empty()) {
      json[key] = place.*field;
    }
  }
  return json;
}

Place read_place(const Json& json) {
  Place place;
  for (const auto& [key, field] : kPlaceFields) {
    if (const Json* text = find_member(json, key)) {
      place.*field = as_text(*text);
    }
  }
  return place;
}

// By the conditions' texts: the same condition is found again, however the file spelled it.
Json guard_places_json(const ExportedProgram& program) {
  Json places = Json::object();
  for (const Guard& guard : program.guards) {
    if (!guard.place.empty()) {
      places.emplace(guard.condition.str(), place_json(guard.place));
    }
  }
  return places;
}

void read_guard_places(const Json& json, ExportedProgram& program) {
  std::unordered_map<std::string_view, const Json*> places;
  for (const auto& [condition, place] : as_object(json)) {
    places.emplace(condition, &place);
  }
  for (Guard& guard : program.guards) {
    if (const auto found = places.find(guard.condition.str()); found != places.end()) {
      guard.place = read_place(*found->second);
    }
  }
}

bool is_word(const std::string& text) {
  return !text.empty() && text.size() <= kMaxName && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// What is wrong with a name, if anything is; `taken` are those that were given before.
std::string problem_of(const std::string& symbol, const std::string& name, const ExportedProgram& program,
                       std::set<std::string>& taken) {
  if (!program.range_constraints.contains(symbol)) {
    return fmt::format("it names {}, which is no size of the program", quote(symbol));
  }
  if (!is_word(name)) {
    return fmt::format("it calls {} {}, which is no word", quote(symbol), quote(name));
  }
  const bool is_another = name != symbol && program.range_constraints.contains(name);
  return is_another || !taken.insert(name).second ? fmt::format("it calls two sizes {}", quote(name)) : std::string();
}

void read_dim_names(const Json& json, ExportedProgram& program) {
  std::set<std::string> taken;
  for (const auto& [symbol, value] : as_object(json)) {
    const std::string& name = as_text(value);
    const std::string problem = problem_of(symbol, name, program, taken);
    ensure(problem.empty(), "{}", problem);
    program.dim_names.emplace(symbol, name);
  }
}

// A name that could be taken for another size is left out.
Json dim_names_json(const ExportedProgram& program) {
  Json names = Json::object();
  std::set<std::string> taken;
  for (const auto& [symbol, name] : program.dim_names) {
    if (problem_of(symbol, name, program, taken).empty()) {
      names[symbol] = name;
    }
  }
  return names;
}

}  // namespace

std::string extra_json(const ExportedProgram& program) {
  Json names = dim_names_json(program);
  Json places = guard_places_json(program);
  if (names.empty() && places.empty()) {
    return {};
  }
  return json_text(Json{{"dim_names", std::move(names)}, {"guard_places", std::move(places)}});
}

void read_extra(const Archive& archive, ExportedProgram& program) {
  if (archive.find(kExtraFile) == nullptr) {
    return;
  }
  const std::string name(kExtraFile);
  const Json json = parse_json(archive.text(kExtraFile, kMaxBytes), name);
  try {
    if (const Json* names = find_member(json, "dim_names")) {
      read_dim_names(*names, program);
    }
    if (const Json* places = find_member(json, "guard_places")) {
      read_guard_places(*places, program);
    }
  } catch (const Error& error) {
    throw error.with_context(name);
  }
}

}  // namespace exporters::pt2
