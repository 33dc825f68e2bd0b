#include "exporters/fake/shape_call.h"

#include "exporters/fake/layout.h"
#include "exporters/support/error.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>

namespace exporters {

ShapeCall::ShapeCall(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, std::shared_ptr<ShapeEnv> env)
    : op_(op), arguments_(arguments), env_(std::move(env)) {}

size_t ShapeCall::index_of(std::string_view name) const {
  const auto& arguments = schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) {
      return i;
    }
  }
  fail("{} has no argument '{}': its shape function is registered for the wrong op", c10::toString(op_.operator_name()),
       name);
}

bool ShapeCall::has(std::string_view name) const {
  const auto& arguments = schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) {
      return !arguments_[i].isNone();
    }
  }
  return false;
}

const c10::IValue& ShapeCall::value(std::string_view name) const { return arguments_[index_of(name)]; }

at::Tensor ShapeCall::tensor(std::string_view name) const { return value(name).toTensor(); }

std::vector<at::Tensor> ShapeCall::tensors(std::string_view name) const { return value(name).toTensorVector(); }

std::vector<std::optional<at::Tensor>> ShapeCall::optional_tensors(std::string_view name) const {
  std::vector<std::optional<at::Tensor>> result;
  const c10::IValue& list = value(name);
  for (const c10::IValue& item : list.toListRef()) {
    const bool present = item.isTensor() && item.toTensor().defined();
    result.push_back(present ? std::optional(item.toTensor()) : std::nullopt);
  }
  return result;
}

Expr to_expr(const c10::IValue& value) { return value.isInt() ? Expr(value.toInt()) : to_expr(value.toSymInt()); }

std::vector<Expr> to_exprs(const c10::IValue& value) {
  std::vector<Expr> result;
  if (value.isIntList()) {
    for (const int64_t item : value.toIntVector()) {
      result.emplace_back(item);
    }
    return result;
  }
  for (const c10::IValue& item : value.toListRef()) {
    result.push_back(to_expr(item));
  }
  return result;
}

Expr ShapeCall::sym_int(std::string_view name) const { return env_->simplify(to_expr(value(name))); }

std::optional<Expr> ShapeCall::optional_sym_int(std::string_view name) const {
  return has(name) ? std::optional(sym_int(name)) : std::nullopt;
}

std::vector<Expr> ShapeCall::sym_ints(std::string_view name) const {
  std::vector<Expr> result = to_exprs(value(name));
  for (Expr& expr : result) {
    expr = env_->simplify(expr);
  }
  return result;
}

std::optional<std::vector<Expr>> ShapeCall::optional_sym_ints(std::string_view name) const {
  return has(name) ? std::optional(sym_ints(name)) : std::nullopt;
}

int64_t ShapeCall::integer(std::string_view name) const { return env_->specialize(sym_int(name)); }

std::optional<int64_t> ShapeCall::optional_integer(std::string_view name) const {
  return has(name) ? std::optional(integer(name)) : std::nullopt;
}

std::vector<int64_t> ShapeCall::integers(std::string_view name) const {
  std::vector<int64_t> result;
  for (const Expr& expr : sym_ints(name)) {
    result.push_back(env_->specialize(expr));
  }
  return result;
}

bool ShapeCall::boolean(std::string_view name) const { return value(name).toBool(); }
double ShapeCall::floating(std::string_view name) const { return value(name).toScalar().toDouble(); }
std::string ShapeCall::string(std::string_view name) const { return std::string(value(name).toStringView()); }
at::Scalar ShapeCall::scalar(std::string_view name) const { return value(name).toScalar(); }

std::optional<at::Scalar> ShapeCall::optional_scalar(std::string_view name) const {
  return has(name) ? std::optional(scalar(name)) : std::nullopt;
}

std::optional<c10::ScalarType> ShapeCall::dtype(std::string_view name) const {
  return has(name) ? std::optional(value(name).toScalarType()) : std::nullopt;
}

std::optional<c10::Device> ShapeCall::device() const {
  return has("device") ? std::optional(value("device").toDevice()) : std::nullopt;
}

std::optional<c10::MemoryFormat> ShapeCall::memory_format() const {
  return has("memory_format") ? std::optional(value("memory_format").toMemoryFormat()) : std::nullopt;
}

