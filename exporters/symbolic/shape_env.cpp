#include "exporters/symbolic/shape_env.h"

#include "exporters/symbolic/expr_node.h"
#include "exporters/symbolic/interval.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_set>

namespace exporters {
namespace {

struct BoolHash {
  size_t operator()(const BoolExpr& e) const { return e.hash(); }
};

struct SymbolInfo {
  Symbol symbol;
  size_t index = 0;
  Range range;
  std::optional<int64_t> hint;
  std::string dim_name;
  bool unbacked = false;
  std::set<int64_t> excluded;  // values that a guard rules out
  std::optional<Expr> replacement;
  Place replaced_at;
  uint64_t replaced_when = 0;

  bool named() const { return !dim_name.empty(); }
};

struct Axis {
  AxisSource source;
  Expr expr;
  bool automatic = false;
};

struct RawGuard {
  BoolExpr condition;
  Place place;
  // An unbacked symbol that was replaced: the condition defines it, so it stays spelled out.
  std::optional<Symbol> pinned;
};

// How much is believed when something is simplified: everything, or only what the program shows elsewhere
// (replacements and symbol ranges), so that a guard does not prove itself away.
enum class Trust { kAll, kRanges };

// The value of a range with one member. Open ends are no values.
std::optional<int64_t> only_value(Range r) {
  return r.min == r.max && r.min != Range::kMin && r.max != Range::kMax ? std::optional(r.min) : std::nullopt;
}

struct Cached {
  uint64_t version;
  Expr expr;
};

// P with a positive leading coefficient and lowest terms, so that P and -2*P share what is known.
struct Direction {
  Expr polynomial;
  int64_t factor;
};

Direction direction(const Expr& e) {
  const Expr p = without_constant(e);
  const int64_t g = coefficient_gcd(p);
  const int64_t factor = poly_terms(p)[0].coefficient < 0 ? -g : g;
  return {factor == 1 ? p : divide_exact(p, factor), factor};
}

// P (factor) + c <= 0 as an interval for P.
Range bound_from_le(int64_t factor, int64_t constant) {
  return factor > 0 ? Range{Range::kMin, floordiv_int(-constant, factor)}
                    : Range{-floordiv_int(-constant, -factor), Range::kMax};
}

std::string axis_text(const AxisSource& source) { return fmt::format("input '{}' axis {}", source.input, source.axis); }

bool contains_symbol(const Expr& e, Symbol symbol) {
  const std::vector<Symbol> symbols = e.free_symbols();
  return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
}

bool is_linear(const Expr& e) {
  const auto& terms = poly_terms(e);
  return std::all_of(terms.begin(), terms.end(), [](const PolyTerm& term) {
    const AtomNode* atom = term.monomial->single_atom();
    return atom && atom->is_symbol();
  });
}

}  // namespace

std::string Specialization::str() const {
  std::string text = fmt::format("{} axis {} became static: {}", source.input, source.axis, value);
  return place.empty() ? text : text + " (" + place.str() + ")";
}

struct ShapeEnv::Impl {
  std::deque<SymbolInfo> symbols;
  std::unordered_map<Symbol, SymbolInfo*> by_symbol;
  std::map<std::string, Symbol> roots;  // name of a Dim → its symbol
  std::vector<Axis> axes;
  std::vector<RawGuard> raw_guards;
  std::unordered_set<BoolExpr, BoolHash> recorded;

  uint64_t version = 1;  // grows whenever something new is known
  uint64_t replacements = 0;
  uint64_t placed_version = 1;
  size_t placed_guards = 0;
  size_t next_backed = 0;
  size_t next_unbacked = 0;

  mutable std::unordered_map<Expr, Cached> simplified[2];
  // Facts in terms of simplified expressions; made again after a replacement.
  mutable std::unordered_set<BoolExpr, BoolHash> facts;
  mutable std::unordered_map<Expr, Range> known_ranges;
  mutable uint64_t facts_replacements = 0;
  mutable bool in_rebuild = false;
  mutable std::vector<Guard> guards;
  mutable uint64_t guards_version = 0;

  SymbolInfo* info(Symbol symbol) const {
    const auto found = by_symbol.find(symbol);
    return found == by_symbol.end() ? nullptr : found->second;
  }

  SymbolInfo& add_symbol(Symbol symbol, Range range, std::optional<int64_t> hint) {
    SymbolInfo& added =
        symbols.emplace_back(SymbolInfo{symbol, symbols.size(), range, hint, {}, is_unbacked(symbol), {}, {}, {}, 0});
    by_symbol.emplace(symbol, &added);
    ++version;
    return added;
  }

  Symbol fresh(char prefix, size_t& counter) const {
    for (;;) {
      const Symbol symbol(prefix + std::to_string(counter++));
      if (!by_symbol.contains(symbol)) {
        return symbol;
      }
    }
  }

  // ── Simplification ──

