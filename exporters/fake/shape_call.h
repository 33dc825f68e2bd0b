#pragma once

#include "exporters/fake/fake_tensor.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// One op call as a shape function sees it: arguments by their schema names, results to be given back.
/// All tensors are fake. Getters throw Error when the schema has no such argument; those of optional arguments give
/// nothing for None.
class ShapeCall {
 public:
  ShapeCall(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, std::shared_ptr<ShapeEnv> env);

  const c10::OperatorHandle& op() const { return op_; }
  const c10::FunctionSchema& schema() const { return op_.schema(); }
  ShapeEnv& env() const { return *env_; }
  const std::shared_ptr<ShapeEnv>& shared_env() const { return env_; }

  bool has(std::string_view name) const;  ///< the schema has the argument, and it is not None
  const c10::IValue& value(std::string_view name) const;

  at::Tensor tensor(std::string_view name) const;
  TensorMeta meta(std::string_view name) const { return meta_of(tensor(name)); }
  std::vector<at::Tensor> tensors(std::string_view name) const;
  std::vector<std::optional<at::Tensor>> optional_tensors(std::string_view name) const;

  Expr sym_int(std::string_view name) const;
  std::optional<Expr> optional_sym_int(std::string_view name) const;
  std::vector<Expr> sym_ints(std::string_view name) const;
  std::optional<std::vector<Expr>> optional_sym_ints(std::string_view name) const;

  /// Plain numbers: a symbol in their place becomes static.
  int64_t integer(std::string_view name) const;
  std::optional<int64_t> optional_integer(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  bool boolean(std::string_view name) const;
  double floating(std::string_view name) const;
  std::string string(std::string_view name) const;
  at::Scalar scalar(std::string_view name) const;
  std::optional<at::Scalar> optional_scalar(std::string_view name) const;
  std::optional<c10::ScalarType> dtype(std::string_view name = "dtype") const;
  std::optional<c10::Device> device() const;
  std::optional<c10::MemoryFormat> memory_format() const;
  /// An axis argument brought into [0, rank). Throws Error when outside.
  int64_t dim(std::string_view name, int64_t rank) const;

  // Results, in the schema's order.
  void returns(TensorMeta meta);                               ///< a tensor with its own storage
  void returns_view(const at::Tensor& base, TensorMeta meta);  ///< a tensor that shares base's storage
  void returns_same(const at::Tensor& tensor);                 ///< an argument itself
  void returns_list(std::vector<TensorMeta> metas);
  void returns_view_list(const at::Tensor& base, std::vector<TensorMeta> metas);
  void returns_value(c10::IValue value);  ///< a number: SymInt, SymBool, Scalar

  const std::vector<c10::IValue>& results() const { return results_; }

  /// Throws Error that names the op and the place.
  [[noreturn]] void refuse(std::string why, std::string hint = {}) const;

 private:
  size_t index_of(std::string_view name) const;

  const c10::OperatorHandle& op_;
  c10::ArrayRef<c10::IValue> arguments_;
  std::shared_ptr<ShapeEnv> env_;
  std::vector<c10::IValue> results_;
};

/// An integer argument as an expression: int or SymInt.
Expr to_expr(const c10::IValue& value);
/// A list of them: int[] or SymInt[].
std::vector<Expr> to_exprs(const c10::IValue& value);

/// A dense row-major tensor of that dtype on the device of `like`.
TensorMeta dense(std::vector<Expr> sizes, c10::ScalarType dtype, c10::Device device = c10::Device(c10::kCPU));

/// An axis brought into [0, rank); rank 0 counts as 1. Throws Error when outside.
int64_t wrap_dim(int64_t dim, int64_t rank);

/// A condition that the op itself checks. Where it is about sizes that depend on data it becomes an assertion of the
/// program and counts as true.
bool holds(ShapeEnv& env, const BoolExpr& condition);

/// Sizes of a broadcast, with the ShapeEnv's rules.
std::vector<Expr> broadcast_sizes(ShapeEnv& env, c10::ArrayRef<TensorMeta> operands);

/// Metadata of an elementwise result as TensorIterator gives it: broadcast sizes, strides that follow the operands'
/// layouts, `dtype`.
TensorMeta elementwise(ShapeEnv& env, c10::ArrayRef<TensorMeta> operands, c10::ScalarType dtype);

/// ATen's type promotion over tensors (dimension, zero-dimension and wrapped-number categories) and scalars.
c10::ScalarType promote(c10::ArrayRef<at::Tensor> tensors, c10::ArrayRef<at::Scalar> scalars = {});
/// Integral types become the default dtype.
c10::ScalarType to_floating(c10::ScalarType dtype);

}  // namespace exporters
