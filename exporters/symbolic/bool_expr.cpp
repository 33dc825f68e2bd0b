#include "exporters/symbolic/expr_node.h"

#include <algorithm>

namespace exporters {
namespace {

using Kind = BoolExpr::Kind;

std::shared_ptr<const BoolNode> comparison(Kind kind, const Expr& operand) {
  auto node = std::make_shared<BoolNode>();
  node->kind = kind;
  node->operand = operand;
  node->hash = hash_mix(static_cast<size_t>(kind) + 101, operand.hash());
  const ExprNode* expr = ExprNode::of(operand);
  node->depth = expr->depth + 1;
  node->size = expr->size + 1;
  return node;
}

int compare(const BoolExpr& a, const BoolExpr& b) {
  if (a.kind() != b.kind()) {
    return a.kind() < b.kind() ? -1 : 1;
  }
  if (a.as_bool()) {
    return 0;
  }
  if (a.kind() != Kind::kAnd && a.kind() != Kind::kOr) {
    return Expr::compare(a.operand(), b.operand());
  }
  const auto& x = a.operands();
  const auto& y = b.operands();
  if (&x == &y) {
    return 0;
  }
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (int c = compare(x[i], y[i])) {
      return c;
    }
  }
  return static_cast<int>(x.size()) - static_cast<int>(y.size());
}

// e == 0 in lowest terms with a positive leading coefficient; nothing when no integers can satisfy it.
std::optional<Expr> normalise_equation(const Expr& e) {
  const int64_t g = coefficient_gcd(e);
  if (poly_constant(e) % g != 0) {
    return std::nullopt;
  }
  return divide_exact(e, poly_terms(e)[0].coefficient < 0 ? -g : g);
}

void flatten(Kind kind, const BoolExpr& e, std::vector<BoolExpr>& out) {
  if (e.kind() != kind) {
    out.push_back(e);
    return;
  }
  out.insert(out.end(), e.operands().begin(), e.operands().end());
}

void collect(const BoolExpr& e, std::vector<Symbol>& out) {
  if (e.kind() == Kind::kAnd || e.kind() == Kind::kOr) {
    for (const BoolExpr& operand : e.operands()) {
      collect(operand, out);
    }
  } else if (!e.as_bool()) {
    collect_symbols(e.operand(), out);
  }
}

struct CompareLess {
  bool operator()(const BoolExpr& a, const BoolExpr& b) const { return compare(a, b) < 0; }
};

// Sorted and unique operands of an And or Or; nothing when a condition meets its own negation.
std::optional<std::vector<BoolExpr>> combine(Kind kind, const BoolExpr& a, const BoolExpr& b) {
  std::vector<BoolExpr> operands;
  flatten(kind, a, operands);
  flatten(kind, b, operands);
  ensure(operands.size() <= kMaxTerms, "condition has more than {} parts", kMaxTerms);
  std::sort(operands.begin(), operands.end(), CompareLess());
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  for (const BoolExpr& operand : operands) {
    if (std::binary_search(operands.begin(), operands.end(), !operand, CompareLess())) {
      return std::nullopt;
    }
  }
  return operands;
}

std::shared_ptr<const BoolNode> junction(Kind kind, std::vector<BoolExpr> operands) {
  auto node = std::make_shared<BoolNode>();
  node->kind = kind;
  node->hash = static_cast<size_t>(kind) + 211;
  for (const BoolExpr& operand : operands) {
    node->hash = hash_mix(node->hash, operand.hash());
  }
  node->operands = std::move(operands);
  return node;
}

void check_size(const std::vector<BoolExpr>& operands, int depth) {
  ensure(depth <= static_cast<int>(kMaxDepth), "condition is nested deeper than {}", kMaxDepth);
  for (const BoolExpr& operand : operands) {
    if (operand.kind() == Kind::kAnd || operand.kind() == Kind::kOr) {
      check_size(operand.operands(), depth + 1);
    }
  }
}

}  // namespace

BoolExpr::BoolExpr(bool value) : value_(value) {}

BoolExpr::Kind BoolExpr::kind() const { return node_ ? node_->kind : value_ ? Kind::kTrue : Kind::kFalse; }

std::optional<bool> BoolExpr::as_bool() const { return node_ ? std::nullopt : std::optional(value_); }

const Expr& BoolExpr::operand() const {
  if (kind() != Kind::kEq && kind() != Kind::kNe && kind() != Kind::kLe) {
    fail("condition {} is no comparison", str());
  }
  return node_->operand;
}

const std::vector<BoolExpr>& BoolExpr::operands() const {
  if (kind() != Kind::kAnd && kind() != Kind::kOr) {
    fail("condition {} is no combination", str());
  }
  return node_->operands;
}

BoolExpr eq(const Expr& a, const Expr& b) {
  const Expr difference = recognise_mod(a - b);
  if (auto value = difference.as_int()) {
    return *value == 0;
  }
  const auto equation = normalise_equation(difference);
  return equation ? BoolExpr(comparison(Kind::kEq, *equation)) : BoolExpr(false);
}

BoolExpr ne(const Expr& a, const Expr& b) { return !eq(a, b); }

