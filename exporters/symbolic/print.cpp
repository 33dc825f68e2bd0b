#include "exporters/symbolic/expr_node.h"

#include <cstdlib>

namespace exporters {
namespace {

using Kind = Expr::AtomKind;

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    text += text.empty() ? part : std::string(separator) + part;
  }
  return text;
}

// Mod stands for torch's function of non-negative operands, PythonMod for any.
const char* mod_name(const AtomNode& atom) {
  return visibly_nonnegative(atom.operands[0]) && visibly_nonnegative(atom.operands[1]) ? "Mod" : "PythonMod";
}

const char* function_name(const AtomNode& atom) {
  switch (atom.kind) {
    case Kind::kFloorDiv:
      return "FloorDiv";
    case Kind::kMod:
      return mod_name(atom);
    case Kind::kMin:
      return "Min";
    case Kind::kMax:
      return "Max";
    default:
      return "TruncToInt";
  }
}

bool is_bare(const Expr& e) {
  const AtomNode* atom = as_atom(e);
  return e.is_int() ? *e.as_int() >= 0 : atom && atom->kind != Kind::kFloorDiv;
}

std::string parenthesised(const Expr& e) { return is_bare(e) ? e.str() : "(" + e.str() + ")"; }

std::string atom_text(const AtomNode& atom) {
  if (atom.is_symbol()) {
    return atom.symbol->name();
  }
  if (atom.kind == Kind::kFloorDiv) {
    return parenthesised(atom.operands[0]) + "//" + parenthesised(atom.operands[1]);
  }
  if (atom.kind == Kind::kTruncToInt) {
    return "TruncToInt(" + number_text(atom.scale) + "*ToFloat(" + atom.operands[0].str() + "))";
  }
  std::vector<std::string> operands;
  for (const Expr& operand : atom.operands) {
    operands.push_back(operand.str());
  }
  return std::string(function_name(atom)) + "(" + join(operands, ", ") + ")";
}

// The product without its sign; `bare` when a lone division needs no parentheses.
std::string product_text(const PolyTerm& term, bool bare) {
  std::vector<std::string> parts;
  const int64_t magnitude = std::abs(term.coefficient);
  if (magnitude != 1) {
    parts.push_back(std::to_string(magnitude));
    bare = false;
  }
  for (const FactorRef& factor : term.monomial->factors) {
    std::string text = atom_text(*factor.atom);
    if (factor.atom->kind == Kind::kFloorDiv && !(bare && term.monomial->single_atom())) {
      text = "(" + text + ")";
    }
    parts.push_back(factor.power == 1 ? text : text + "**" + std::to_string(factor.power));
  }
  return join(parts, "*");
}

std::string integer_repr(int64_t value) { return "Integer(" + std::to_string(value) + ")"; }

std::string call(std::string_view name, const std::vector<std::string>& arguments) {
  return std::string(name) + "(" + join(arguments, ", ") + ")";
}

std::string atom_repr(const AtomNode& atom) {
  if (atom.is_symbol()) {
    return "Symbol('" + atom.symbol->name() + "', " + (is_unbacked(*atom.symbol) ? "" : "positive=True, ") +
           "integer=True)";
  }
  std::vector<std::string> operands;
  for (const Expr& operand : atom.operands) {
    operands.push_back(operand.srepr());
  }
  if (atom.kind == Kind::kTruncToInt) {
    const std::string scale = "Float('" + number_text(atom.scale) + "', precision=53)";
    return call("TruncToInt", {call("Mul", {scale, call("ToFloat", operands)})});
  }
  return call(function_name(atom), operands);
}

