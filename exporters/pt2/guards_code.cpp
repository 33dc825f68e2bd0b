#include "exporters/pt2/guards_code.h"

#include "exporters/support/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

namespace exporters::pt2 {
namespace {

using AtomKind = Expr::AtomKind;
using InputKind = InputSpec::Kind;

// Python text of integer expressions, each symbol replaced by what it is read from.
class PythonText {
 public:
  void define(Symbol symbol, std::string text) { texts_.emplace(symbol, std::move(text)); }
  bool knows(Symbol symbol) const { return texts_.contains(symbol); }
  template <typename Expression>
  bool knows_all_of(const Expression& expression) const {
    for (const Symbol& symbol : expression.free_symbols()) {
      if (!knows(symbol)) {
        return false;
      }
    }
    return true;
  }

  std::string of(const Expr& expr) const {
    std::vector<std::string> terms;
    for (const Expr::Term& term : expr.terms()) {
      terms.push_back(of(term));
    }
    return terms.empty() ? "0" : fmt::format("{}", fmt::join(terms, " + "));
  }

  std::string of(const BoolExpr& condition) const {
    switch (condition.kind()) {
      case BoolExpr::Kind::kTrue:
        return "True";
      case BoolExpr::Kind::kFalse:
        return "False";
      case BoolExpr::Kind::kAnd:
        return junction(condition, " and ");
      case BoolExpr::Kind::kOr:
        return junction(condition, " or ");
      case BoolExpr::Kind::kEq:
        return comparison(condition.operand(), "==", "==");
      case BoolExpr::Kind::kNe:
        return comparison(condition.operand(), "!=", "!=");
      case BoolExpr::Kind::kLe:
        return comparison(condition.operand(), "<=", ">=");
    }
    fail("a guard of unknown kind");
  }

 private:
  std::string of(const Expr::Term& term) const {
    std::vector<std::string> factors;
    if (term.coefficient != 1 || term.factors.empty()) {
      factors.push_back(term.coefficient < 0 ? fmt::format("({})", term.coefficient)
                                             : std::to_string(term.coefficient));
    }
    for (const Expr::Factor& factor : term.factors) {
      const std::string text = of(factor.atom);
      factors.push_back(factor.power == 1 ? text : fmt::format("{}**{}", text, factor.power));
    }
    return fmt::format("{}", fmt::join(factors, "*"));
  }

  // Safe as an operand of any operator.
  std::string of(const Expr::Atom& atom) const {
    std::vector<std::string> operands;
    for (const Expr& operand : atom.operands) {
      operands.push_back(of(operand));
    }
    switch (atom.kind) {
      case AtomKind::kSymbol:
        return texts_.at(*atom.symbol);
      case AtomKind::kFloorDiv:
        return fmt::format("(({}) // ({}))", operands[0], operands[1]);
      case AtomKind::kMod:
        return fmt::format("(({}) % ({}))", operands[0], operands[1]);
      case AtomKind::kMin:
        return fmt::format("min({})", fmt::join(operands, ", "));
      case AtomKind::kMax:
        return fmt::format("max({})", fmt::join(operands, ", "));
      case AtomKind::kTruncToInt:
        return fmt::format("math.trunc(({}) * {})", operands[0], float_text(atom.scale));
    }
    fail("a size expression of unknown kind");
  }

  static std::string float_text(double value) {
    std::string text = fmt::format("{}", value);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }

  std::string junction(const BoolExpr& condition, std::string_view word) const {
    std::vector<std::string> parts;
    for (const BoolExpr& operand : condition.operands()) {
      parts.push_back("(" + of(operand) + ")");
    }
    return fmt::format("{}", fmt::join(parts, word));
  }

  // An expression compared with zero: terms with a minus and the constant go to the other side.
  std::string comparison(const Expr& expr, std::string_view relation, std::string_view mirrored) const {
    std::vector<std::string> positive;
    std::vector<std::string> negative;
    Expr constant = 0;
    for (Expr::Term term : expr.terms()) {
      if (term.factors.empty()) {
        constant = term.coefficient;
        continue;
      }
      std::vector<std::string>& side = term.coefficient > 0 ? positive : negative;
      term.coefficient = *(term.coefficient > 0 ? Expr(term.coefficient) : -Expr(term.coefficient)).as_int();
      side.push_back(of(term));
    }
    if (positive.empty()) {
      // -x + c <= 0 reads x >= c.
      return fmt::format("{} {} {}", fmt::join(negative, " + "), mirrored, constant.str());
    }
    if (constant != Expr(0) || negative.empty()) {
      negative.push_back((-constant).str());
    }
    return fmt::format("{} {} {}", fmt::join(positive, " + "), relation, fmt::join(negative, " + "));
  }

