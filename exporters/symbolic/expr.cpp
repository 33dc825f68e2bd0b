#include "exporters/symbolic/expr.h"

#include "exporters/symbolic/expr_node.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

namespace exporters {
namespace {

using Kind = Expr::AtomKind;

// An interned name that remembers its expression, so that Expr(symbol) allocates nothing.
// Symbol points to the string base.
struct SymbolEntry : std::string {
  using std::string::string;
  std::shared_ptr<const ExprNode> node;
};

void check_limits(uint32_t depth, uint64_t size) {
  ensure(depth <= kMaxDepth, "symbolic expression is nested deeper than {}", kMaxDepth);
  ensure(size <= kMaxSize, "symbolic expression has more than {} parts", kMaxSize);
}

AtomPtr make_atom(Kind kind, std::vector<Expr> operands, double scale = 1.0) {
  auto atom = std::make_shared<AtomNode>();
  atom->kind = kind;
  atom->operands = std::move(operands);
  atom->scale = scale;
  size_t hash = hash_mix(static_cast<size_t>(kind) + 17, std::hash<double>()(scale));
  uint64_t size = 1;
  for (const Expr& operand : atom->operands) {
    hash = hash_mix(hash, operand.hash());
    if (const ExprNode* node = ExprNode::of(operand)) {
      atom->depth = std::max(atom->depth, node->depth);
      atom->unbacked |= node->unbacked;
      size += node->size;
    }
  }
  atom->depth += 1;
  check_limits(atom->depth, size);
  atom->size = static_cast<uint32_t>(size);
  atom->hash = hash;
  return atom;
}

MonomialPtr make_monomial(std::vector<FactorRef> factors) {
  auto monomial = std::make_shared<MonomialNode>();
  uint64_t size = 0;
  size_t hash = 3;
  for (const FactorRef& factor : factors) {
    const AtomNode& atom = *factor.atom;
    monomial->degree = checked_add(monomial->degree, factor.power);
    monomial->depth = std::max(monomial->depth, atom.depth);
    monomial->unbacked |= atom.unbacked;
    monomial->has_functions |= !atom.is_symbol();
    hash = hash_mix(hash_mix(hash, atom.hash), static_cast<size_t>(factor.power));
    size += atom.size;
  }
  check_limits(monomial->depth, size);
  monomial->size = static_cast<uint32_t>(size);
  monomial->hash = hash;
  monomial->factors = std::move(factors);
  return monomial;
}

// Graded lexicographic: higher degree first, so that terms print as people write them.
int compare_monomials(const MonomialNode& a, const MonomialNode& b) {
  if (&a == &b) {
    return 0;
  }
  if (a.degree != b.degree) {
    return a.degree > b.degree ? -1 : 1;
  }
  for (size_t i = 0; i < a.factors.size() && i < b.factors.size(); ++i) {
    if (int c = compare_atoms(*a.factors[i].atom, *b.factors[i].atom)) {
      return c;
    }
    if (a.factors[i].power != b.factors[i].power) {
      return a.factors[i].power > b.factors[i].power ? -1 : 1;
    }
  }
  return static_cast<int>(a.factors.size()) - static_cast<int>(b.factors.size());
}

MonomialPtr multiply(const MonomialPtr& a, const MonomialPtr& b) {
  std::vector<FactorRef> factors;
  factors.reserve(a->factors.size() + b->factors.size());
  auto i = a->factors.begin();
  auto j = b->factors.begin();
  while (i != a->factors.end() || j != b->factors.end()) {
    const int order = i == a->factors.end() ? 1 : j == b->factors.end() ? -1 : compare_atoms(*i->atom, *j->atom);
    if (order == 0) {
      factors.push_back({i->atom, checked_add(i->power, j->power)});
      ++i, ++j;
    } else {
      factors.push_back(order < 0 ? *i++ : *j++);
    }
  }
  return make_monomial(std::move(factors));
}

// a / b, or null when b does not divide a.
std::optional<MonomialPtr> divide(const MonomialPtr& a, const MonomialPtr& b) {
  std::vector<FactorRef> factors;
  auto j = b->factors.begin();
  for (const FactorRef& factor : a->factors) {
    if (j != b->factors.end() && compare_atoms(*factor.atom, *j->atom) == 0) {
      if (factor.power < j->power) {
        return std::nullopt;
      }
      if (factor.power > j->power) {
        factors.push_back({factor.atom, factor.power - j->power});
      }
      ++j;
    } else {
      factors.push_back(factor);
    }
  }
  if (j != b->factors.end()) {
    return std::nullopt;
  }
  return factors.empty() ? MonomialPtr() : make_monomial(std::move(factors));
}

Expr add_scaled(const Expr& a, const Expr& b, int64_t scale) {
  const auto& x = poly_terms(a);
  const auto& y = poly_terms(b);
  std::vector<PolyTerm> terms;
  terms.reserve(x.size() + y.size());
  auto scaled = [scale](int64_t c) { return scale == 1 ? c : checked_mul(c, scale); };
  size_t i = 0;
  size_t j = 0;
  while (i < x.size() || j < y.size()) {
    const int order = i == x.size() ? 1 : j == y.size() ? -1 : compare_monomials(*x[i].monomial, *y[j].monomial);
    if (order < 0) {
      terms.push_back(x[i++]);
    } else if (order > 0) {
      terms.push_back({scaled(y[j].coefficient), y[j].monomial});
      ++j;
    } else {
      if (int64_t sum = checked_add(x[i].coefficient, scaled(y[j].coefficient))) {
        terms.push_back({sum, x[i].monomial});
      }
      ++i, ++j;
    }
  }
  return ExprNode::make(std::move(terms), checked_add(poly_constant(a), scaled(poly_constant(b))));
}

Expr scale_by(const Expr& e, int64_t factor) {
  if (factor == 0) {
    return 0;
  }
  if (factor == 1) {
    return e;
  }
  std::vector<PolyTerm> terms = poly_terms(e);
  for (PolyTerm& term : terms) {
    term.coefficient = checked_mul(term.coefficient, factor);
  }
  return ExprNode::make(std::move(terms), checked_mul(poly_constant(e), factor));
}

Expr from_unsorted(std::vector<PolyTerm> terms, int64_t constant) {
  std::sort(terms.begin(), terms.end(),
            [](const PolyTerm& a, const PolyTerm& b) { return compare_monomials(*a.monomial, *b.monomial) < 0; });
  std::vector<PolyTerm> merged;
  for (PolyTerm& term : terms) {
    if (!merged.empty() && compare_monomials(*merged.back().monomial, *term.monomial) == 0) {
      merged.back().coefficient = checked_add(merged.back().coefficient, term.coefficient);
    } else {
      merged.push_back(std::move(term));
    }
  }
  std::erase_if(merged, [](const PolyTerm& term) { return term.coefficient == 0; });
  return ExprNode::make(std::move(merged), constant);
}

Expr multiply_polynomials(const Expr& a, const Expr& b) {
  const auto& x = poly_terms(a);
  const auto& y = poly_terms(b);
  ensure((x.size() + 1) * (y.size() + 1) <= kMaxProduct, "symbolic product of {} by {} terms is too large", x.size(),
         y.size());
  std::vector<PolyTerm> terms;
  terms.reserve((x.size() + 1) * (y.size() + 1));
  for (const PolyTerm& s : x) {
    for (const PolyTerm& t : y) {
      terms.push_back({checked_mul(s.coefficient, t.coefficient), multiply(s.monomial, t.monomial)});
    }
  }
  auto add_multiples = [&](const std::vector<PolyTerm>& of, int64_t factor) {
    for (const PolyTerm& term : of) {
      if (factor != 0) {
        terms.push_back({checked_mul(term.coefficient, factor), term.monomial});
      }
    }
  };
  add_multiples(x, poly_constant(b));
  add_multiples(y, poly_constant(a));
  return from_unsorted(std::move(terms), checked_mul(poly_constant(a), poly_constant(b)));
}

int64_t leading_coefficient(const Expr& e) {
  const auto& terms = poly_terms(e);
  return terms.empty() ? poly_constant(e) : terms[0].coefficient;
}

// The quotient when b divides a exactly.
std::optional<Expr> divide_polynomials(Expr a, const Expr& b) {
  const PolyTerm lead = poly_terms(b)[0];
  Expr quotient = 0;
  for (int step = 0; step < 16; ++step) {
    if (a == Expr(0)) {
      return quotient;
    }
    const auto& terms = poly_terms(a);
    if (terms.empty() || terms[0].coefficient % lead.coefficient != 0) {
      return std::nullopt;
    }
    const std::optional<MonomialPtr> monomial = divide(terms[0].monomial, lead.monomial);
    if (!monomial) {
      return std::nullopt;
    }
    const int64_t c = terms[0].coefficient / lead.coefficient;
    const Expr part = *monomial ? ExprNode::make({{c, *monomial}}, 0) : Expr(c);
    quotient = quotient + part;
    a = a - part * b;
  }
  return std::nullopt;
}

int64_t content(const Expr& e) { return std::gcd(coefficient_gcd(e), poly_constant(e)); }

// What all terms of both share: an integer times a monomial; null monomial for none.
std::pair<int64_t, MonomialPtr> common_factor(const Expr& a, const Expr& b) {
  const int64_t g = std::max<int64_t>(std::gcd(content(a), content(b)), 1);
  if (poly_constant(a) != 0 || poly_constant(b) != 0) {
    return {g, nullptr};
  }
  std::vector<FactorRef> shared = poly_terms(b)[0].monomial->factors;
  for (const Expr* e : {&a, &b}) {
    for (const PolyTerm& term : poly_terms(*e)) {
      std::vector<FactorRef> kept;
      for (const FactorRef& factor : shared) {
        for (const FactorRef& other : term.monomial->factors) {
          if (compare_atoms(*factor.atom, *other.atom) == 0) {
            kept.push_back({factor.atom, std::min(factor.power, other.power)});
          }
        }
      }
      shared = std::move(kept);
    }
  }
  return {g, shared.empty() ? nullptr : make_monomial(std::move(shared))};
}

Expr divide_common(const Expr& e, int64_t g, const MonomialPtr& monomial) {
  std::vector<PolyTerm> terms;
  int64_t constant = poly_constant(e) / g;
  for (const PolyTerm& term : poly_terms(e)) {
    MonomialPtr rest = monomial ? *divide(term.monomial, monomial) : term.monomial;
    if (rest) {
      terms.push_back({term.coefficient / g, std::move(rest)});
    } else {
      constant = checked_add(constant, term.coefficient / g);
    }
  }
  return from_unsorted(std::move(terms), constant);
}

struct Split {
  Expr quotient;
  Expr rest;
};

// e = quotient * (c * monomial) + rest, term by term.
Split split_multiples(const Expr& e, const PolyTerm& divisor) {
  Split split;
  for (const PolyTerm& term : poly_terms(e)) {
    std::optional<MonomialPtr> monomial;
    if (term.coefficient % divisor.coefficient == 0) {
      monomial = divide(term.monomial, divisor.monomial);
    }
    if (monomial) {
      const int64_t c = term.coefficient / divisor.coefficient;
      split.quotient = split.quotient + (*monomial ? ExprNode::make({{c, *monomial}}, 0) : Expr(c));
    } else {
      split.rest = split.rest + monomial_expr(term);
    }
  }
  split.rest = split.rest + Expr(poly_constant(e));
  return split;
}

std::optional<int64_t> small_product(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

Expr floordiv_constant(const Expr& a, int64_t c);

// (n//d + r)//c == (n + r*d)//(d*c) for positive constants; with r == 0 for any d.
std::optional<Expr> merge_nested_division(const Expr& rest, int64_t c) {
  const auto& terms = poly_terms(rest);
  const AtomNode* atom = terms.size() == 1 && terms[0].coefficient == 1 ? terms[0].monomial->single_atom() : nullptr;
  if (!atom || atom->kind != Kind::kFloorDiv) {
    return std::nullopt;
  }
  const int64_t r = poly_constant(rest);
  const Expr& n = atom->operands[0];
  const Expr& d = atom->operands[1];
  if (auto divisor = d.as_int()) {
    const auto product = small_product(*divisor, c);
    const auto offset = small_product(*divisor, r);
    int64_t constant = 0;
    if (product && offset && !__builtin_add_overflow(poly_constant(n), *offset, &constant)) {
      return floordiv_constant(n + Expr(*offset), *product);
    }
    return std::nullopt;
  }
  return r == 0 ? std::optional(floordiv(n, d * Expr(c))) : std::nullopt;
}

// c >= 2. Terms that are multiples leave the division, the constant is reduced to [0, c), common divisors cancel,
// the leading coefficient of what remains is positive.
Expr floordiv_constant(const Expr& a, int64_t c) {
  Expr quotient = Expr(floordiv_int(poly_constant(a), c));
  int64_t r = mod_int(poly_constant(a), c);
  std::vector<PolyTerm> whole;
  std::vector<PolyTerm> part;
  int64_t g = c;
  for (const PolyTerm& term : poly_terms(a)) {
    if (term.coefficient % c == 0) {
      whole.push_back({term.coefficient / c, term.monomial});
    } else {
      part.push_back(term);
      g = std::gcd(g, term.coefficient);
    }
  }
  quotient = quotient + ExprNode::make(std::move(whole), 0);
  if (part.empty()) {
    return quotient;
  }
  const bool negative = part[0].coefficient < 0;
  for (PolyTerm& term : part) {
    term.coefficient /= negative ? -g : g;
  }
  c /= g;
  r /= g;
  if (negative) {
    r = c - 1 - r;
  }
  const Expr rest = ExprNode::make(std::move(part), r);
  const std::optional<Expr> merged = merge_nested_division(rest, c);
  const Expr divided = merged ? *merged : atom_expr(make_atom(Kind::kFloorDiv, {rest, Expr(c)}));
  return negative ? quotient - divided : quotient + divided;
}

// c >= 2. Coefficients and constant are reduced to [0, c), inner modulos drop where c divides theirs.
Expr mod_constant(const Expr& a, int64_t c) {
  std::vector<PolyTerm> terms;
  Expr unwrapped = 0;
  int64_t g = c;
  for (const PolyTerm& term : poly_terms(a)) {
    const int64_t coefficient = mod_int(term.coefficient, c);
    if (coefficient == 0) {
      continue;
    }
    const AtomNode* atom = term.monomial->single_atom();
    if (atom && atom->kind == Kind::kMod) {
      const auto inner = atom->operands[1].as_int();
      const auto product = inner ? small_product(*inner, coefficient) : std::nullopt;
      if (product && *product % c == 0) {
        unwrapped = unwrapped + Expr(coefficient) * atom->operands[0];
        continue;
      }
    }
    terms.push_back({coefficient, term.monomial});
    g = std::gcd(g, coefficient);
  }
  const int64_t r = mod_int(poly_constant(a), c);
  if (!(unwrapped == Expr(0))) {
    return mod_constant(ExprNode::make(std::move(terms), r) + unwrapped, c);
  }
  if (terms.empty()) {
    return r;
  }
  if (g > 1) {
    for (PolyTerm& term : terms) {
      term.coefficient /= g;
    }
    return Expr(g) * mod_constant(ExprNode::make(std::move(terms), r / g), c / g) + Expr(r % g);
  }
  return atom_expr(make_atom(Kind::kMod, {ExprNode::make(std::move(terms), r), Expr(c)}));
}

void flatten(Kind kind, const Expr& e, std::vector<Expr>& out, std::optional<int64_t>& constant) {
  if (auto value = e.as_int()) {
    constant = !constant ? *value : kind == Kind::kMin ? std::min(*constant, *value) : std::max(*constant, *value);
    return;
  }
  if (const AtomNode* atom = as_atom(e); atom && atom->kind == kind) {
    for (const Expr& operand : atom->operands) {
      flatten(kind, operand, out, constant);
    }
    return;
  }
  out.push_back(e);
}

// Drops operands that differ from another one by a constant of the losing sign.
void drop_dominated(Kind kind, std::vector<Expr>& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t j = i + 1; j < operands.size();) {
      const Expr x = without_constant(operands[i]);
      if (!(x == without_constant(operands[j]))) {
        ++j;
        continue;
      }
      const bool first_greater = poly_constant(operands[i]) > poly_constant(operands[j]);
      if (first_greater != (kind == Kind::kMax)) {
        std::swap(operands[i], operands[j]);
      }
      operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

std::optional<Expr> substitute_atom(const AtomNode& atom, const Substitution& substitution) {
  if (atom.is_symbol()) {
    return substitution(*atom.symbol);
  }
  bool changed = false;
  std::vector<Expr> operands;
  operands.reserve(atom.operands.size());
  for (const Expr& operand : atom.operands) {
    operands.push_back(operand.substitute(substitution));
    changed |= ExprNode::of(operands.back()) != ExprNode::of(operand);
  }
  return changed ? std::optional(rebuild(atom, operands)) : std::nullopt;
}

int64_t evaluate_atom(const AtomNode& atom, const Valuation& valuation) {
  if (atom.is_symbol()) {
    return valuation(*atom.symbol);
  }
  int64_t value = atom.operands[0].evaluate(valuation);
  if (atom.kind == Kind::kTruncToInt) {
    return trunc_scaled(value, atom.scale);
  }
  for (size_t i = 1; i < atom.operands.size(); ++i) {
    const int64_t other = atom.operands[i].evaluate(valuation);
    switch (atom.kind) {
      case Kind::kFloorDiv:
        value = floordiv_int(value, other);
        break;
      case Kind::kMod:
        value = mod_int(value, other);
        break;
      case Kind::kMin:
        value = std::min(value, other);
        break;
      default:
        value = std::max(value, other);
        break;
    }
  }
  return value;
}

}  // namespace

int64_t checked_add(int64_t a, int64_t b) {
  int64_t result = 0;
  ensure(!__builtin_add_overflow(a, b, &result), "integer overflow in a symbolic size: {} + {}", a, b);
  return result;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t result = 0;
  ensure(!__builtin_mul_overflow(a, b, &result), "integer overflow in a symbolic size: {} * {}", a, b);
  return result;
}

int64_t checked_neg(int64_t a) { return checked_mul(a, -1); }

int64_t checked_pow(int64_t base, int64_t exponent) {
  ensure(exponent >= 0, "negative exponent {} in a symbolic size", exponent);
  if (base == 0 || base == 1 || base == -1) {
    return exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base;
  }
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    result = checked_mul(result, base);
  }
  return result;
}

int64_t floordiv_int(int64_t a, int64_t b) {
  ensure(b != 0, "division of the size {} by zero", a);
  if (b == -1) {
    return checked_neg(a);
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t mod_int(int64_t a, int64_t b) {
  ensure(b != 0, "modulo of the size {} by zero", a);
  if (b == -1) {
    return 0;
  }
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t trunc_scaled(int64_t a, double scale) {
  const double value = std::trunc(static_cast<double>(a) * scale);
  if (!(value > -9.2e18 && value < 9.2e18)) {
    fail("{} * {} does not fit in a 64-bit integer", a, number_text(scale));
  }
  return static_cast<int64_t>(value);
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

const std::vector<PolyTerm>& poly_terms(const Expr& e) {
  static const std::vector<PolyTerm> none;
  const ExprNode* node = ExprNode::of(e);
  return node ? node->terms : none;
}

int64_t poly_constant(const Expr& e) {
  const ExprNode* node = ExprNode::of(e);
  return node ? node->constant : *e.as_int();
}

int64_t coefficient_gcd(const Expr& e) {
  int64_t g = 0;
  for (const PolyTerm& term : poly_terms(e)) {
    g = std::gcd(g, term.coefficient);
  }
  return g;
}

Expr divide_exact(const Expr& e, int64_t divisor) {
  std::vector<PolyTerm> terms = poly_terms(e);
  for (PolyTerm& term : terms) {
    term.coefficient /= divisor;
  }
  return ExprNode::make(std::move(terms), poly_constant(e) / divisor);
}

Expr without_constant(const Expr& e) { return poly_constant(e) == 0 ? e : ExprNode::make(poly_terms(e), 0); }

Expr ExprNode::make(std::vector<PolyTerm> sorted_terms, int64_t constant) {
  if (sorted_terms.empty()) {
    return Expr(constant);
  }
  ensure(sorted_terms.size() <= kMaxTerms, "symbolic expression has more than {} terms", kMaxTerms);
  // The least int64 has no negation: refusing it here keeps signs and divisors simple everywhere else.
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  ensure(constant != kLeast, "integer overflow in a symbolic size: {}", constant);
  auto node = std::make_shared<ExprNode>();
  size_t hash = hash_mix(7, static_cast<size_t>(constant));
  uint64_t size = 1;
  for (const PolyTerm& term : sorted_terms) {
    const MonomialNode& monomial = *term.monomial;
    ensure(term.coefficient != kLeast, "integer overflow in a symbolic size: {}", term.coefficient);
    hash = hash_mix(hash_mix(hash, static_cast<size_t>(term.coefficient)), monomial.hash);
    size += monomial.size;
    node->depth = std::max(node->depth, monomial.depth);
    node->unbacked |= monomial.unbacked;
    node->has_functions |= monomial.has_functions;
  }
  check_limits(node->depth, size);
  node->size = static_cast<uint32_t>(size);
  node->hash = hash;
  node->constant = constant;
  node->terms = std::move(sorted_terms);
  return Expr(std::move(node));
}

bool is_unbacked(Symbol symbol) {
  const std::string& name = symbol.name();
  return name.size() > 1 && name[0] == 'u' && name.find_first_not_of("0123456789", 1) == std::string::npos;
}

Symbol::Symbol(std::string_view name) {
  static std::mutex mutex;
  static std::unordered_map<std::string_view, std::unique_ptr<SymbolEntry>> table;
  std::lock_guard lock(mutex);
  if (auto found = table.find(name); found != table.end()) {
    name_ = found->second.get();
    return;
  }
  auto entry = std::make_unique<SymbolEntry>(name.data(), name.size());
  name_ = entry.get();
  auto atom = std::make_shared<AtomNode>();
  atom->symbol = *this;
  atom->unbacked = is_unbacked(*this);
  atom->hash = std::hash<const void*>()(name_);
  entry->node = std::make_shared<ExprNode>(*ExprNode::of(ExprNode::make({{1, make_monomial({{atom, 1}})}}, 0)));
  table.emplace(*entry, std::move(entry));
}

Expr::Expr(int64_t value) : value_(value) {}

Expr::Expr(Symbol symbol) : node_(static_cast<const SymbolEntry&>(symbol.name()).node) {}

std::optional<int64_t> Expr::as_int() const { return node_ ? std::nullopt : std::optional(value_); }

std::optional<Symbol> Expr::as_symbol() const {
  const AtomNode* atom = as_atom(*this);
  return atom ? atom->symbol : std::nullopt;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (!a.node_ && !b.node_) {
    return checked_add(a.value_, b.value_);
  }
  if (!b.node_ && b.value_ == 0) {
    return a;
  }
  if (!a.node_ && a.value_ == 0) {
    return b;
  }
  return add_scaled(a, b, 1);
}

Expr operator-(const Expr& a, const Expr& b) {
  if (!b.node_) {
    if (!a.node_) {
      int64_t result = 0;
      ensure(!__builtin_sub_overflow(a.value_, b.value_, &result), "integer overflow in a symbolic size: {} - {}",
             a.value_, b.value_);
      return result;
    }
    return b.value_ == 0 ? a : a + Expr(checked_neg(b.value_));
  }
  return a.node_ == b.node_ ? Expr(0) : add_scaled(a, b, -1);
}

Expr operator*(const Expr& a, const Expr& b) {
  if (!a.node_ && !b.node_) {
    return checked_mul(a.value_, b.value_);
  }
  if (!a.node_) {
    return scale_by(b, a.value_);
  }
  return !b.node_ ? scale_by(a, b.value_) : multiply_polynomials(a, b);
}

Expr operator-(const Expr& a) { return a.node_ ? scale_by(a, -1) : Expr(checked_neg(a.value_)); }

bool operator==(const Expr& a, const Expr& b) {
  if (a.node_ == b.node_) {
    return a.node_ || a.value_ == b.value_;
  }
  return a.node_ && b.node_ && a.node_->hash == b.node_->hash && Expr::compare(a, b) == 0;
}

int compare_atoms(const AtomNode& a, const AtomNode& b) {
  if (&a == &b) {
    return 0;
  }
  if (a.kind != b.kind) {
    return a.kind < b.kind ? -1 : 1;
  }
  if (a.is_symbol()) {
    return *a.symbol == *b.symbol ? 0 : a.symbol->name().compare(b.symbol->name());
  }
  if (a.operands.size() != b.operands.size()) {
    return a.operands.size() < b.operands.size() ? -1 : 1;
  }
  for (size_t i = 0; i < a.operands.size(); ++i) {
    if (int c = Expr::compare(a.operands[i], b.operands[i])) {
      return c;
    }
  }
  return a.scale == b.scale ? 0 : a.scale < b.scale ? -1 : 1;
}

int Expr::compare(const Expr& a, const Expr& b) {
  if (!a.node_ || !b.node_) {
    if (!a.node_ && !b.node_) {
      return a.value_ == b.value_ ? 0 : a.value_ < b.value_ ? -1 : 1;
    }
    return a.node_ ? 1 : -1;
  }
  if (a.node_ == b.node_) {
    return 0;
  }
  const auto& x = a.node_->terms;
  const auto& y = b.node_->terms;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (int c = compare_monomials(*x[i].monomial, *y[i].monomial)) {
      return c;
    }
    if (x[i].coefficient != y[i].coefficient) {
      return x[i].coefficient < y[i].coefficient ? -1 : 1;
    }
  }
  if (x.size() != y.size()) {
    return x.size() < y.size() ? -1 : 1;
  }
  return a.node_->constant == b.node_->constant ? 0 : a.node_->constant < b.node_->constant ? -1 : 1;
}

size_t Expr::hash() const { return node_ ? node_->hash : hash_mix(1, static_cast<size_t>(value_)); }

void collect_symbols(const Expr& e, std::vector<Symbol>& out) {
  for (const PolyTerm& term : poly_terms(e)) {
    for (const FactorRef& factor : term.monomial->factors) {
      if (factor.atom->is_symbol()) {
        out.push_back(*factor.atom->symbol);
      }
      for (const Expr& operand : factor.atom->operands) {
        collect_symbols(operand, out);
      }
    }
  }
}

void sort_unique(std::vector<Symbol>& symbols) {
  std::sort(symbols.begin(), symbols.end(), [](Symbol a, Symbol b) { return a.name() < b.name(); });
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
}

std::vector<Symbol> Expr::free_symbols() const {
  std::vector<Symbol> symbols;
  collect_symbols(*this, symbols);
  sort_unique(symbols);
  return symbols;
}

bool Expr::has_unbacked() const { return node_ && node_->unbacked; }

Expr map_atoms(const Expr& e, const AtomMap& map) {
  const auto& terms = poly_terms(e);
  bool changed = false;
  Expr sum = poly_constant(e);
  std::vector<PolyTerm> same;
  for (const PolyTerm& term : terms) {
    std::optional<Expr> product;
    const auto& factors = term.monomial->factors;
    for (size_t i = 0; i < factors.size(); ++i) {
      std::optional<Expr> mapped = map(*factors[i].atom);
      if (mapped && !product) {
        product = Expr(term.coefficient);
        for (size_t j = 0; j < i; ++j) {
          product = *product * pow(atom_expr(factors[j].atom), factors[j].power);
        }
      }
      if (product) {
        product = *product * pow(mapped ? *mapped : atom_expr(factors[i].atom), factors[i].power);
      }
    }
    if (product) {
      changed = true;
      sum = sum + *product;
    } else {
      same.push_back(term);
    }
  }
  return changed ? sum + ExprNode::make(std::move(same), 0) : e;
}

Expr Expr::substitute(const Substitution& substitution) const {
  return map_atoms(*this, [&](const AtomNode& atom) { return substitute_atom(atom, substitution); });
}

int64_t Expr::evaluate(const Valuation& valuation) const {
  if (!node_) {
    return value_;
  }
  int64_t sum = node_->constant;
  for (const PolyTerm& term : node_->terms) {
    int64_t product = term.coefficient;
    for (const FactorRef& factor : term.monomial->factors) {
      product = checked_mul(product, checked_pow(evaluate_atom(*factor.atom, valuation), factor.power));
    }
    sum = checked_add(sum, product);
  }
  return sum;
}

std::vector<Expr::Term> Expr::terms() const {
  std::vector<Term> result;
  for (const PolyTerm& term : poly_terms(*this)) {
    Term& out = result.emplace_back();
    out.coefficient = term.coefficient;
    for (const FactorRef& factor : term.monomial->factors) {
      const AtomNode& atom = *factor.atom;
      out.factors.push_back({{atom.kind, atom.symbol, atom.operands, atom.scale}, factor.power});
    }
  }
  if (int64_t constant = poly_constant(*this); constant != 0 || result.empty()) {
    result.push_back({constant, {}});
  }
  return result;
}

Expr atom_expr(const AtomPtr& atom) {
  return atom->is_symbol() ? Expr(*atom->symbol) : ExprNode::make({{1, make_monomial({{atom, 1}})}}, 0);
}

const AtomNode* as_atom(const Expr& e) {
  const auto& terms = poly_terms(e);
  return terms.size() == 1 && terms[0].coefficient == 1 && poly_constant(e) == 0 ? terms[0].monomial->single_atom()
                                                                                 : nullptr;
}

Expr monomial_expr(const PolyTerm& term) { return ExprNode::make({term}, 0); }

Expr floordiv(const Expr& a, const Expr& b) {
  if (auto c = b.as_int()) {
    if (*c == 0) {
      fail("division of the size {} by zero", a.str());
    }
    if (auto value = a.as_int()) {
      return floordiv_int(*value, *c);
    }
    if (*c == 1) {
      return a;
    }
    return *c < 0 ? floordiv(-a, Expr(checked_neg(*c))) : floordiv_constant(a, *c);
  }
  if (a == Expr(0)) {
    return 0;
  }
  if (a == b) {
    return 1;
  }
  if (auto [g, monomial] = common_factor(a, b); g > 1 || monomial) {
    return floordiv(divide_common(a, g, monomial), divide_common(b, g, monomial));
  }
  if (leading_coefficient(b) < 0) {
    return floordiv(-a, -b);
  }
  if (poly_terms(b).size() == 1 && poly_constant(b) == 0) {
    const Split split = split_multiples(a, poly_terms(b)[0]);
    if (!(split.quotient == Expr(0))) {
      return split.quotient + floordiv(split.rest, b);
    }
  } else if (auto quotient = divide_polynomials(a, b)) {
    return *quotient;
  }
  return atom_expr(make_atom(Kind::kFloorDiv, {a, b}));
}

Expr mod(const Expr& a, const Expr& b) {
  if (auto c = b.as_int()) {
    if (*c == 0) {
      fail("modulo of the size {} by zero", a.str());
    }
    if (auto value = a.as_int()) {
      return mod_int(*value, *c);
    }
    if (*c == 1 || *c == -1) {
      return 0;
    }
    return *c < 0 ? -mod(-a, Expr(checked_neg(*c))) : mod_constant(a, *c);
  }
  if (a == Expr(0) || a == b) {
    return 0;
  }
  if (auto [g, monomial] = common_factor(a, b); g > 1 || monomial) {
    const Expr inner = mod(divide_common(a, g, monomial), divide_common(b, g, monomial));
    return inner * (monomial ? ExprNode::make({{g, monomial}}, 0) : Expr(g));
  }
  if (leading_coefficient(b) < 0) {
    return -mod(-a, -b);
  }
  if (poly_terms(b).size() == 1 && poly_constant(b) == 0) {
    const Split split = split_multiples(a, poly_terms(b)[0]);
    if (!(split.quotient == Expr(0))) {
      return mod(split.rest, b);
    }
  } else if (divide_polynomials(a, b)) {
    return 0;
  }
  return atom_expr(make_atom(Kind::kMod, {a, b}));
}

Expr min_max(Kind kind, std::vector<Expr> inputs) {
  std::vector<Expr> operands;
  std::optional<int64_t> constant;
  for (const Expr& input : inputs) {
    flatten(kind, input, operands, constant);
  }
  ensure(operands.size() <= kMaxTerms, "minimum or maximum of more than {} sizes", kMaxTerms);
  auto less = [](const Expr& a, const Expr& b) { return Expr::compare(a, b) < 0; };
  std::sort(operands.begin(), operands.end(), less);
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  if (operands.size() <= 16) {
    drop_dominated(kind, operands);
    std::sort(operands.begin(), operands.end(), less);
  }
  if (constant) {
    operands.insert(operands.begin(), Expr(*constant));
  }
  return operands.size() == 1 ? operands[0] : atom_expr(make_atom(kind, std::move(operands)));
}

Expr min(const Expr& a, const Expr& b) { return min_max(Kind::kMin, {a, b}); }
Expr max(const Expr& a, const Expr& b) { return min_max(Kind::kMax, {a, b}); }

Expr pow(const Expr& base, int64_t exponent) {
  if (exponent < 0) {
    fail("negative exponent {} of the size {}", exponent, base.str());
  }
  if (exponent == 0) {
    return 1;
  }
  if (exponent == 1) {
    return base;
  }
  if (auto value = base.as_int()) {
    return checked_pow(*value, exponent);
  }
  const auto& terms = poly_terms(base);
  if (terms.size() == 1 && poly_constant(base) == 0) {
    std::vector<FactorRef> factors = terms[0].monomial->factors;
    for (FactorRef& factor : factors) {
      factor.power = checked_mul(factor.power, exponent);
    }
    return ExprNode::make({{checked_pow(terms[0].coefficient, exponent), make_monomial(std::move(factors))}}, 0);
  }
  if (exponent > 64) {
    fail("exponent {} of the size {} is too large", exponent, base.str());
  }
  Expr result = base;
  for (int64_t i = 1; i < exponent; ++i) {
    result = result * base;
  }
  return result;
}

Expr trunc_to_int(const Expr& a, double scale) {
  if (!std::isfinite(scale)) {
    fail("a size cannot be scaled by {}", number_text(scale));
  }
  if (auto value = a.as_int()) {
    return trunc_scaled(*value, scale);
  }
  // A whole factor is an integer product as long as doubles are exact.
  if (scale == std::trunc(scale) && std::abs(scale) < 9007199254740992.0) {
    return a * Expr(static_cast<int64_t>(scale));
  }
  if (scale < 0) {
    return -trunc_to_int(a, -scale);
  }
  if (leading_coefficient(a) < 0) {
    return -trunc_to_int(-a, scale);
  }
  return atom_expr(make_atom(Kind::kTruncToInt, {a}, scale));
}

Expr ceildiv(const Expr& a, const Expr& b) { return -floordiv(-a, b); }

Expr rebuild(const AtomNode& atom, const std::vector<Expr>& operands) {
  switch (atom.kind) {
    case Kind::kSymbol:
      return *atom.symbol;
    case Kind::kFloorDiv:
      return floordiv(operands[0], operands[1]);
    case Kind::kMod:
      return mod(operands[0], operands[1]);
    case Kind::kTruncToInt:
      return trunc_to_int(operands[0], atom.scale);
    default:
      return min_max(atom.kind, operands);
  }
}

Expr recognise_mod(const Expr& e) {
  const ExprNode* node = ExprNode::of(e);
  if (!node || !node->has_functions || node->terms.size() < 2) {
    return e;
  }
  for (const PolyTerm& term : node->terms) {
    const AtomNode* atom = term.monomial->single_atom();
    const auto divisor = atom && atom->kind == Kind::kFloorDiv ? atom->operands[1].as_int() : std::nullopt;
    if (!divisor || term.coefficient % *divisor != 0) {
      continue;
    }
    // k*n - k*q*(n//q), with the terms of k*n present in e.
    const Expr multiple = Expr(-(term.coefficient / *divisor)) * atom->operands[0];
    const Expr rest = e - (without_constant(multiple) + monomial_expr(term));
    if (poly_terms(rest).size() + poly_terms(multiple).size() + 1 == node->terms.size()) {
      const Expr k = -(term.coefficient / *divisor);
      return recognise_mod(rest - Expr(poly_constant(multiple)) + k * mod(atom->operands[0], *divisor));
    }
  }
  return e;
}

bool visibly_nonnegative(const Expr& e) {
  auto atom_ok = [](const AtomNode& atom) {
    auto all = [&] { return std::all_of(atom.operands.begin(), atom.operands.end(), visibly_nonnegative); };
    auto any = [&] { return std::any_of(atom.operands.begin(), atom.operands.end(), visibly_nonnegative); };
    switch (atom.kind) {
      case Kind::kSymbol:
        return !is_unbacked(*atom.symbol);
      case Kind::kMod:
        return visibly_nonnegative(atom.operands[1]);
      case Kind::kMax:
        return any();
      default:
        return all();
    }
  };
  if (poly_constant(e) < 0) {
    return false;
  }
  for (const PolyTerm& term : poly_terms(e)) {
    if (term.coefficient < 0) {
      return false;
    }
    for (const FactorRef& factor : term.monomial->factors) {
      if (factor.power % 2 != 0 && !atom_ok(*factor.atom)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace exporters