std::string term_repr(const PolyTerm& term) {
  std::vector<std::string> parts;
  if (term.coefficient < 0) {
    // sympy prints the sign of a product as a factor of its own.
    parts.push_back(integer_repr(-1));
    if (term.coefficient != -1) {
      parts.push_back(integer_repr(-term.coefficient));
    }
  } else if (term.coefficient != 1) {
    parts.push_back(integer_repr(term.coefficient));
  }
  for (const FactorRef& factor : term.monomial->factors) {
    const std::string base = atom_repr(*factor.atom);
    parts.push_back(factor.power == 1 ? base : call("Pow", {base, integer_repr(factor.power)}));
  }
  return parts.size() == 1 ? parts[0] : call("Mul", parts);
}

struct Sides {
  Expr left;
  Expr right;
};

// operand (op) 0 as left (op) right, each with positive coefficients, the constant on the right.
Sides split_sides(const Expr& operand) {
  Sides sides;
  sides.right = Expr(checked_neg(poly_constant(operand)));
  for (const PolyTerm& term : poly_terms(operand)) {
    if (term.coefficient > 0) {
      sides.left = sides.left + monomial_expr(term);
    } else {
      sides.right = sides.right - monomial_expr(term);
    }
  }
  return sides;
}

bool is_flipped(const Sides& sides) { return sides.left == Expr(0); }

// -x + c <= 0 reads x >= c.
Sides flip(const Sides& sides) {
  return {without_constant(sides.right), Expr(checked_neg(poly_constant(sides.right)))};
}

template <typename Print>
std::string junction_text(const BoolExpr& e, Print print) {
  std::vector<std::string> parts;
  for (const BoolExpr& operand : e.operands()) {
    parts.push_back(print(operand));
  }
  return call(e.kind() == BoolExpr::Kind::kAnd ? "And" : "Or", parts);
}

}  // namespace

std::string Expr::str() const {
  std::string text;
  for (const PolyTerm& term : poly_terms(*this)) {
    const bool negative = term.coefficient < 0;
    const bool bare = !text.empty() || !negative;
    text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    text += product_text(term, bare);
  }
  const int64_t constant = poly_constant(*this);
  if (text.empty()) {
    return std::to_string(constant);
  }
  if (constant != 0) {
    const std::string digits = std::to_string(constant);
    text += constant < 0 ? " - " + digits.substr(1) : " + " + digits;
  }
  return text;
}

std::string Expr::srepr() const {
  std::vector<std::string> parts;
  for (const PolyTerm& term : poly_terms(*this)) {
    parts.push_back(term_repr(term));
  }
  const int64_t constant = poly_constant(*this);
  if (constant != 0 || parts.empty()) {
    parts.push_back(integer_repr(constant));
  }
  return parts.size() == 1 ? parts[0] : call("Add", parts);
}

std::string BoolExpr::str() const {
  if (auto value = as_bool()) {
    return *value ? "True" : "False";
  }
  if (kind() == Kind::kAnd || kind() == Kind::kOr) {
    return junction_text(*this, [](const BoolExpr& e) { return e.str(); });
  }
  Sides sides = split_sides(operand());
  if (kind() == Kind::kLe) {
    const bool flipped = is_flipped(sides);
    sides = flipped ? flip(sides) : sides;
    return sides.left.str() + (flipped ? " >= " : " <= ") + sides.right.str();
  }
  return call(kind() == Kind::kEq ? "Eq" : "Ne", {sides.left.str(), sides.right.str()});
}

std::string BoolExpr::srepr() const {
  if (auto value = as_bool()) {
    return *value ? "true" : "false";
  }
  if (kind() == Kind::kAnd || kind() == Kind::kOr) {
    return junction_text(*this, [](const BoolExpr& e) { return e.srepr(); });
  }
  Sides sides = split_sides(operand());
  const char* name = kind() == Kind::kEq ? "Equality" : kind() == Kind::kNe ? "Unequality" : "LessThan";
  if (kind() == Kind::kLe && is_flipped(sides)) {
    sides = flip(sides);
    name = "GreaterThan";
  }
  return call(name, {sides.left.srepr(), sides.right.srepr()});
}

}  // namespace exporters