  bool touches_replacement(const ExprNode& node) const {
    if (replacements == 0) {
      return false;
    }
    for (const PolyTerm& term : node.terms) {
      for (const FactorRef& factor : term.monomial->factors) {
        const SymbolInfo* known = info(*factor.atom->symbol);
        if (known && known->replacement) {
          return true;
        }
      }
    }
    return false;
  }

  Expr simplify(const Expr& e, Trust trust) const {
    const ExprNode* node = ExprNode::of(e);
    if (!node || (!node->has_functions && !touches_replacement(*node))) {
      return e;
    }
    rebuild_facts();
    auto& cache = simplified[static_cast<int>(trust)];
    const auto found = cache.find(e);
    if (found != cache.end() && found->second.version == version) {
      return found->second.expr;
    }
    Expr result = simplify_atoms(e, trust);
    cache.insert_or_assign(e, Cached{version, result});
    return result;
  }

  Expr simplify_atoms(const Expr& e, Trust trust) const {
    const Expr replaced = map_atoms(e, [&](const AtomNode& atom) -> std::optional<Expr> {
      if (atom.is_symbol()) {
        const SymbolInfo* known = info(*atom.symbol);
        return known && known->replacement ? std::optional(simplify(*known->replacement, trust)) : std::nullopt;
      }
      std::vector<Expr> operands;
      for (const Expr& operand : atom.operands) {
        operands.push_back(simplify(operand, trust));
      }
      return resolve_atoms(rebuild(atom, operands), trust);
    });
    const Expr folded = recognise_mod(replaced);
    return folded == replaced ? replaced : resolve_atoms(folded, trust);
  }

  // Function atoms whose operands are simplified already, decided by ranges.
  Expr resolve_atoms(const Expr& e, Trust trust) const {
    return map_atoms(
        e, [&](const AtomNode& atom) { return atom.is_symbol() ? std::nullopt : resolve_by_range(atom, trust); });
  }

  std::optional<Expr> resolve_by_range(const AtomNode& atom, Trust trust) const {
    Range range = atom_bounds(atom, trust);
    if (trust == Trust::kAll && !known_ranges.empty()) {
      if (const auto found = known_ranges.find(rebuild(atom, atom.operands)); found != known_ranges.end()) {
        range = intersect(range, found->second);
      }
    }
    if (auto value = only_value(range)) {
      return Expr(*value);
    }
    switch (atom.kind) {
      case Expr::AtomKind::kFloorDiv:
        return is_proper_fraction(atom, trust) ? std::optional(Expr(0)) : std::nullopt;
      case Expr::AtomKind::kMod:
        return resolve_mod(atom, trust);
      case Expr::AtomKind::kMin:
      case Expr::AtomKind::kMax:
        return drop_dominated(atom, trust);
      default:
        return std::nullopt;
    }
  }

  // 0 <= a < b
  bool is_proper_fraction(const AtomNode& atom, Trust trust) const {
    const Expr& a = atom.operands[0];
    const Expr& b = atom.operands[1];
    return bounds(a, trust).min >= 0 && (bounds(a, trust).max < bounds(b, trust).min || bounds(a - b, trust).max < 0);
  }

  std::optional<Expr> resolve_mod(const AtomNode& atom, Trust trust) const {
    const Expr& a = atom.operands[0];
    if (is_proper_fraction(atom, trust)) {
      return a;
    }
    if (auto divisor = atom.operands[1].as_int()) {
      if (auto quotient = only_value(interval_floordiv(bounds(a, trust), {*divisor, *divisor}))) {
        return a - Expr(checked_mul(*quotient, *divisor));
      }
    }
    return std::nullopt;
  }

