#pragma once

#include "exporters/support/place.h"
#include "exporters/symbolic/dim.h"
#include "exporters/symbolic/expr.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace exporters {

/// The input axis that a symbol stands for.
struct AxisSource {
  std::string input;  ///< "input_ids", "cache.layers.0.keys"
  int64_t axis = 0;
};

/// A fact that the traced program relies on, and who asked for it.
struct Guard {
  BoolExpr condition;
  Place place;
};

/// An axis that was asked to be dynamic and could not stay so.
struct Specialization {
  AxisSource source;
  int64_t value = 0;
  Place place;  ///< what forced it
  /// "input_ids axis 1 became static: 8 (encoder.layer.0, aten::view, models/x.cpp:12)"
  std::string str() const;
};

/// The symbols of one trace: sample values, ranges, equalities and guards.
/// Questions about symbols are answered from facts where these decide, else from the sample values, and then the
/// answer becomes a guard. Not thread-safe: a trace belongs to one thread.
class ShapeEnv {
 public:
  ShapeEnv();
  ~ShapeEnv();
  ShapeEnv(const ShapeEnv&) = delete;
  ShapeEnv& operator=(const ShapeEnv&) = delete;

  /// The expression for one axis of an input: a constant for Dim::Static, a fresh symbol for Dim::Auto (range [0, oo)
  /// unless the Dim narrows it, whatever the sample, also 0 and 1), the shared symbol (times factor plus offset) for a
  /// named one. Throws Error when the sample contradicts the Dim.
  Expr add_axis(const AxisSource& source, int64_t sample, const Dim& dim);
  /// A size that depends on data, within `range`; no sample value.
  Expr add_unbacked(Range range = {0, Range::kMax});
  /// Declares a symbol read from a program file.
  void declare(Symbol symbol, Range range, std::optional<int64_t> hint = {});

  /// With unified and specialised symbols replaced, and min, max, mod and floor division resolved where ranges decide.
  Expr simplify(const Expr& expr) const;
  BoolExpr simplify(const BoolExpr& condition) const;
  /// The value at the sample sizes; nothing where an unbacked symbol is involved.
  std::optional<int64_t> hint(const Expr& expr) const;
  /// An interval that holds every value of the expression.
  Range bounds(const Expr& expr) const;

  /// What the facts decide; asks and records nothing.
  std::optional<bool> statically(const BoolExpr& condition) const;
  bool is_true(const BoolExpr& condition) const { return statically(condition).value_or(false); }

  /// Decides a condition: from the facts, else from the sample sizes with the answer recorded as a guard. An equality
  /// that comes out true may unify symbols or make one static. Throws Error for an undecidable condition on unbacked
  /// symbols ("data-dependent"), and for a named Dim that would become static or equal to another one.
  bool evaluate(const BoolExpr& condition);
  /// Records a condition that the program requires (torch._check): a guard, or for unbacked symbols a runtime
  /// assertion. Throws Error when it is false at the sample sizes or by the facts.
  void require(const BoolExpr& condition);
  /// The expression as a plain number: evaluate(expr == its sample value). Throws Error on unbacked symbols.
  int64_t specialize(const Expr& expr);

  /// The place of what was learnt since the last call outside of every module and op, such as a size that was read as
  /// a plain number: next to what, is the best that is known.
  void place_facts(const Place& place);

  /// Two sizes meet in a broadcast (or expand, batch, mask); gives the resulting size, with the rules of
  /// docs/architecture.md: equal: nothing to ask; two symbols with equal samples become one; one is 1 at the sample
  /// and the other not: the first becomes static 1; a symbol and a constant (≠ 1) of the same size: the symbol becomes
  /// static; different sizes: Error. Unbacked sizes are taken as equal to the other, with an assertion, never as 1.
  Expr broadcast(const Expr& a, const Expr& b);

  /// Facts for the program, in terms of simplified symbols, sorted by symbol name where not by time.
  const std::vector<Guard>& guards() const;
  std::vector<Specialization> specializations() const;
  /// Surviving symbols that inputs or unbacked sizes use, with their ranges (guards such as s0 <= 512 included).
  std::map<std::string, Range> range_constraints() const;
  /// The name the user gave to the root Dim behind a symbol, if any.
  std::optional<std::string> dim_name(Symbol symbol) const;
  /// The input axes of a symbol, first one first.
  std::vector<AxisSource> sources(Symbol symbol) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace exporters