BoolExpr le(const Expr& a, const Expr& b) {
  if (a.is_int() && b.is_int()) {
    return *a.as_int() <= *b.as_int();
  }
  if (a.as_int() == std::numeric_limits<int64_t>::min() || b.as_int() == std::numeric_limits<int64_t>::max()) {
    return true;
  }
  const Expr difference = recognise_mod(a - b);
  if (auto value = difference.as_int()) {
    return *value <= 0;
  }
  const int64_t g = coefficient_gcd(difference);
  if (g == 1) {
    return BoolExpr(comparison(Kind::kLe, difference));
  }
  // g*p + c <= 0 holds exactly when p + ceil(c/g) <= 0.
  const int64_t bound = -floordiv_int(checked_neg(poly_constant(difference)), g);
  return BoolExpr(comparison(Kind::kLe, divide_exact(without_constant(difference), g) + Expr(bound)));
}

BoolExpr lt(const Expr& a, const Expr& b) {
  return a.is_int() && b.is_int() ? BoolExpr(*a.as_int() < *b.as_int()) : le(a - b, Expr(-1));
}
BoolExpr ge(const Expr& a, const Expr& b) { return le(b, a); }
BoolExpr gt(const Expr& a, const Expr& b) { return lt(b, a); }

BoolExpr operator&&(const BoolExpr& a, const BoolExpr& b) {
  if (auto value = a.as_bool()) {
    return *value ? b : a;
  }
  if (auto value = b.as_bool()) {
    return *value ? a : b;
  }
  auto operands = combine(Kind::kAnd, a, b);
  if (!operands) {
    return false;
  }
  check_size(*operands, 0);
  return operands->size() == 1 ? (*operands)[0] : BoolExpr(junction(Kind::kAnd, std::move(*operands)));
}

BoolExpr operator||(const BoolExpr& a, const BoolExpr& b) {
  if (auto value = a.as_bool()) {
    return *value ? a : b;
  }
  if (auto value = b.as_bool()) {
    return *value ? b : a;
  }
  auto operands = combine(Kind::kOr, a, b);
  if (!operands) {
    return true;
  }
  check_size(*operands, 0);
  return operands->size() == 1 ? (*operands)[0] : BoolExpr(junction(Kind::kOr, std::move(*operands)));
}

BoolExpr operator!(const BoolExpr& a) {
  switch (a.kind()) {
    case Kind::kTrue:
      return false;
    case Kind::kFalse:
      return true;
    case Kind::kEq:
      return BoolExpr(comparison(Kind::kNe, a.operand()));
    case Kind::kNe:
      return BoolExpr(comparison(Kind::kEq, a.operand()));
    case Kind::kLe:
      return BoolExpr(comparison(Kind::kLe, Expr(1) - a.operand()));
    default:
      break;
  }
  std::vector<BoolExpr> negated;
  for (const BoolExpr& operand : a.operands()) {
    negated.push_back(!operand);
  }
  std::sort(negated.begin(), negated.end(), CompareLess());
  return BoolExpr(junction(a.kind() == Kind::kAnd ? Kind::kOr : Kind::kAnd, std::move(negated)));
}

bool operator==(const BoolExpr& a, const BoolExpr& b) {
  return a.node_ == b.node_ ? a.node_ || a.value_ == b.value_ : a.hash() == b.hash() && compare(a, b) == 0;
}

size_t BoolExpr::hash() const { return node_ ? node_->hash : static_cast<size_t>(value_); }

std::vector<Symbol> BoolExpr::free_symbols() const {
  std::vector<Symbol> symbols;
  collect(*this, symbols);
  sort_unique(symbols);
  return symbols;
}

BoolExpr BoolExpr::substitute(const Substitution& substitution) const {
  switch (kind()) {
    case Kind::kTrue:
    case Kind::kFalse:
      return *this;
    case Kind::kEq:
      return eq(operand().substitute(substitution), 0);
    case Kind::kNe:
      return ne(operand().substitute(substitution), 0);
    case Kind::kLe:
      return le(operand().substitute(substitution), 0);
    default:
      break;
  }
  BoolExpr result(kind() == Kind::kAnd);
  for (const BoolExpr& part : operands()) {
    const BoolExpr replaced = part.substitute(substitution);
    result = kind() == Kind::kAnd ? result && replaced : result || replaced;
  }
  return result;
}

bool BoolExpr::evaluate(const Valuation& valuation) const {
  auto holds = [&](const BoolExpr& part) { return part.evaluate(valuation); };
  switch (kind()) {
    case Kind::kTrue:
    case Kind::kFalse:
      return value_;
    case Kind::kEq:
      return operand().evaluate(valuation) == 0;
    case Kind::kNe:
      return operand().evaluate(valuation) != 0;
    case Kind::kLe:
      return operand().evaluate(valuation) <= 0;
    case Kind::kAnd:
      return std::all_of(operands().begin(), operands().end(), holds);
    case Kind::kOr:
      return std::any_of(operands().begin(), operands().end(), holds);
  }
  return false;
}

}  // namespace exporters