int64_t ShapeCall::dim(std::string_view name, int64_t rank) const { return wrap_dim(integer(name), rank); }

void ShapeCall::returns(TensorMeta meta) { results_.emplace_back(make_fake(std::move(meta), env_)); }

void ShapeCall::returns_view(const at::Tensor& base, TensorMeta meta) {
  results_.emplace_back(make_fake(std::move(meta), env_, base));
}

void ShapeCall::returns_same(const at::Tensor& tensor) { results_.emplace_back(tensor); }

void ShapeCall::returns_list(std::vector<TensorMeta> metas) {
  std::vector<at::Tensor> list;
  for (TensorMeta& meta : metas) {
    list.push_back(make_fake(std::move(meta), env_));
  }
  results_.emplace_back(list);
}

void ShapeCall::returns_view_list(const at::Tensor& base, std::vector<TensorMeta> metas) {
  std::vector<at::Tensor> list;
  for (TensorMeta& meta : metas) {
    list.push_back(make_fake(std::move(meta), env_, base));
  }
  results_.emplace_back(list);
}

void ShapeCall::returns_value(c10::IValue value) { results_.push_back(std::move(value)); }

void ShapeCall::refuse(std::string why, std::string hint) const {
  throw Error(c10::toString(op_.operator_name()) + ": " + std::move(why), current_place().str(), std::move(hint));
}

TensorMeta dense(std::vector<Expr> sizes, c10::ScalarType dtype, c10::Device device) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.strides = contiguous_strides(sizes);
  meta.sizes = std::move(sizes);
  meta.device = device;
  return meta;
}

int64_t wrap_dim(int64_t dim, int64_t rank) {
  const int64_t limit = std::max<int64_t>(rank, 1);
  ensure(-limit <= dim && dim < limit, "axis {} is outside a tensor of rank {}", dim, rank);
  return dim < 0 ? dim + limit : dim;
}

bool holds(ShapeEnv& env, const BoolExpr& condition) {
  const std::vector<Symbol> symbols = condition.free_symbols();
  const bool depends_on_data =
      std::any_of(symbols.begin(), symbols.end(), [](Symbol symbol) { return Expr(symbol).has_unbacked(); });
  if (!depends_on_data || env.statically(condition)) {
    return env.evaluate(condition);
  }
  env.require(condition);
  return true;
}

std::vector<Expr> broadcast_sizes(ShapeEnv& env, c10::ArrayRef<TensorMeta> operands) {
  size_t rank = 0;
  for (const TensorMeta& operand : operands) {
    rank = std::max(rank, operand.sizes.size());
  }
  std::vector<Expr> sizes(rank, 1);
  for (const TensorMeta& operand : operands) {
    const size_t skip = rank - operand.sizes.size();
    for (size_t d = 0; d < operand.sizes.size(); ++d) {
      sizes[skip + d] = env.broadcast(sizes[skip + d], operand.sizes[d]);
    }
  }
  return sizes;
}

TensorMeta elementwise(ShapeEnv& env, c10::ArrayRef<TensorMeta> operands, c10::ScalarType dtype) {
  TensorMeta result;
  result.dtype = dtype;
  result.sizes = broadcast_sizes(env, operands);
  result.strides = elementwise_strides(env, operands, result.sizes);
  for (const TensorMeta& operand : operands) {
    if (operand.dim() > 0 || result.sizes.empty()) {
      result.device = operand.device;
      break;
    }
  }
  return result;
}

namespace {

// What type promotion sees of a scalar that depends on sizes.
at::Scalar of_same_kind(const at::Scalar& scalar) {
  if (scalar.isSymInt()) return int64_t{1};
  if (scalar.isSymFloat()) return 1.0;
  if (scalar.isSymBool()) return true;
  return scalar;
}

}  // namespace

c10::ScalarType promote(c10::ArrayRef<at::Tensor> tensors, c10::ArrayRef<at::Scalar> scalars) {
  at::native::ResultTypeState state;
  for (const at::Tensor& tensor : tensors) {
    state = at::native::update_result_type_state(tensor, state);
  }
  for (const at::Scalar& scalar : scalars) {
    state = at::native::update_result_type_state(of_same_kind(scalar), state);
  }
  return at::native::result_type(state);
}

c10::ScalarType to_floating(c10::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/true) ? c10::get_default_dtype_as_scalartype() : dtype;
}

}  // namespace exporters
