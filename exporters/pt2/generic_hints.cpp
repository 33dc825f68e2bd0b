#include "exporters/pt2/generic_hints.h"

#include "exporters/support/error.h"

#include <algorithm>
#include <set>

namespace exporters::pt2 {
namespace {

using Hints = std::map<std::string, int64_t>;

// Guards with symbols that have no hint depend on data and say nothing here.
bool holds(const BoolExpr& condition, const Hints& hints) {
  const std::vector<Symbol> symbols = condition.free_symbols();
  if (!std::all_of(symbols.begin(), symbols.end(), [&](Symbol each) { return hints.contains(each.name()); })) {
    return true;
  }
  try {
    return condition.evaluate([&](Symbol symbol) { return hints.at(symbol.name()); });
  } catch (const Error&) {  // a division by zero
    return false;
  }
}

bool all_hold(const ExportedProgram& program, const Hints& hints) {
  return std::all_of(program.guards.begin(), program.guards.end(),
                     [&](const Guard& guard) { return holds(guard.condition, hints); });
}

}  // namespace

Hints generic_hints(const ExportedProgram& program) {
  constexpr int64_t kFirst = 2;
  constexpr int64_t kTried = 64;
  Hints hints = program.hints;
  std::set<int64_t> taken;
  for (auto& [name, hint] : hints) {
    if (hint >= kFirst && taken.insert(hint).second) {
      continue;
    }
    const auto found = program.range_constraints.find(name);
    const Range range = found == program.range_constraints.end() ? Range{0, Range::kMax} : found->second;
    const int64_t original = hint;
    const int64_t first = std::max(kFirst, range.min);
    bool is_found = false;
    for (int64_t value = first; !is_found && value < first + kTried && range.contains(value); ++value) {
      hint = value;
      is_found = !taken.contains(value) && all_hold(program, hints);
    }
    hint = is_found ? hint : original;
    taken.insert(hint);
  }
  return hints;
}

}  // namespace exporters::pt2