  std::unordered_map<Symbol, std::string> texts_;
};

// factor * symbol + offset
struct Linear {
  Symbol symbol;
  int64_t factor;
  int64_t offset;
};

std::optional<Linear> as_linear(const Expr& expr) {
  const std::vector<Symbol> symbols = expr.free_symbols();
  if (symbols.size() != 1) {
    return std::nullopt;
  }
  auto at = [&](int64_t value) { return expr.substitute([&](Symbol) { return std::optional<Expr>(value); }).as_int(); };
  const auto zero = at(0);
  const auto one = at(1);
  if (!zero || !one) {
    return std::nullopt;
  }
  const Linear linear{symbols[0], *one - *zero, *zero};
  const bool is_linear = Expr(linear.factor) * Expr(linear.symbol) + Expr(linear.offset) == expr;
  return is_linear && linear.factor > 0 ? std::optional(linear) : std::nullopt;
}

class InputGuardsBuilder {
 public:
  explicit InputGuardsBuilder(const ExportedProgram& program) : program_(program) {}

  InputGuards build() && {
    collect_sizes();
    define_plain_symbols();
    solve_for_others();
    for (const auto& [expr, text] : derived_) {
      if (python_.knows_all_of(expr)) {
        result_.code.push_back(text + " == " + python_.of(expr));
      }
    }
    add_lower_bounds();
    for (const Guard& guard : program_.guards) {
      if (python_.knows_all_of(guard.condition)) {
        result_.code.push_back(python_.of(guard.condition));
      } else {
        result_.on_data.push_back(&guard);
      }
    }
    return std::move(result_);
  }

 private:
  struct Size {
    Expr expr;
    std::string text;
  };

  void collect_sizes() {
    const std::vector<Value*> placeholders = program_.graph->placeholders();
    size_t leaf = 0;
    for (size_t i = 0; i < placeholders.size(); ++i) {
      const InputKind kind = program_.signature.inputs[i].kind;
      if (kind != InputKind::kUserInput && kind != InputKind::kConstantInput) {
        continue;
      }
      const Value& input = *placeholders[i];
      const std::string text = fmt::format("L['flat_args'][{}]", leaf++);
      if (input.is_tensor()) {
        for (int64_t axis = 0; axis < input.meta().dim(); ++axis) {
          sizes_.push_back({input.meta().sizes[axis], fmt::format("{}.size()[{}]", text, axis)});
        }
      } else if (input.kind() == Value::Kind::kSymInt) {
        sizes_.push_back({input.sym(), text});
      }
    }
  }

  void define_plain_symbols() {
    for (const Size& size : sizes_) {
      if (const auto symbol = size.expr.as_symbol()) {
        python_.define(*symbol, size.text);
      } else if (!size.expr.is_int()) {
        derived_.push_back(size);
      }
    }
  }

  // A symbol that no axis has for itself is solved for: 2*s0 + 1 = size.
  void solve_for_others() {
    for (auto it = derived_.begin(); it != derived_.end();) {
      const auto linear = as_linear(it->expr);
      if (!linear || python_.knows(linear->symbol)) {
        ++it;
        continue;
      }
      const std::string shifted = linear->offset == 0 ? it->text : fmt::format("({} - {})", it->text, linear->offset);
      if (linear->factor != 1) {
        result_.code.push_back(fmt::format("({} % {}) == 0", shifted, linear->factor));
      }
      const std::string solved = linear->factor == 1 ? shifted : fmt::format("({} // {})", shifted, linear->factor);
      python_.define(linear->symbol, solved);
      add_bounds(linear->symbol, solved);
      it = derived_.erase(it);
    }
  }

  // Python has no bounds for a symbol that is no axis of its own.
  void add_bounds(Symbol symbol, const std::string& text) {
    const auto range = program_.range_constraints.find(symbol.name());
    if (range == program_.range_constraints.end()) {
      return;
    }
    if (range->second.min != Range::kMin) {
      result_.code.push_back(fmt::format("{} >= {}", text, range->second.min));
    }
    if (range->second.max != Range::kMax) {
      result_.code.push_back(fmt::format("{} <= {}", text, range->second.max));
    }
  }

  void add_lower_bounds() {
    constexpr int64_t kTakenForGranted = 2;
    std::unordered_map<Symbol, bool> done;
    for (const Size& size : sizes_) {
      const auto symbol = size.expr.as_symbol();
      const auto range = symbol ? program_.range_constraints.find(symbol->name()) : program_.range_constraints.end();
      if (range != program_.range_constraints.end() && done.emplace(*symbol, true).second) {
        const int64_t least = range->second.min;
        if (least > 0 && least <= kTakenForGranted) {
          result_.code.push_back(fmt::format("{} >= {}", size.text, least));
        }
      }
    }
  }

  const ExportedProgram& program_;
  PythonText python_;
  std::vector<Size> sizes_;
  std::vector<Size> derived_;
  InputGuards result_;
};

}  // namespace

InputGuards input_guards(const ExportedProgram& program) { return InputGuardsBuilder(program).build(); }

}  // namespace exporters::pt2
