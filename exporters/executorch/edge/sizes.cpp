#include "exporters/executorch/edge/bounds.h"
#include "exporters/executorch/edge/passes.h"
#include "exporters/passes/dead_code.h"
#include "exporters/passes/emit.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace exporters::executorch {
namespace {

// Sizes computed at the beginning of a graph from those of its inputs.
class InputSizes {
 public:
  explicit InputSizes(ExportedProgram& program) : graph_(*program.graph) {
    for (const std::string& name : program.signature.user_inputs()) {
      Value* input = graph_.find(name);
      for (int64_t axis = 0; input->is_tensor() && axis < input->meta().dim(); ++axis) {
        if (const auto symbol = input->meta().sizes[static_cast<size_t>(axis)].as_symbol()) {
          axes_.try_emplace(symbol->name(), input, axis);
        }
      }
    }
    for (Node& node : graph_) {
      if (!node.is_placeholder()) {
        first_call_ = &node;
        break;
      }
    }
  }

  bool knows(const Expr& expr) const {
    const std::vector<Symbol> symbols = expr.free_symbols();
    return std::all_of(symbols.begin(), symbols.end(), [&](Symbol symbol) { return axes_.contains(symbol.name()); });
  }

  Argument value(const Expr& expr) {
    if (const auto number = expr.as_int()) {
      return Argument(*number);
    }
    const auto known = values_.find(expr);
    if (known != values_.end()) {
      return Argument(known->second);
    }
    Argument sum;
    Expr total = 0;
    for (const Expr::Term& term : expr.terms()) {
      auto [argument, part] = product(term);
      total = total + part;
      sum = sum.is_none() ? argument : call("_operator.add", {sum, argument}, total);
    }
    values_.emplace(expr, sum.value());
    return sum;
  }

 private:
  std::pair<Argument, Expr> product(const Expr::Term& term) {
    Argument result;
    Expr total = 1;
    for (const Expr::Factor& factor : term.factors) {
      const auto [argument, part] = atom(factor.atom);
      for (int64_t i = 0; i < factor.power; ++i) {
        total = total * part;
        result = result.is_none() ? argument : call("_operator.mul", {result, argument}, total);
      }
    }
    if (result.is_none()) {
      return {Argument(term.coefficient), Expr(term.coefficient)};
    }
    if (term.coefficient != 1) {
      total = total * Expr(term.coefficient);
      result = call("_operator.mul", {result, Argument(term.coefficient)}, total);
    }
    return {result, total};
  }

  std::pair<Argument, Expr> atom(const Expr::Atom& atom) {
    switch (atom.kind) {
      case Expr::AtomKind::kSymbol: {
        const auto& [input, axis] = axes_.at(atom.symbol->name());
        return {call("aten.sym_size.int", {input, axis}, Expr(*atom.symbol)), Expr(*atom.symbol)};
      }
      case Expr::AtomKind::kFloorDiv:
        return binary("_operator.floordiv", atom, floordiv(atom.operands.at(0), atom.operands.at(1)));
      case Expr::AtomKind::kMod:
        return binary("_operator.mod", atom, mod(atom.operands.at(0), atom.operands.at(1)));
      case Expr::AtomKind::kMin:
        return chain("torch.sym_min", atom, [](const Expr& a, const Expr& b) { return min(a, b); });
      case Expr::AtomKind::kMax:
        return chain("torch.sym_max", atom, [](const Expr& a, const Expr& b) { return max(a, b); });
      case Expr::AtomKind::kTruncToInt: {
        const Expr whole = trunc_to_int(atom.operands.at(0), atom.scale);
        Node* scaled = graph_.call("_operator.mul", {value(atom.operands.at(0)), atom.scale});
        Value* real = graph_.add_output(scaled, Value::Kind::kSymFloat);
        return {call("math.trunc", {real}, whole), whole};
      }
    }
    return {};
  }

  std::pair<Argument, Expr> binary(std::string_view target, const Expr::Atom& atom, Expr total) {
    return {call(target, {value(atom.operands.at(0)), value(atom.operands.at(1))}, total), total};
  }

  template <typename Combine>
  std::pair<Argument, Expr> chain(std::string_view target, const Expr::Atom& atom, Combine combine) {
    Expr total = atom.operands.at(0);
    Argument result = value(total);
    for (size_t i = 1; i < atom.operands.size(); ++i) {
      total = combine(total, atom.operands[i]);
      result = call(target, {result, value(atom.operands[i])}, total);
    }
    return {result, total};
  }

  Argument call(std::string_view target, std::vector<Argument> args, const Expr& total) {
    const auto known = values_.find(total);
    if (known != values_.end()) {
      return Argument(known->second);
    }
    const Graph::InsertGuard guard(graph_, first_call_);
    Value* result = graph_.add_output(graph_.call(target, std::move(args)), Value::Kind::kSymInt);
    result->sym() = total;
    values_.emplace(total, result);
    return Argument(result);
  }

  Graph& graph_;
  Node* first_call_ = nullptr;
  std::map<std::string, std::pair<Value*, int64_t>> axes_;  // symbol → input and axis
  std::unordered_map<Expr, Value*> values_;
};

}  // namespace

void read_sizes_from_inputs(ExportedProgram& program) {
  Graph& graph = *program.graph;
  std::vector<Node*> sizes;
  for (Node& node : graph) {
    if (node.is_call("aten.sym_size.int") || node.is_call("aten.sym_numel.default")) {
      sizes.push_back(&node);
    }
  }
  InputSizes inputs(program);
  for (Node* node : sizes) {
    const Expr expr = node->value()->sym();
    if (!expr.is_int() && inputs.knows(expr)) {
      node->value()->replace_all_uses_with(inputs.value(expr).value());
    }
  }
  eliminate_dead_code(graph);
  update_outputs(program);
}

void spell_out_remainders(ExportedProgram& program) {
  Graph& graph = *program.graph;
  std::vector<Node*> remainders;
  for (Node& node : graph) {
    if (node.is_call("_operator.mod")) {
      remainders.push_back(&node);
    }
  }
  if (remainders.empty()) {
    return;
  }
  const Bounds bounds(program);
  const auto is_negative = [&](const Argument& argument) { return bounds.range(expr_of(argument)).min < 0; };
  for (Node* node : remainders) {
    const Argument a = node->arg(0);
    const Argument b = node->arg(1);
    if (!is_negative(a) && !is_negative(b)) {
      continue;
    }
    const Graph::InsertGuard guard(graph, node);
    const auto number = [&](std::string_view target, const Argument& first, const Argument& second,
                            const Expr& result) {
      Value* value = graph.add_output(graph.call(target, {first, second}), Value::Kind::kSymInt);
      value->sym() = result;
      return Argument(value);
    };
    const Expr quotient = floordiv(expr_of(a), expr_of(b));
    const Expr product = quotient * expr_of(b);
    const Argument whole = number("_operator.mul", number("_operator.floordiv", a, b, quotient), b, product);
    node->value()->replace_all_uses_with(number("_operator.sub", a, whole, node->value()->sym()).value());
    graph.erase(node);
  }
  update_outputs(program);
}

}  // namespace exporters::executorch
