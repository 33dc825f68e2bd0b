#pragma once

#include "exporters/onnx/translations/context.h"

#include <c10/core/Scalar.h>

#include <string>
#include <string_view>
#include <vector>

namespace exporters::onnx {

/// One node of the program as a translation sees it: arguments by their schema names, defaults filled in.
/// Getters throw Error when the schema has no such argument or it is of another kind.
class OpCall {
 public:
  OpCall(TranslationContext& context, const Node& node);

  const Node& node() const { return node_; }
  /// "aten.add.Tensor" → "Tensor".
  std::string_view overload() const;
  const Value& output(size_t i = 0) const { return *node_.output(i); }
  const TensorMeta& result(size_t i = 0) const { return node_.output(i)->meta(); }

  /// The argument exists in the schema and is not None.
  bool has(std::string_view name) const;
  const Argument& arg(std::string_view name) const;
  /// By position, for ops without a schema (`_operator.add`).
  const Argument& arg(size_t i) const;

  // ── Tensors ──
  OnnxValue tensor(std::string_view name) const;
  const TensorMeta& meta(std::string_view name) const;
  std::vector<OnnxValue> tensors(std::string_view name) const;
  std::vector<const TensorMeta*> metas(std::string_view name) const;
  /// The tensor, or the left-out input where it is None.
  OnnxValue optional_tensor(std::string_view name) const;
  /// A tensor or a number as a tensor of `dtype`; a number becomes 0-d.
  OnnxValue operand(std::string_view name, c10::ScalarType dtype) const;
  OnnxValue operand_of(const Argument& argument, c10::ScalarType dtype) const;
  /// Sizes of a tensor or number argument; none for a number.
  Sizes operand_sizes(std::string_view name) const;
  /// ATen's result type of tensor and number arguments: by category, dimensioned tensors first.
  c10::ScalarType promote(const std::vector<std::string_view>& names) const;

  // ── Numbers ──
  int64_t integer(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  bool boolean(std::string_view name) const;
  double floating(std::string_view name) const;
  std::string string(std::string_view name) const;
  c10::Scalar scalar(std::string_view name) const;
  std::optional<c10::ScalarType> dtype(std::string_view name = "dtype") const;
  /// An integer or a SymInt.
  Expr expr(std::string_view name) const;
  Sizes exprs(std::string_view name) const;
  /// An axis brought into [0, rank); rank 0 counts as 1.
  int64_t dim(std::string_view name, int64_t rank) const;
  std::vector<int64_t> dims(std::string_view name, int64_t rank) const;

  /// Throws Error that names the op, its module path, and the way out.
  [[noreturn]] void refuse(std::string why, std::string hint = {}) const;

 private:
  std::vector<const Value*> values(std::string_view name) const;

  TranslationContext& context_;
  const Node& node_;
};

/// An integer or SymInt argument as an expression. Throws Error for other kinds.
Expr to_expr(const Argument& argument);
int64_t wrap_axis(int64_t axis, int64_t rank);

}  // namespace exporters::onnx
