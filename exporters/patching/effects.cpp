#include "exporters/patching/effects.h"

#include <algorithm>
#include <utility>

namespace exporters {
namespace {

thread_local EffectLog* current_log = nullptr;

}  // namespace

void EffectLog::add(std::string_view kind, std::string_view backend, std::string_view name, EffectPlace place) {
  auto effect = std::find_if(effects_.begin(), effects_.end(), [&](const Effect& known) {
    return known.kind == kind && known.backend == backend && known.name == name;
  });
  if (effect == effects_.end()) {
    effect = effects_.insert(effects_.end(), {std::string(kind), std::string(backend), std::string(name), 0, {}});
  }
  ++effect->count;
  effect->places.push_back(std::move(place));
}

EffectLog::Scope::Scope(EffectLog& log) : previous_(std::exchange(current_log, &log)) {}

EffectLog::Scope::~Scope() { current_log = previous_; }

bool effects_wanted() { return current_log != nullptr; }

void record_effect(std::string_view kind, std::string_view backend, std::string_view name, EffectPlace place) {
  if (current_log != nullptr) {
    current_log->add(kind, backend, name, std::move(place));
  }
}

}  // namespace exporters
