#include "exporters/passes/replay_symbols.h"

#include "exporters/support/error.h"
#include "exporters/support/place.h"

#include <algorithm>

namespace exporters {

ReplaySymbols::ReplaySymbols(const ExportedProgram& program, std::shared_ptr<ShapeEnv> env)
    : program_(program), env_(std::move(env)) {
  declare_inputs();
}

bool ReplaySymbols::knows(const Expr& expr) const {
  const std::vector<Symbol> symbols = expr.free_symbols();
  return std::all_of(symbols.begin(), symbols.end(), [&](Symbol symbol) { return known_.contains(symbol); });
}

void ReplaySymbols::declare_inputs() {
  std::unordered_map<Symbol, bool> of_inputs;
  for (const Value* placeholder : program_.graph->placeholders()) {
    const auto note = [&](const Expr& expr) {
      for (const Symbol& symbol : expr.free_symbols()) {
        of_inputs.emplace(symbol, true);
      }
    };
    std::for_each(placeholder->meta().sizes.begin(), placeholder->meta().sizes.end(), note);
    note(placeholder->sym());
  }
  for (const auto& [name, range] : program_.range_constraints) {
    const Symbol symbol(name);
    if (!Expr(symbol).has_unbacked() || of_inputs.contains(symbol)) {
      env_->declare(symbol, range, sample_of(symbol, range));
      known_.emplace(symbol, Expr(symbol));
    }
  }
  for (const Guard& guard : program_.guards) {
    pending_.push_back(&guard);
  }
  require_known_guards();
}

// A program that says nothing of its sample sizes gets sizes that few others are equal to.
std::optional<int64_t> ReplaySymbols::sample_of(Symbol symbol, const Range& range) {
  if (const auto hint = program_.hints.find(symbol.name()); hint != program_.hints.end()) {
    samples_.emplace(symbol, hint->second);
    return hint->second;
  }
  if (Expr(symbol).has_unbacked()) {
    return std::nullopt;
  }
  const int64_t first = 7 + 4 * static_cast<int64_t>(samples_.size());
  for (int64_t step = 0; step < 64; ++step) {
    const int64_t candidate = range.contains(first + step) ? first + step : std::max<int64_t>(range.min, 0) + step;
    if (range.contains(candidate) && guards_hold(symbol, candidate)) {
      samples_.emplace(symbol, candidate);
      return candidate;
    }
  }
  throw Error("No sample size was found for " + symbol.name() + ", which meets all guards of the program", {},
              "Give the program hints for its symbols.");
}

// Of the guards whose symbols all have samples.
bool ReplaySymbols::guards_hold(Symbol symbol, int64_t candidate) {
  samples_[symbol] = candidate;
  const bool hold = std::all_of(program_.guards.begin(), program_.guards.end(), [&](const Guard& guard) {
    const std::vector<Symbol> symbols = guard.condition.free_symbols();
    const bool known =
        std::all_of(symbols.begin(), symbols.end(), [&](Symbol each) { return samples_.contains(each); });
    return !known || guard.condition.evaluate([&](Symbol each) { return samples_.at(each); });
  });
  samples_.erase(symbol);
  return hold;
}

void ReplaySymbols::require_known_guards() {
  std::erase_if(pending_, [&](const Guard* guard) {
    const std::vector<Symbol> symbols = guard->condition.free_symbols();
    if (!std::all_of(symbols.begin(), symbols.end(), [&](Symbol symbol) { return known_.contains(symbol); })) {
      return false;
    }
    const ModuleScope module(guard->place.module_path, guard->place.module_class, SourceLocation());
    const OpScope op(guard->place.op);
    env_->require(renamed(guard->condition));
    return true;
  });
}

Substitution ReplaySymbols::renaming() const {
  return [this](Symbol symbol) -> std::optional<Expr> {
    const auto found = known_.find(symbol);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  };
}

TensorMeta ReplaySymbols::renamed(TensorMeta meta) const {
  for (std::vector<Expr>* exprs : {&meta.sizes, &meta.strides}) {
    for (Expr& expr : *exprs) {
      expr = renamed(expr);
    }
  }
  meta.storage_offset = renamed(meta.storage_offset);
  return meta;
}

void ReplaySymbols::learn(const Expr& original, const Expr& fresh) {
  const auto symbol = original.as_symbol();
  if (!symbol || known_.contains(*symbol)) {
    return;
  }
  known_.emplace(*symbol, fresh);
  if (const auto range = program_.range_constraints.find(symbol->name()); range != program_.range_constraints.end()) {
    if (range->second.min != Range::kMin) {
      env_->require(ge(fresh, range->second.min));
    }
    if (range->second.max != Range::kMax) {
      env_->require(le(fresh, range->second.max));
    }
  }
  require_known_guards();
}

bool ReplaySymbols::agree(const Expr& a, const Expr& b) const {
  if (const std::optional<bool> decided = env_->statically(eq(a, b))) {
    return *decided;
  }
  const auto agree_with = [&](int64_t factor, int64_t more, std::optional<Symbol> only = {}) {
    const Valuation sizes = [&](Symbol symbol) {
      const Range bounds = env_->bounds(symbol);
      // Sizes that depend on data have no sample: any number does.
      const int64_t sample = env_->hint(symbol).value_or(std::clamp<int64_t>(7, bounds.min, bounds.max));
      int64_t size = 0;
      const bool is_sample = (only && *only != symbol) || __builtin_mul_overflow(sample, factor, &size) ||
                             __builtin_add_overflow(size, more, &size);
      return is_sample ? sample : size;
    };
    return agree_at(a, b, sizes).value_or(true);
  };
  if (!agree_with(1, 0) || !agree_with(1, 1) || !agree_with(2, 0) || !agree_with(3, 0)) {
    return false;
  }
  const std::vector<Symbol> symbols = eq(a, b).free_symbols();
  return std::all_of(symbols.begin(), symbols.end(),
                     [&](Symbol symbol) { return agree_with(1, 1, symbol) && agree_with(2, 0, symbol); });
}

// Nothing for sizes outside of the ranges or guards.
std::optional<bool> ReplaySymbols::agree_at(const Expr& a, const Expr& b, const Valuation& sizes) const {
  const std::vector<Symbol> symbols = eq(a, b).free_symbols();
  const std::vector<Guard>& guards = env_->guards();
  const bool allowed =
      std::all_of(symbols.begin(), symbols.end(),
                  [&](Symbol symbol) { return env_->bounds(symbol).contains(sizes(symbol)); }) &&
      std::all_of(guards.begin(), guards.end(), [&](const Guard& guard) { return guard.condition.evaluate(sizes); });
  return allowed ? std::optional(a.evaluate(sizes) == b.evaluate(sizes)) : std::nullopt;
}

// A symbol that comes from an op which is copied as it is.
void ReplaySymbols::declare_missing(const Expr& expr) {
  for (const Symbol& symbol : expr.free_symbols()) {
    if (known_.emplace(symbol, Expr(symbol)).second) {
      const auto range = program_.range_constraints.find(symbol.name());
      env_->declare(symbol, range == program_.range_constraints.end() ? Range{} : range->second);
      require_known_guards();
    }
  }
}

}  // namespace exporters
