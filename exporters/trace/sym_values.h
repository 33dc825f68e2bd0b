#pragma once

#include "exporters/graph/graph.h"
#include "exporters/symbolic/shape_env.h"

#include <unordered_map>

namespace exporters {

/// Graph values for size expressions. A symbol is read with aten.sym_size.int from the first tensor that has it; other
/// expressions are computed with _operator.* nodes, each expression once. Nodes go to the graph's insertion point.
class SymValues {
 public:
  SymValues(Graph& graph, const ShapeEnv& env) : graph_(graph), env_(env) {}

  /// From now on the symbols among the tensor's sizes can be read from it.
  void add_source(Value* tensor);
  /// A number that an op returned: the symbol is this value.
  void add_source(Symbol symbol, Value* number);

  /// A constant, or the value that computes the expression. Throws Error when no source of a symbol is known.
  Argument argument(const Expr& expr);

 private:
  struct Source {
    Value* tensor = nullptr;
    int64_t axis = 0;
    Expr size = 0;  ///< of that axis: the symbol itself, or k * symbol + c
  };

  Value* value_of(const Expr& expr);
  Value* read_symbol(Symbol symbol);
  Argument term(const Expr::Term& term);
  Argument atom(const Expr::Atom& atom);
  Argument binary(const char* target, const Argument& a, const Argument& b, const Expr& result);
  Argument call(const char* target, std::vector<Argument> args, const Expr& result);

  Graph& graph_;
  const ShapeEnv& env_;
  std::unordered_map<Symbol, Source> sources_;
  std::unordered_map<Expr, Value*> values_;
};

/// Puts `replacement` for every use of a number in the graph. O(uses).
void replace_number(Value* number, const Argument& replacement);

}  // namespace exporters