  std::optional<Expr> drop_dominated(const AtomNode& atom, Trust trust) const {
    if (atom.operands.size() > 8) {
      return std::nullopt;
    }
    std::vector<Expr> kept = atom.operands;
    const bool is_max = atom.kind == Expr::AtomKind::kMax;
    for (size_t i = 0; i < kept.size();) {
      bool dominated = false;
      for (size_t j = 0; j < kept.size() && !dominated; ++j) {
        dominated = i != j && bounds(is_max ? kept[i] - kept[j] : kept[j] - kept[i], trust).max <= 0;
      }
      if (dominated) {
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    return kept.size() == atom.operands.size() ? std::nullopt : std::optional(min_max(atom.kind, std::move(kept)));
  }

  BoolExpr simplify(const BoolExpr& condition, Trust trust) const {
    switch (condition.kind()) {
      case BoolExpr::Kind::kTrue:
      case BoolExpr::Kind::kFalse:
        return condition;
      case BoolExpr::Kind::kEq:
      case BoolExpr::Kind::kNe:
      case BoolExpr::Kind::kLe: {
        const Expr operand = simplify(condition.operand(), trust);
        const BoolExpr same = operand == condition.operand()            ? condition
                              : condition.kind() == BoolExpr::Kind::kEq ? eq(operand, 0)
                              : condition.kind() == BoolExpr::Kind::kNe ? ne(operand, 0)
                                                                        : le(operand, 0);
        const auto decided = decide_comparison(same, trust);
        return decided ? BoolExpr(*decided) : same;
      }
      default:
        break;
    }
    BoolExpr result(condition.kind() == BoolExpr::Kind::kAnd);
    for (const BoolExpr& part : condition.operands()) {
      const BoolExpr simple = simplify(part, trust);
      result = condition.kind() == BoolExpr::Kind::kAnd ? result && simple : result || simple;
    }
    return result;
  }

  // ── Intervals ──

  Range atom_bounds(const AtomNode& atom, Trust trust) const {
    Range r;
    switch (atom.kind) {
      case Expr::AtomKind::kSymbol: {
        const SymbolInfo* known = info(*atom.symbol);
        return known ? known->range : Range{};
      }
      case Expr::AtomKind::kFloorDiv:
        r = interval_floordiv(bounds(atom.operands[0], trust), bounds(atom.operands[1], trust));
        break;
      case Expr::AtomKind::kMod:
        r = interval_mod(bounds(atom.operands[0], trust), bounds(atom.operands[1], trust));
        break;
      case Expr::AtomKind::kTruncToInt:
        r = interval_trunc(bounds(atom.operands[0], trust), atom.scale);
        break;
      default:
        r = bounds(atom.operands[0], trust);
        for (const Expr& operand : atom.operands) {
          r = atom.kind == Expr::AtomKind::kMin ? interval_min(r, bounds(operand, trust))
                                                : interval_max(r, bounds(operand, trust));
        }
    }
    return r;
  }

  Range term_bounds(const PolyTerm& term, Trust trust) const {
    Range product{term.coefficient, term.coefficient};
    for (const FactorRef& factor : term.monomial->factors) {
      product = interval_multiply(product, interval_power(factor_bounds(factor, trust), factor.power));
    }
    return product;
  }

  Range factor_bounds(const FactorRef& factor, Trust trust) const {
    Range r = atom_bounds(*factor.atom, trust);
    if (trust == Trust::kAll && !factor.atom->is_symbol() && !known_ranges.empty()) {
      if (const auto found = known_ranges.find(atom_expr(factor.atom)); found != known_ranges.end()) {
        r = intersect(r, found->second);
      }
    }
    return r;
  }

  Range bounds(const Expr& e, Trust trust) const {
    if (auto value = e.as_int()) {
      return {*value, *value};
    }
    rebuild_facts();
    Range sum{poly_constant(e), poly_constant(e)};
    for (const PolyTerm& term : poly_terms(e)) {
      sum = interval_add(sum, term_bounds(term, trust));
    }
    if (trust == Trust::kAll && !known_ranges.empty()) {
      const Direction d = direction(e);
      if (const auto found = known_ranges.find(d.polynomial); found != known_ranges.end()) {
        const Range scaled = interval_multiply(found->second, {d.factor, d.factor});
        sum = intersect(sum, interval_add(scaled, {poly_constant(e), poly_constant(e)}));
      }
    }
    return sum;
  }

  // ── Deciding ──

  // e <= 0 for every value, by intervals and by the inequalities of floor division, minimum and maximum.
  bool prove_le(const Expr& e, Trust trust, int budget) const {
    if (bounds(e, trust).max <= 0) {
      return true;
    }
    if (budget == 0) {
      return false;
    }
    for (const PolyTerm& term : poly_terms(e)) {
      const AtomNode* atom = term.monomial->single_atom();
      if (!atom || atom->is_symbol()) {
        continue;
      }
      const Expr rest = e - monomial_expr(term);
      if (atom->kind == Expr::AtomKind::kFloorDiv && prove_by_division(*atom, term.coefficient, rest, trust, budget)) {
        return true;
      }
      if ((atom->kind == Expr::AtomKind::kMin || atom->kind == Expr::AtomKind::kMax) &&
          prove_by_extremum(*atom, term.coefficient, rest, trust, budget)) {
        return true;
      }
    }
    return false;
  }

  // n - c + 1 <= c*(n//c) <= n
  bool prove_by_division(const AtomNode& atom, int64_t k, const Expr& rest, Trust trust, int budget) const {
    const auto c = atom.operands[1].as_int();
    if (!c) {
      return false;
    }
    const Expr& n = atom.operands[0];
    const Expr limit = k > 0 ? n : n - Expr(*c - 1);
    return prove_le(Expr(*c) * rest + Expr(k) * limit, trust, budget - 1);
  }

  bool prove_by_extremum(const AtomNode& atom, int64_t k, const Expr& rest, Trust trust, int budget) const {
    auto proved = [&](const Expr& operand) { return prove_le(rest + Expr(k) * operand, trust, budget - 1); };
    const bool every = (k > 0) == (atom.kind == Expr::AtomKind::kMax);
    return every ? std::all_of(atom.operands.begin(), atom.operands.end(), proved)
                 : std::any_of(atom.operands.begin(), atom.operands.end(), proved);
  }

  bool always_le(const Expr& e, Trust trust) const {
    try {
      return prove_le(e, trust, 3);
    } catch (const Error&) {
      return false;  // overflow on the way: nothing is proved
    }
  }

  // A comparison of simplified expressions.
  std::optional<bool> decide_comparison(const BoolExpr& c, Trust trust) const {
    if (auto value = c.as_bool()) {
      return value;
    }
    if (trust == Trust::kAll) {
      rebuild_facts();
      if (facts.contains(c)) {
        return true;
      }
      if (facts.contains(!c)) {
        return false;
      }
    }
    const Expr& e = c.operand();
    if (c.kind() == BoolExpr::Kind::kLe) {
      if (always_le(e, trust)) {
        return true;
      }
      return always_le(Expr(1) - e, trust) ? std::optional(false) : std::nullopt;
    }
    const bool equation = c.kind() == BoolExpr::Kind::kEq;
    const Range r = bounds(e, trust);
    if (only_value(r) == 0) {
      return equation;
    }
    if (!r.contains(0) || (trust == Trust::kAll && is_excluded(e)) || always_le(e + Expr(1), trust) ||
        always_le(Expr(1) - e, trust)) {
      return !equation;
    }
    return std::nullopt;
  }

  bool is_excluded(const Expr& e) const {
    const auto symbol = without_constant(e).as_symbol();
    const SymbolInfo* known = symbol ? info(*symbol) : nullptr;
    return known && known->excluded.contains(-poly_constant(e));
  }

  std::optional<bool> statically(const BoolExpr& condition) const { return simplify(condition, Trust::kAll).as_bool(); }

  std::optional<int64_t> hint(const Expr& e) const {
    const Expr simple = simplify(e, Trust::kAll);
    for (Symbol symbol : simple.free_symbols()) {
      const SymbolInfo* known = info(symbol);
      if (!known || !known->hint) {
        return std::nullopt;
      }
    }
    return simple.evaluate([this](Symbol symbol) { return *info(symbol)->hint; });
  }

  bool has_hints(const BoolExpr& condition) const {
    const std::vector<Symbol> used = condition.free_symbols();
    return std::all_of(used.begin(), used.end(), [this](Symbol symbol) {
      const SymbolInfo* known = info(symbol);
      return known && known->hint;
    });
  }

  bool at_samples(const BoolExpr& condition) const {
    return condition.evaluate([this](Symbol symbol) { return *info(symbol)->hint; });
  }

  // ── Learning ──

  void add_fact(const BoolExpr& c) const {
    if (c.as_bool()) {
      return;
    }
    facts.insert(c);
    if (c.kind() == BoolExpr::Kind::kEq || c.kind() == BoolExpr::Kind::kLe) {
      const Direction d = direction(c.operand());
      const int64_t constant = poly_constant(c.operand());
      Range r = bound_from_le(d.factor, constant);
      if (c.kind() == BoolExpr::Kind::kEq) {
        r = {-constant / d.factor, -constant / d.factor};
      }
      if (!d.polynomial.as_symbol()) {
        Range& known = known_ranges.try_emplace(d.polynomial, Range{}).first->second;
        known = intersect(known, r);
      }
    }
  }

  void rebuild_facts() const {
    if (facts_replacements == replacements || in_rebuild) {
      return;
    }
    in_rebuild = true;
    facts.clear();
    known_ranges.clear();
    for (auto& cache : simplified) {
      cache.clear();
    }
    for (const RawGuard& guard : raw_guards) {
      add_fact(simplify(guard.condition, Trust::kRanges));
    }
    in_rebuild = false;
    facts_replacements = replacements;
    for (auto& cache : simplified) {
      cache.clear();
    }
  }

  void record(const BoolExpr& condition, const Place& place, std::optional<Symbol> pinned = {}) {
    if (!recorded.insert(condition).second) {
      return;
    }
    raw_guards.push_back({condition, place, pinned});
    ++version;
  }

  // Takes a condition for true: as a guard, and for what follows from it.
  void learn(const BoolExpr& condition, const Place& place) {
    const BoolExpr c = simplify(condition, Trust::kAll);
    if (auto value = c.as_bool()) {
      if (!*value) {
        throw Error(fmt::format("the condition {} contradicts what is known about the sizes", condition.str()),
                    place.str(), "Check the sample inputs and the declared ranges of dynamic axes.");
      }
      return;
    }
    if (c.kind() == BoolExpr::Kind::kAnd) {
      for (const BoolExpr& part : std::vector<BoolExpr>(c.operands())) {
        learn(part, place);
      }
      return;
    }
    const uint64_t before = replacements;
    if (!(c.kind() == BoolExpr::Kind::kEq && solve(c.operand(), place))) {
      record(c, place);
      rebuild_facts();
      add_fact(c);
      narrow(c, place);
    }
    if (replacements != before) {
      propagate();
    }
  }

  // What a recorded condition says about one symbol's range.
  void narrow(const BoolExpr& c, const Place& place) {
    if (c.kind() != BoolExpr::Kind::kLe && c.kind() != BoolExpr::Kind::kNe) {
      return;
    }
    const Direction d = direction(c.operand());
    const auto symbol = d.polynomial.as_symbol();
    SymbolInfo* known = symbol ? info(*symbol) : nullptr;
    if (!known) {
      return;
    }
    const int64_t constant = poly_constant(c.operand());
    if (c.kind() == BoolExpr::Kind::kNe) {
      known->excluded.insert(-constant / d.factor);
      tighten(*known, known->range, place);
    } else {
      tighten(*known, bound_from_le(d.factor, constant), place);
    }
  }

  void tighten(SymbolInfo& symbol, Range range, const Place& place) {
    Range r = intersect(symbol.range, range);
    while (r.min <= r.max && symbol.excluded.contains(r.min)) {
      ++r.min;
    }
    while (r.min <= r.max && symbol.excluded.contains(r.max)) {
      --r.max;
    }
    if (r.min > r.max) {
      throw Error(fmt::format("nothing is left of the range {} of {}", symbol.range.str(), describe(symbol)),
                  place.str(), "Check the sample inputs and the declared ranges of dynamic axes.");
    }
    if (r == symbol.range) {
      return;
    }
    if (auto value = only_value(r)) {
      make_static(symbol, *value, place);
      return;
    }
    refuse_narrower_dim(symbol, r, place);
    symbol.range = r;
    ++version;
  }

  // A named Dim is a promise for every size in its range. An open upper end promises nothing.
  void refuse_narrower_dim(const SymbolInfo& symbol, Range r, const Place& place) const {
    const bool upper = symbol.range.max != Range::kMax && r.max < symbol.range.max;
    if (symbol.named() && (upper || r.min > symbol.range.min)) {
      throw Error(fmt::format("{} is declared with the range {}, but the model takes only {}", describe(symbol),
                              symbol.range.str(), r.str()),
                  place.str(), "Declare the range that the model takes, or the axis as Dim::Auto.");
    }
  }

  // After a replacement, earlier guards may say more.
  void propagate() {
    for (uint64_t seen = replacements - 1; seen != replacements;) {
      seen = replacements;
      for (size_t i = 0; i < raw_guards.size(); ++i) {
        if (raw_guards[i].pinned) {
          continue;
        }
        const Place place = raw_guards[i].place;
        const BoolExpr c = simplify(raw_guards[i].condition, Trust::kRanges);
        if (c.kind() == BoolExpr::Kind::kEq) {
          solve(c.operand(), place);
        } else {
          narrow(c, place);
        }
      }
    }
  }

  // The axes that a symbol decides, for messages.
  std::string describe(const SymbolInfo& symbol) const {
    std::string text;
    for (const Axis& axis : axes) {
      if (contains_symbol(axis.expr, symbol.symbol)) {
        text = axis_text(axis.source);
        break;
      }
    }
    if (text.empty()) {
      text = "size " + symbol.symbol.name();
    }
    return symbol.named() ? text + " (Dim '" + symbol.dim_name + "')" : text;
  }

  void make_static(SymbolInfo& symbol, int64_t value, const Place& place) {
    if (symbol.named()) {
      throw Error(fmt::format("{} cannot stay dynamic: the model fixes it to {}", describe(symbol), value), place.str(),
                  "Declare the axis Dim::Auto or Dim::Static, or change the code that needs this size.");
    }
    if (!symbol.range.contains(value) || symbol.excluded.contains(value)) {
      throw Error(
          fmt::format("{} must be {}, which is outside its range {}", describe(symbol), value, symbol.range.str()),
          place.str(), "Check the sample inputs and the declared ranges of dynamic axes.");
    }
    replace(symbol, Expr(value), place);
  }

  void replace(SymbolInfo& symbol, const Expr& with, const Place& place) {
    if (symbol.unbacked) {
      // Nothing else in the program says so: the run has to check it.
      record(eq(symbol.symbol, with), place, symbol.symbol);
    }
    symbol.replacement = with;
    symbol.replaced_at = place;
    symbol.replaced_when = ++replacements;
    ++version;
  }

  // The range and the excluded values of a replaced symbol hold for what replaced it.
  void carry_range(const SymbolInfo& symbol, const Expr& with, const Place& place) {
    const Range r = symbol.range;
    if (r.min != Range::kMin) {
      learn(ge(with, r.min), place);
    }
    if (r.max != Range::kMax) {
      learn(le(with, r.max), place);
    }
    for (int64_t value : std::set<int64_t>(symbol.excluded)) {
      learn(ne(with, value), place);
    }
  }

  struct Solution {
    SymbolInfo* symbol = nullptr;
    Expr value;
  };

  // Unbacked before automatic before named, later before earlier: what is older and has a name stays.
  static bool preferred(const SymbolInfo& a, const SymbolInfo& b) {
    if (a.unbacked != b.unbacked) {
      return a.unbacked;
    }
    if (a.named() != b.named()) {
      return b.named();
    }
    return a.index > b.index;
  }

  Solution find_solution(const Expr& e) const {
    Solution best;
    for (const PolyTerm& term : poly_terms(e)) {
      const AtomNode* atom = term.monomial->single_atom();
      SymbolInfo* known = atom && atom->is_symbol() ? info(*atom->symbol) : nullptr;
      if (!known || std::abs(term.coefficient) != 1 || (best.symbol && preferred(*best.symbol, *known))) {
        continue;
      }
      const Expr rest = e - monomial_expr(term);
      if (contains_symbol(rest, known->symbol) || (!known->unbacked && rest.has_unbacked())) {
        continue;
      }
      best = {known, term.coefficient == 1 ? -rest : rest};
    }
    return best;
  }

  // e == 0 with a common factor that cannot be zero taken out.
  Expr without_nonzero_factors(Expr e) const {
    if (poly_constant(e) != 0 || poly_terms(e).size() < 2) {
      return e;
    }
    for (const FactorRef& factor : std::vector<FactorRef>(poly_terms(e)[0].monomial->factors)) {
      const Expr candidate = atom_expr(factor.atom);
      const Expr quotient = floordiv(e, candidate);
      if (!bounds(candidate, Trust::kAll).contains(0) && quotient * candidate == e) {
        e = quotient;
      }
    }
    return e;
  }

  void refuse_relation_of_named(const Expr& e, const Place& place) const {
    std::vector<Symbol> used = e.free_symbols();
    std::vector<const SymbolInfo*> named;
    for (Symbol symbol : used) {
      const SymbolInfo* known = info(symbol);
      if (known && known->named()) {
        named.push_back(known);
      }
    }
    if (used.size() >= 2 && named.size() == used.size() && is_linear(e)) {
      throw Error(fmt::format("{} and {} cannot be independent: the model needs {}", describe(*named[0]),
                              describe(*named[1]), eq(e, 0).str()),
                  place.str(), "Give both axes the same Dim or derive one from the other, or use Dim::Auto.");
    }
  }

  // Makes e == 0 true by replacing one symbol, where it can be solved for one.
  bool solve(const Expr& equation, const Place& place) {
    const Expr e = without_nonzero_factors(equation);
    refuse_relation_of_named(e, place);
    const Solution solution = find_solution(e);
    if (!solution.symbol) {
      return false;
    }
    if (auto value = solution.value.as_int()) {
      make_static(*solution.symbol, *value, place);
      return true;
    }
    if (solution.symbol->named()) {
      return false;
    }
    replace(*solution.symbol, solution.value, place);
    carry_range(*solution.symbol, solution.value, place);
    return true;
  }

  // ── Results ──

  std::optional<Guard> program_guard(const RawGuard& raw) const {
    if (raw.pinned) {
      const Expr value = simplify(*info(*raw.pinned)->replacement, Trust::kRanges);
      return Guard{eq(*raw.pinned, value), raw.place};
    }
    const BoolExpr c = simplify(raw.condition, Trust::kRanges);
    return c.as_bool() == true ? std::nullopt : std::optional(Guard{c, raw.place});
  }

  void refresh_guards() const {
    if (guards_version == version) {
      return;
    }
    guards.clear();
    std::unordered_set<BoolExpr, BoolHash> seen;
    for (const RawGuard& raw : raw_guards) {
      if (auto guard = program_guard(raw); guard && seen.insert(guard->condition).second) {
        guards.push_back(std::move(*guard));
      }
    }
    guards_version = version;
  }

  // The latest event on the way from a symbol to its constant.
  const SymbolInfo* decided_by(const Expr& e) const {
    const SymbolInfo* latest = nullptr;
    for (Symbol symbol : e.free_symbols()) {
      const SymbolInfo* known = info(symbol);
      if (!known || !known->replacement) {
        continue;
      }
      const SymbolInfo* deeper = decided_by(*known->replacement);
      for (const SymbolInfo* candidate : {known, deeper}) {
        if (candidate && (!latest || candidate->replaced_when > latest->replaced_when)) {
          latest = candidate;
        }
      }
    }
    return latest;
  }

  // ── Axes ──

  Symbol root_symbol(const AxisSource& source, int64_t root_size, const Dim& dim) {
    const auto found = roots.find(dim.name());
    if (found == roots.end()) {
      const Symbol symbol = fresh('s', next_backed);
      add_symbol(symbol, dim.range(), root_size).dim_name = dim.name();
      roots.emplace(dim.name(), symbol);
      return symbol;
    }
    SymbolInfo& root = *info(found->second);
    if (root.hint != root_size) {
      throw Error(fmt::format("{} makes Dim '{}' {}, but {} makes it {}", axis_text(source), dim.name(), root_size,
                              describe(root), *root.hint),
                  "", "Axes with the same Dim need the same size in the sample inputs.");
    }
    const Range common = intersect(root.range, dim.range());
    if (!common.contains(root_size)) {
      fail("Dim '{}' is declared with the ranges {} and {}, and its sample size is {}", dim.name(), root.range.str(),
           dim.range().str(), root_size);
    }
    root.range = common;
    ++version;
    return found->second;
  }

  Expr named_axis(const AxisSource& source, int64_t sample, const Dim& dim) {
    const int64_t shifted = checked_add(sample, checked_neg(dim.offset()));
    if (mod_int(shifted, dim.factor()) != 0) {
      throw Error(fmt::format("{} has the size {}, which is not of the form {}", axis_text(source), sample, dim.str()),
                  "", "Choose sample inputs that fit the derived Dim.");
    }
    const int64_t root_size = shifted / dim.factor();
    check_range(source, root_size, dim);
    return Expr(dim.factor()) * Expr(root_symbol(source, root_size, dim)) + Expr(dim.offset());
  }

  static void check_range(const AxisSource& source, int64_t size, const Dim& dim) {
    if (!dim.range().contains(size)) {
      throw Error(fmt::format("{} has the sample size {}, outside the range {} of its {}", axis_text(source), size,
                              dim.range().str(), dim.kind() == Dim::Kind::kNamed ? "Dim '" + dim.name() + "'" : "Dim"),
                  "", "Change the sample input or the declared range.");
    }
  }
};

ShapeEnv::ShapeEnv() : impl_(std::make_unique<Impl>()) {}
ShapeEnv::~ShapeEnv() = default;

Expr ShapeEnv::add_axis(const AxisSource& source, int64_t sample, const Dim& dim) {
  if (sample < 0) {
    fail("{} has the negative size {}", axis_text(source), sample);
  }
  Expr expr = sample;
  if (dim.kind() == Dim::Kind::kNamed) {
    expr = impl_->named_axis(source, sample, dim);
  } else if (dim.kind() == Dim::Kind::kAuto) {
    Impl::check_range(source, sample, dim);
    if (!dim.range().single()) {
      const Symbol symbol = impl_->fresh('s', impl_->next_backed);
      impl_->add_symbol(symbol, dim.range(), sample);
      expr = symbol;
    }
  }
  impl_->axes.push_back({source, expr, dim.kind() == Dim::Kind::kAuto});
  return expr;
}

Expr ShapeEnv::add_unbacked(Range range) {
  if (range.min > range.max) {
    fail("a data-dependent size cannot have the range {}", range.str());
  }
  const Symbol symbol = impl_->fresh('u', impl_->next_unbacked);
  impl_->add_symbol(symbol, range, std::nullopt);
  return symbol;
}

void ShapeEnv::declare(Symbol symbol, Range range, std::optional<int64_t> hint) {
  if (range.min > range.max || (hint && !range.contains(*hint))) {
    fail("symbol {} cannot have the range {}{}", symbol.name(), range.str(),
         hint ? " with the sample size " + std::to_string(*hint) : "");
  }
  if (impl_->info(symbol)) {
    fail("symbol {} is declared twice", symbol.name());
  }
  impl_->add_symbol(symbol, range, hint);
}

Expr ShapeEnv::simplify(const Expr& expr) const { return impl_->simplify(expr, Trust::kAll); }
BoolExpr ShapeEnv::simplify(const BoolExpr& condition) const { return impl_->simplify(condition, Trust::kAll); }
std::optional<int64_t> ShapeEnv::hint(const Expr& expr) const { return impl_->hint(expr); }

Range ShapeEnv::bounds(const Expr& expr) const {
  return impl_->bounds(impl_->simplify(expr, Trust::kAll), Trust::kAll);
}

std::optional<bool> ShapeEnv::statically(const BoolExpr& condition) const { return impl_->statically(condition); }

bool ShapeEnv::evaluate(const BoolExpr& condition) {
  const BoolExpr c = impl_->simplify(condition, Trust::kAll);
  if (auto decided = c.as_bool()) {
    return *decided;
  }
  if (impl_->has_hints(c)) {
    const bool answer = impl_->at_samples(c);
    impl_->learn(answer ? c : !c, current_place());
    return answer;
  }
  // One part with sample values may decide a combination.
  if (c.kind() == BoolExpr::Kind::kAnd || c.kind() == BoolExpr::Kind::kOr) {
    const bool decisive = c.kind() == BoolExpr::Kind::kOr;
    for (const BoolExpr& part : c.operands()) {
      if (impl_->has_hints(part) && impl_->at_samples(part) == decisive) {
        impl_->learn(decisive ? part : !part, current_place());
        return decisive;
      }
    }
  }
  throw Error(fmt::format("the answer to '{}' is data-dependent: it is not known while tracing", c.str()),
              current_place().str(),
              "State the fact with a check (require) before it is asked, or change the code so that it does not ask.");
}

void ShapeEnv::require(const BoolExpr& condition) {
  const BoolExpr c = impl_->simplify(condition, Trust::kAll);
  const bool known_false = c.as_bool() == false;
  if (known_false || (impl_->has_hints(c) && !impl_->at_samples(c))) {
    throw Error(fmt::format("the required condition {} does not hold{}", condition.str(),
                            known_false ? "" : " for the sample inputs"),
                current_place().str(), "Check the shapes of the sample inputs.");
  }
  if (!c.as_bool()) {
    impl_->learn(c, current_place());
  }
}

int64_t ShapeEnv::specialize(const Expr& expr) {
  const Expr simple = simplify(expr);
  if (auto value = simple.as_int()) {
    return *value;
  }
  const std::optional<int64_t> value = hint(simple);
  if (!value) {
    throw Error(fmt::format("the size {} is data-dependent: it has no value while tracing", simple.str()),
                current_place().str(), "Keep it symbolic, or state its value with a check (require).");
  }
  evaluate(eq(simple, *value));
  return *value;
}

Expr ShapeEnv::broadcast(const Expr& left, const Expr& right) {
  const Expr a = simplify(left);
  const Expr b = simplify(right);
  if (a == b || b == Expr(1)) {
    return a;
  }
  if (a == Expr(1)) {
    return b;
  }
  const auto sample_a = hint(a);
  const auto sample_b = hint(b);
  if (!sample_a || !sample_b) {
    require(eq(a, b));
    return simplify(sample_a ? a : b);
  }
  if (*sample_a == *sample_b) {
    evaluate(eq(a, b));
    return simplify(a);
  }
  if (*sample_a == 1 || *sample_b == 1) {
    specialize(*sample_a == 1 ? a : b);
    return simplify(*sample_a == 1 ? b : a);
  }
  auto text = [](const Expr& e, int64_t sample) {
    return e.is_int() ? e.str() : fmt::format("{} (here {})", e.str(), sample);
  };
  throw Error(fmt::format("sizes {} and {} do not broadcast", text(a, *sample_a), text(b, *sample_b)),
              current_place().str(), "Sizes must be equal, or one of them 1.");
}

void ShapeEnv::place_facts(const Place& place) {
  if (impl_->placed_version == impl_->version) {
    return;
  }
  impl_->placed_version = impl_->version;
  for (SymbolInfo& symbol : impl_->symbols) {
    if (symbol.replacement && symbol.replaced_at.empty()) {
      symbol.replaced_at = place;
    }
  }
  for (; impl_->placed_guards < impl_->raw_guards.size(); ++impl_->placed_guards) {
    RawGuard& guard = impl_->raw_guards[impl_->placed_guards];
    if (guard.place.empty()) {
      guard.place = place;
      impl_->guards_version = 0;
    }
  }
}

const std::vector<Guard>& ShapeEnv::guards() const {
  impl_->refresh_guards();
  return impl_->guards;
}

std::vector<Specialization> ShapeEnv::specializations() const {
  std::vector<Specialization> result;
  for (const Axis& axis : impl_->axes) {
    const auto value = simplify(axis.expr).as_int();
    const SymbolInfo* event = axis.automatic && value ? impl_->decided_by(axis.expr) : nullptr;
    if (event) {
      result.push_back({axis.source, *value, event->replaced_at});
    }
  }
  return result;
}

std::map<std::string, Range> ShapeEnv::range_constraints() const {
  std::map<std::string, Range> result;
  for (const SymbolInfo& symbol : impl_->symbols) {
    if (!symbol.replacement) {
      result.emplace(symbol.symbol.name(), symbol.range);
    }
  }
  return result;
}

std::optional<std::string> ShapeEnv::dim_name(Symbol symbol) const {
  const auto survivor = simplify(Expr(symbol)).as_symbol();
  const SymbolInfo* known = survivor ? impl_->info(*survivor) : nullptr;
  return known && known->named() ? std::optional(known->dim_name) : std::nullopt;
}

std::vector<AxisSource> ShapeEnv::sources(Symbol symbol) const {
  const Expr wanted = simplify(Expr(symbol));
  std::vector<AxisSource> result;
  for (const Axis& axis : impl_->axes) {
    const bool same = axis.expr == Expr(symbol) || (!wanted.is_int() && simplify(axis.expr) == wanted);
    if (same) {
      result.push_back(axis.source);
    }
  }
  return result;
}

}  // namespace exporters
