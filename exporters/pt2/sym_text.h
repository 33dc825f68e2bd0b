#pragma once

#include "exporters/graph/graph.h"

#include <map>
#include <string>
#include <unordered_map>

namespace exporters::pt2 {

/// Numbers and conditions of a graph as sympy expressions in the notation of `sympy.srepr`, which is how the schema
/// describes values that are no tensors.
class SymText {
 public:
  /// `unbacked_count`: symbols u0 to u<count-1> are taken by the program.
  explicit SymText(int64_t unbacked_count) : next_unbacked_(unbacked_count) {}

  /// Of a kSymInt, kSymFloat or kSymBool value. Floats and conditions are put together from the operations that compute
  /// them; one that an op made of data gets a symbol of its own. Throws Error, naming the node, for operations that
  /// sympy has no function for.
  const std::string& of(const Value* value);

  /// Symbols that were made up for conditions that depend on data: they are 0 or 1.
  const std::vector<std::string>& made_up() const { return made_up_; }

 private:
  enum class Type { kInt, kFloat, kBool };
  struct Operand {
    std::string text;
    Type type;
  };

  Operand operand(const Argument& argument, const Node& node);
  std::string compute(const Node& node);
  std::string from_data(const Value& value);

  int64_t next_unbacked_ = 0;
  int64_t next_float_ = 0;
  std::unordered_map<const Value*, std::string> known_;
  std::vector<std::string> made_up_;
};

}  // namespace exporters::pt2
