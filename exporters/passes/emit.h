#pragma once

#include "exporters/graph/graph.h"

#include <string_view>
#include <utility>
#include <vector>

namespace exporters {

/// Adds calls at a graph's insertion point, at the place in the model that another node has.
class Emit {
 public:
  Emit(Graph& graph, const Node& origin) : graph_(graph), origin_(origin) {}

  Value* call(std::string_view target, std::vector<Argument> args, const TensorMeta& meta,
              std::vector<std::pair<std::string, Argument>> kwargs = {});
  /// A call with one tensor result for each meta.
  Node* call_many(std::string_view target, std::vector<Argument> args, const std::vector<TensorMeta>& metas,
                  std::vector<std::pair<std::string, Argument>> kwargs = {});
  /// A call whose result is a list of tensors, one for each meta.
  Value* call_list(std::string_view target, std::vector<Argument> args, const std::vector<TensorMeta>& metas,
                   std::vector<std::pair<std::string, Argument>> kwargs = {});
  /// The call again with another value for one input; outputs keep names' hints and metadata.
  Node* copy(const Node& node, const Value* from, Value* to);
  /// The size of an axis: a number if it is known, else a value.
  Argument size(Value* tensor, int64_t axis);
  Argument sizes(Value* tensor);
  Argument sum(const Argument& a, const Argument& b);
  Argument product(const Argument& a, const Argument& b);

  Graph& graph() { return graph_; }
  const Node& origin() const { return origin_; }

 private:
  Node* place(Node* node) const;
  Value* number(std::string_view target, std::vector<Argument> args, Expr value);
  Argument combined(std::string_view target, const Argument& a, const Argument& b, const Expr& result);

  Graph& graph_;
  const Node& origin_;
};

/// The value of an integer argument: a number, or what a node computes.
Expr expr_of(const Argument& argument);

/// Row-major strides for these sizes, from the storage's beginning.
TensorMeta contiguous_meta(TensorMeta meta);
/// What an op gives that keeps the order of axes of a tensor, but not gaps between its elements: the strides as they
/// are where elements lie densely, else row-major ones.
TensorMeta dense_meta(TensorMeta meta);

}  // namespace exporters
