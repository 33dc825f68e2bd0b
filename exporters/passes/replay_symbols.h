#pragma once

#include "exporters/graph/exported_program.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace exporters {

/// The symbols of a program that is run again on fake tensors. Those of its inputs keep their names, with the ranges
/// and guards of the program; sizes that depend on data get new symbols in the order in which ops make them.
class ReplaySymbols {
 public:
  /// Declares the symbols of the inputs, and requires the guards on them. A program that says nothing of its sample
  /// sizes gets sizes that few others are equal to. Throws Error when no sizes meet the guards.
  ReplaySymbols(const ExportedProgram& program, std::shared_ptr<ShapeEnv> env);
  ReplaySymbols(const ReplaySymbols&) = delete;
  ReplaySymbols& operator=(const ReplaySymbols&) = delete;

  /// The program's symbols as this run has them.
  const std::unordered_map<Symbol, Expr>& known() const { return known_; }
  bool knows(const Expr& expr) const;

  Expr renamed(const Expr& expr) const { return expr.substitute(renaming()); }
  BoolExpr renamed(const BoolExpr& condition) const { return condition.substitute(renaming()); }
  TensorMeta renamed(TensorMeta meta) const;

  /// Whether two sizes of this run are the same, as far as can be told: by the facts, and where these do not decide, at
  /// the sample sizes, at those plus one and at multiples of them, alone and together, that meet the guards.
  bool agree(const Expr& a, const Expr& b) const;

  /// `original`, if it is a symbol that no one has met yet, is `fresh`, which gets the symbol's range.
  void learn(const Expr& original, const Expr& fresh);
  /// Declares the symbols of an expression that comes from an op which is not run.
  void declare_missing(const Expr& expr);

 private:
  void declare_inputs();
  std::optional<int64_t> sample_of(Symbol symbol, const Range& range);
  bool guards_hold(Symbol symbol, int64_t candidate);
  void require_known_guards();
  std::optional<bool> agree_at(const Expr& a, const Expr& b, const Valuation& sizes) const;
  Substitution renaming() const;

  const ExportedProgram& program_;
  std::shared_ptr<ShapeEnv> env_;
  std::unordered_map<Symbol, Expr> known_;
  std::unordered_map<Symbol, int64_t> samples_;
  std::vector<const Guard*> pending_;  // about sizes that no op has made yet
};

}  // namespace exporters
