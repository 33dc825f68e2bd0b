#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/pt2/fields.h"

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace exporters::pt2 {

/// The symbolic sizes of one program, while it is read: their expressions, sample values and ranges.
class Symbols {
 public:
  /// A SymInt of the schema: a number, or an expression with a sample value. Throws Error for what is no expression of
  /// whole numbers.
  Expr read(const Json& sym_int);

  /// The program's `range_constraints`, hints and, for expressions that have a range, guards. A symbol that the graph
  /// uses and the file gives no range may be any size, and one warning says so.
  void finish(const Json& range_constraints, ExportedProgram& program) const;

 private:
  const Expr& parse(const std::string& text);

  std::unordered_map<std::string, Expr> expressions_;  ///< by text: sizes repeat over and over
  std::unordered_set<Symbol> used_;
  std::map<std::string, int64_t> hints_;
};

}  // namespace exporters::pt2
