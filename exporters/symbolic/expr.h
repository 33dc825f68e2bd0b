#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace exporters {

/// A named integer unknown. Names are interned, so comparison is by pointer. Backed symbols ("s0") stand for an
/// input's size and have a sample value; unbacked ones ("u0") for a size that depends on data.
class Symbol {
 public:
  explicit Symbol(std::string_view name);
  const std::string& name() const { return *name_; }
  friend bool operator==(Symbol a, Symbol b) { return a.name_ == b.name_; }
  size_t hash() const { return std::hash<const void*>()(name_); }

 private:
  const std::string* name_;
};

class Expr;
class BoolExpr;
struct ExprNode;
struct BoolNode;

/// Symbol → expression, for Expr::substitute.
using Substitution = std::function<std::optional<Expr>(Symbol)>;
/// Symbol → value, for evaluation.
using Valuation = std::function<int64_t(Symbol)>;

/// An immutable integer expression in canonical form: a polynomial with integer coefficients over atoms; an atom is a
/// symbol, a floor division, a modulo, a minimum or maximum, or TruncToInt of a float multiple. Two expressions that
/// the canonical form makes equal compare equal. Division and modulo round toward minus infinity, as in Python.
/// Copying is a reference-count increment; arithmetic that overflows int64 throws Error.
class Expr {
 public:
  Expr(int64_t value = 0);  // NOLINT: integers convert implicitly
  Expr(Symbol symbol);      // NOLINT: symbols convert implicitly

  std::optional<int64_t> as_int() const;
  std::optional<Symbol> as_symbol() const;
  bool is_int() const { return as_int().has_value(); }

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a);
  /// Structural equality of canonical forms; false does not mean that they differ for every valuation.
  friend bool operator==(const Expr& a, const Expr& b);

  /// A total order on canonical forms, for sorted output; without mathematical meaning.
  static int compare(const Expr& a, const Expr& b);
  size_t hash() const;

  /// Symbols in order of name, each once.
  std::vector<Symbol> free_symbols() const;
  bool has_unbacked() const;
  Expr substitute(const Substitution& substitution) const;
  /// Throws Error on division by zero and overflow.
  int64_t evaluate(const Valuation& valuation) const;

  /// "2*s0 + 1", "s0//2", "Max(1, s0)" : as torch.export prints it for people.
  std::string str() const;
  /// "Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))": what model.json of a .pt2 holds.
  std::string srepr() const;
  /// Reads both notations (what str() and srepr() write, and what torch.export 2.13 writes). Throws Error with the
  /// position on anything else; nesting deeper than 256 is refused.
  static Expr parse(std::string_view text);

  /// How the expression is built, for those that turn it into graph nodes or ONNX ops.
  /// Terms of a polynomial: coefficient and the atoms' product; the constant term has no factors.
  enum class AtomKind { kSymbol, kFloorDiv, kMod, kMin, kMax, kTruncToInt };
  struct Atom;
  struct Factor;
  struct Term;
  /// Highest degree first, the constant last, as str() prints it.
  std::vector<Term> terms() const;

 private:
  friend struct ExprNode;
  friend class BoolExpr;
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  int64_t value_ = 0;                     // when node_ is null
  std::shared_ptr<const ExprNode> node_;  // null for a plain integer
};

/// An atom with its operands: FloorDiv(numerator, denominator), Mod(dividend, divisor), Min/Max(two or more),
/// TruncToInt(operand) with a float `scale`: trunc(operand * scale).
struct Expr::Atom {
  AtomKind kind = AtomKind::kSymbol;
  std::optional<Symbol> symbol;
  std::vector<Expr> operands;
  double scale = 1.0;
};
struct Expr::Factor {
  Atom atom;
  int64_t power = 1;
};
struct Expr::Term {
  int64_t coefficient = 0;
  std::vector<Factor> factors;
};

/// Throws Error when b is the constant 0.
Expr floordiv(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr pow(const Expr& base, int64_t exponent);
/// trunc(double(a) * scale): what torch computes for a size scaled by a float factor.
Expr trunc_to_int(const Expr& a, double scale);
/// ceil(a / b) for b > 0.
Expr ceildiv(const Expr& a, const Expr& b);

/// A condition over integer expressions in canonical form: true, false, a comparison with zero, or a combination.
class BoolExpr {
 public:
  enum class Kind { kTrue, kFalse, kEq, kNe, kLe, kAnd, kOr };

  BoolExpr(bool value = true);  // NOLINT: bools convert implicitly

  Kind kind() const;
  std::optional<bool> as_bool() const;
  /// For kEq, kNe, kLe: the expression that is compared with zero.
  const Expr& operand() const;
  /// For kAnd, kOr.
  const std::vector<BoolExpr>& operands() const;

  friend BoolExpr eq(const Expr& a, const Expr& b);
  friend BoolExpr ne(const Expr& a, const Expr& b);
  friend BoolExpr le(const Expr& a, const Expr& b);
  friend BoolExpr lt(const Expr& a, const Expr& b);
  friend BoolExpr ge(const Expr& a, const Expr& b);
  friend BoolExpr gt(const Expr& a, const Expr& b);
  friend BoolExpr operator&&(const BoolExpr& a, const BoolExpr& b);
  friend BoolExpr operator||(const BoolExpr& a, const BoolExpr& b);
  friend BoolExpr operator!(const BoolExpr& a);
  friend bool operator==(const BoolExpr& a, const BoolExpr& b);

  size_t hash() const;
  std::vector<Symbol> free_symbols() const;
  BoolExpr substitute(const Substitution& substitution) const;
  bool evaluate(const Valuation& valuation) const;
  /// "s0 <= 512", "Eq(s0, s1)", "Ne(s0, 1)", "And(…)": constants moved to the right side.
  std::string str() const;
  std::string srepr() const;
  static BoolExpr parse(std::string_view text);

 private:
  explicit BoolExpr(std::shared_ptr<const BoolNode> node) : node_(std::move(node)) {}
  bool value_ = true;  // when node_ is null
  std::shared_ptr<const BoolNode> node_;
};

BoolExpr eq(const Expr& a, const Expr& b);
BoolExpr ne(const Expr& a, const Expr& b);
BoolExpr le(const Expr& a, const Expr& b);
BoolExpr lt(const Expr& a, const Expr& b);
BoolExpr ge(const Expr& a, const Expr& b);
BoolExpr gt(const Expr& a, const Expr& b);

}  // namespace exporters

template <>
struct std::hash<exporters::Symbol> {
  size_t operator()(exporters::Symbol s) const { return s.hash(); }
};
template <>
struct std::hash<exporters::Expr> {
  size_t operator()(const exporters::Expr& e) const { return e.hash(); }
};
