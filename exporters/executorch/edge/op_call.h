#pragma once

#include "exporters/graph/graph.h"

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace exporters::executorch {

/// A node of the edge program with its arguments by their schema names, defaults filled in. Symbolic numbers are no
/// numbers here: getters of plain ones give nothing for them. All throw Error for an argument that the op does not
/// have.
class OpCall {
 public:
  explicit OpCall(const Node& node);

  const Node& node() const { return node_; }
  const c10::FunctionSchema& schema() const { return schema_; }
  const TensorMeta& result(size_t i = 0) const { return node_.output(i)->meta(); }

  /// The argument, or null where it is left to its default.
  const Argument* given(std::string_view name) const;
  /// The tensor, or null for None and for a number in its place.
  Value* tensor(std::string_view name) const;
  std::vector<Value*> tensors(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name) const;
  /// An integer, a float or a bool; nothing for a value of the graph or None.
  std::optional<double> number(std::string_view name) const;
  /// False for None.
  bool boolean(std::string_view name) const;
  /// Nothing where one of them is symbolic; an empty list for None.
  std::optional<std::vector<int64_t>> integers(std::string_view name) const;
  std::string_view string(std::string_view name) const;
  bool is_none(std::string_view name) const;
  /// An axis argument brought into [0, rank), rank 0 counting as 1.
  int64_t dim(std::string_view name, int64_t rank) const;

 private:
  size_t index_of(std::string_view name) const;

  const Node& node_;
  const c10::FunctionSchema& schema_;
  std::vector<const Argument*> bound_;
};

}  // namespace exporters::executorch
