#pragma once

// The representation behind Expr and BoolExpr; for the files of this room only.

#include "exporters/support/error.h"
#include "exporters/symbolic/expr.h"

#include <numeric>

namespace exporters {

struct AtomNode;
struct MonomialNode;
using AtomPtr = std::shared_ptr<const AtomNode>;
using MonomialPtr = std::shared_ptr<const MonomialNode>;

/// Limits that keep hostile input from taking unbounded time or stack.
inline constexpr uint32_t kMaxDepth = 256;
inline constexpr uint32_t kMaxSize = 100'000;
inline constexpr size_t kMaxTerms = 1024;
inline constexpr size_t kMaxProduct = 1 << 16;

struct AtomNode {
  Expr::AtomKind kind = Expr::AtomKind::kSymbol;
  std::optional<Symbol> symbol;
  std::vector<Expr> operands;
  double scale = 1.0;
  size_t hash = 0;
  uint32_t depth = 0;
  uint32_t size = 1;
  bool unbacked = false;

  bool is_symbol() const { return kind == Expr::AtomKind::kSymbol; }
};

struct FactorRef {
  AtomPtr atom;
  int64_t power = 1;
};

/// A product of atom powers, sorted by atom.
struct MonomialNode {
  std::vector<FactorRef> factors;
  int64_t degree = 0;
  size_t hash = 0;
  uint32_t depth = 0;
  uint32_t size = 0;
  bool unbacked = false;
  bool has_functions = false;

  /// The only atom, when the monomial is that atom to the power one.
  const AtomNode* single_atom() const {
    return factors.size() == 1 && factors[0].power == 1 ? factors[0].atom.get() : nullptr;
  }
};

struct PolyTerm {
  int64_t coefficient = 0;
  MonomialPtr monomial;
};

/// At least one term; terms sorted by monomial, highest degree first, coefficients never zero.
struct ExprNode {
  std::vector<PolyTerm> terms;
  int64_t constant = 0;
  size_t hash = 0;
  uint32_t depth = 0;
  uint32_t size = 0;
  bool unbacked = false;
  bool has_functions = false;

  static const ExprNode* of(const Expr& e) { return e.node_.get(); }
  static Expr make(std::vector<PolyTerm> sorted_terms, int64_t constant);
  static Expr wrap(std::shared_ptr<const ExprNode> node) { return Expr(std::move(node)); }
};

struct BoolNode {
  BoolExpr::Kind kind = BoolExpr::Kind::kTrue;
  Expr operand;
  std::vector<BoolExpr> operands;
  size_t hash = 0;
  uint32_t depth = 0;
  uint32_t size = 0;
};

int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
int64_t checked_neg(int64_t a);
int64_t checked_pow(int64_t base, int64_t exponent);
/// Toward minus infinity; throw Error for b == 0.
int64_t floordiv_int(int64_t a, int64_t b);
int64_t mod_int(int64_t a, int64_t b);
/// trunc(double(a) * scale); throws Error when the result is no int64.
int64_t trunc_scaled(int64_t a, double scale);

const std::vector<PolyTerm>& poly_terms(const Expr& e);
int64_t poly_constant(const Expr& e);
/// The greatest common divisor of the coefficients without the constant; 0 for a constant.
int64_t coefficient_gcd(const Expr& e);
/// Coefficients and constant divided; each must be a multiple.
Expr divide_exact(const Expr& e, int64_t divisor);
Expr without_constant(const Expr& e);

Expr atom_expr(const AtomPtr& atom);
/// The atom when the expression is nothing else.
const AtomNode* as_atom(const Expr& e);
Expr monomial_expr(const PolyTerm& term);
Expr min_max(Expr::AtomKind kind, std::vector<Expr> operands);
/// The atom with other operands, in canonical form.
Expr rebuild(const AtomNode& atom, const std::vector<Expr>& operands);

using AtomMap = std::function<std::optional<Expr>(const AtomNode&)>;
/// The expression with atoms replaced where `map` gives something; does not descend into operands by itself.
Expr map_atoms(const Expr& e, const AtomMap& map);
/// x - q*(x//q) as Mod(x, q), where it stands there whole.
Expr recognise_mod(const Expr& e);

bool is_unbacked(Symbol symbol);
/// Non-negative for every non-negative valuation of backed symbols, visible from the form alone.
bool visibly_nonnegative(const Expr& e);
int compare_atoms(const AtomNode& a, const AtomNode& b);
void collect_symbols(const Expr& e, std::vector<Symbol>& out);
void sort_unique(std::vector<Symbol>& symbols);
std::string number_text(double value);

inline size_t hash_mix(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

}  // namespace exporters
