#pragma once

#include "exporters/graph/exported_program.h"

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace exporters {

/// Holds a run against what the program was traced for: ranks, dtypes, sizes that are fixed, symbols that have to be
/// the same at several axes, ranges, guards. Symbols that depend on data are checked where the run makes them.
class SizeCheck {
 public:
  /// `inputs`: the placeholders that a run is given values for, with the names that people call them.
  SizeCheck(const ExportedProgram& program, const std::vector<std::pair<const Value*, std::string>>& inputs);

  /// The symbols of one run.
  struct Symbols {
    struct Bound {
      int64_t value = 0;
      std::string_view input;  ///< empty where it comes from data
      int64_t axis = 0;        ///< -1 for an integer input
    };
    std::vector<std::optional<Bound>> bound;
  };

  /// Throws Error that names the input, the axis, the given and the allowed size.
  Symbols bind(std::span<const c10::IValue> inputs) const;

  /// Whether there are symbols that only a run makes.
  bool needs_observation() const { return !produced_.empty(); }
  /// Binds and checks the symbols that this node's outputs bring.
  void observe(const Node& node, std::span<const c10::IValue> outputs, Symbols& symbols) const;

 private:
  using Bound = Symbols::Bound;
  struct Input {
    const Value* placeholder;
    std::string name;
  };
  struct Condition {
    const Guard* guard;
    std::vector<size_t> symbols;
  };
  // A symbol that is a size of a node's output, or the output itself (axis -1).
  struct Produced {
    size_t output;
    std::optional<size_t> element;
    int64_t axis;
    size_t symbol;
  };
  // A size that is an expression of several terms.
  struct Pending {
    const Expr* expr;
    const Input* input;
    int64_t axis;
    int64_t given;
  };

  size_t symbol_index(const Symbol& symbol);
  void collect_produced(const Graph& graph);
  void check_tensor(const Input& input, const c10::IValue& value, Symbols& symbols,
                    std::vector<Pending>& pending) const;
  void check_size(const Input& input, int64_t axis, const Expr& expr, int64_t given, Symbols& symbols,
                  std::vector<Pending>& pending) const;
  void bind_symbol(size_t symbol, const Bound& bound, Symbols& symbols) const;
  void resolve(std::vector<Pending> pending, Symbols& symbols) const;
  bool resolve_one(const Pending& pending, Symbols& symbols) const;
  void check_range(size_t symbol, const Bound& bound) const;
  void check_guards(const Symbols& symbols, std::optional<size_t> newest) const;
  int64_t evaluate(const Expr& expr, const Symbols& symbols) const;
  std::string describe(size_t symbol, const Bound& bound) const;

  std::vector<Input> inputs_;
  std::vector<std::string> names_;  ///< of symbols
  std::vector<Range> ranges_;
  std::unordered_map<Symbol, size_t> indices_;
  std::vector<Condition> conditions_;
  std::unordered_map<const Node*, std::vector<Produced>> produced_;
};

}  // namespace exporters
