#include "exporters/trace/sym_values.h"

#include "exporters/support/error.h"

#include <algorithm>

namespace exporters {
namespace {

// The symbol of an expression k * symbol + c with k ≥ 1.
struct Linear {
  Symbol symbol;
  int64_t factor = 1;
  int64_t offset = 0;
};

std::optional<Linear> as_linear(const Expr& expr) {
  std::optional<Linear> linear;
  int64_t offset = 0;
  for (const Expr::Term& term : expr.terms()) {
    if (term.factors.empty()) {
      offset = term.coefficient;
      continue;
    }
    const Expr::Factor& factor = term.factors.front();
    const bool is_symbol = term.factors.size() == 1 && factor.power == 1 && factor.atom.kind == Expr::AtomKind::kSymbol;
    if (linear || !is_symbol || term.coefficient < 1) {
      return std::nullopt;
    }
    linear = Linear{*factor.atom.symbol, term.coefficient, 0};
  }
  if (linear) {
    linear->offset = offset;
  }
  return linear;
}

Argument replaced(const Argument& argument, const Value* number, const Argument& replacement) {
  if (argument.is_value()) {
    return argument.value() == number ? replacement : argument;
  }
  if (argument.is_list()) {
    Argument::List list;
    for (const Argument& item : argument.list()) {
      list.push_back(replaced(item, number, replacement));
    }
    return list;
  }
  return argument;
}

}  // namespace

void SymValues::add_source(Value* tensor) {
  const TensorMeta& meta = tensor->meta();
  for (size_t axis = 0; axis < meta.sizes.size(); ++axis) {
    const auto linear = as_linear(meta.sizes[axis]);
    if (!linear) {
      continue;
    }
    const auto known = sources_.find(linear->symbol);
    // A plain symbol is the better source: nothing has to be solved.
    if (known == sources_.end() || (!known->second.size.as_symbol() && meta.sizes[axis].as_symbol())) {
      sources_[linear->symbol] = {tensor, static_cast<int64_t>(axis), meta.sizes[axis]};
    }
  }
}

void SymValues::add_source(Symbol symbol, Value* number) { values_.emplace(Expr(symbol), number); }

Argument SymValues::argument(const Expr& expr) {
  const Expr simplified = env_.simplify(expr);
  if (const auto constant = simplified.as_int()) {
    return *constant;
  }
  return value_of(simplified);
}

Value* SymValues::value_of(const Expr& expr) {
  if (const auto known = values_.find(expr); known != values_.end()) {
    return known->second;
  }
  if (const auto symbol = expr.as_symbol()) {
    Value* value = read_symbol(*symbol);
    values_.emplace(expr, value);
    return value;
  }
  Argument sum;
  Expr partial = 0;
  for (const Expr::Term& next : expr.terms()) {
    const Argument value = term(next);
    Expr amount = value.is_value() ? value.value()->sym() : Expr(value.as<int64_t>());
    partial = partial + amount;
    sum = sum.is_none() ? value : binary("_operator.add", sum, value, partial);
  }
  values_.emplace(expr, sum.value());
  return sum.value();
}

Value* SymValues::read_symbol(Symbol symbol) {
  const auto found = sources_.find(symbol);
  if (found == sources_.end()) {
    throw Error("no input or value has the size " + symbol.name(), current_place().str());
  }
  const Source& source = found->second;
  Value* size = call("aten.sym_size.int", {source.tensor, source.axis}, source.size).value();
  const auto linear = as_linear(source.size);
  if (linear->factor == 1 && linear->offset == 0) {
    return size;
  }
  const Expr scaled = Expr(linear->factor) * Expr(symbol);
  const Argument shifted = linear->offset == 0 ? Argument(size) : binary("_operator.sub", size, linear->offset, scaled);
  return linear->factor == 1 ? shifted.value()
                             : binary("_operator.floordiv", shifted, linear->factor, Expr(symbol)).value();
}

Argument SymValues::term(const Expr::Term& term) {
  if (term.factors.empty()) {
    return term.coefficient;
  }
  Argument product;
  Expr partial = 1;
  for (const Expr::Factor& factor : term.factors) {
    for (int64_t i = 0; i < factor.power; ++i) {
      const Argument value = atom(factor.atom);
      partial = partial * value.value()->sym();
      product = product.is_none() ? value : binary("_operator.mul", product, value, partial);
    }
  }
  if (term.coefficient == 1) {
    return product;
  }
  return binary("_operator.mul", term.coefficient, product, Expr(term.coefficient) * partial);
}

Argument SymValues::atom(const Expr::Atom& atom) {
  using Kind = Expr::AtomKind;
  if (atom.kind == Kind::kSymbol) {
    return value_of(Expr(*atom.symbol));
  }
  std::vector<Argument> operands;
  for (const Expr& operand : atom.operands) {
    operands.push_back(operand.is_int() ? Argument(*operand.as_int()) : Argument(value_of(operand)));
  }
  switch (atom.kind) {
    case Kind::kFloorDiv:
      return call("_operator.floordiv", std::move(operands), floordiv(atom.operands[0], atom.operands[1]));
    case Kind::kMod:
      return call("_operator.mod", std::move(operands), mod(atom.operands[0], atom.operands[1]));
    case Kind::kMin:
    case Kind::kMax: {
      const bool is_min = atom.kind == Kind::kMin;
      Argument result = operands[0];
      Expr partial = atom.operands[0];
      for (size_t i = 1; i < operands.size(); ++i) {
        partial = is_min ? min(partial, atom.operands[i]) : max(partial, atom.operands[i]);
        result = binary(is_min ? "torch.sym_min" : "torch.sym_max", result, operands[i], partial);
      }
      return result;
    }
    case Kind::kTruncToInt: {
      Node* scaled = graph_.call("_operator.mul", {operands[0], atom.scale});
      Value* product = graph_.add_output(scaled, Value::Kind::kSymFloat);
      return call("math.trunc", {product}, trunc_to_int(atom.operands[0], atom.scale));
    }
    case Kind::kSymbol:
      break;
  }
  fail("a size expression of unknown kind");
}

Argument SymValues::binary(const char* target, const Argument& a, const Argument& b, const Expr& result) {
  return call(target, {a, b}, result);
}

Argument SymValues::call(const char* target, std::vector<Argument> args, const Expr& result) {
  if (const auto known = values_.find(result); known != values_.end()) {
    return known->second;
  }
  Node* node = graph_.call(target, std::move(args));
  node->place() = current_place();
  node->module_stack() = current_module_stack();
  Value* value = graph_.add_output(node, Value::Kind::kSymInt);
  value->sym() = result;
  values_.emplace(result, value);
  return value;
}

void replace_number(Value* number, const Argument& replacement) {
  for (Node* user : number->users()) {
    for (size_t i = 0; i < user->arg_count(); ++i) {
      user->set_arg(i, replaced(user->arg(i), number, replacement));
    }
    auto kwargs = user->kwargs();
    for (auto& [name, argument] : kwargs) {
      argument = replaced(argument, number, replacement);
    }
    user->set_kwargs(std::move(kwargs));
  }
}

}  // namespace exporters
