#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <cmath>

// ── Tensors made from nothing, or like another one ──
namespace exporters::families {
namespace {

using c10::ScalarType;

c10::Device device_of(const ShapeCall& call) { return call.device().value_or(c10::Device(c10::kCPU)); }

ScalarType default_dtype() { return c10::get_default_dtype_as_scalartype(); }

ScalarType dtype_of(const at::Scalar& scalar) {
  if (scalar.isComplex()) return c10::typeMetaToScalarType(c10::get_default_complex_dtype());
  if (scalar.isFloatingPoint()) return default_dtype();
  return scalar.isBoolean() || scalar.isSymBool() ? ScalarType::Bool : ScalarType::Long;
}

void require_strided(const ShapeCall& call) {
  if (call.has("layout") && call.value("layout").toLayout() != c10::kStrided) {
    call.refuse("layout " + c10::str(call.value("layout").toLayout()) + " is not supported", "Make a strided tensor.");
  }
}

void returns_made(ShapeCall& call, std::vector<Expr> sizes, ScalarType dtype_by_default) {
  require_strided(call);
  TensorMeta made = dense(std::move(sizes), call.dtype().value_or(dtype_by_default), device_of(call));
  for (const Expr& size : made.sizes) {
    const auto sample = call.env().hint(size);
    if (sample && *sample < 0) call.refuse("size " + size.str() + " is negative");
  }
  const auto format = call.memory_format().value_or(c10::MemoryFormat::Contiguous);
  if (format != c10::MemoryFormat::Contiguous && format != c10::MemoryFormat::Preserve) {
    made.strides = strides_of_format(made.sizes, format);
  }
  call.returns(std::move(made));
}

// ── Of given sizes ──

void of_sizes(ShapeCall& call) { returns_made(call, call.sym_ints("size"), default_dtype()); }
void integers_of_sizes(ShapeCall& call) { returns_made(call, call.sym_ints("size"), ScalarType::Long); }
void full(ShapeCall& call) { returns_made(call, call.sym_ints("size"), dtype_of(call.scalar("fill_value"))); }
void scalar_tensor(ShapeCall& call) { returns_made(call, {}, default_dtype()); }
void permutation(ShapeCall& call) { returns_made(call, {call.sym_int("n")}, ScalarType::Long); }

void eye(ShapeCall& call) {
  const Expr rows = call.sym_int("n");
  returns_made(call, {rows, call.has("m") ? call.sym_int("m") : rows}, default_dtype());
}

void empty_strided(ShapeCall& call) {
  require_strided(call);
  TensorMeta made = dense(call.sym_ints("size"), call.dtype().value_or(default_dtype()), device_of(call));
  made.strides = call.sym_ints("stride");
  if (made.strides.size() != made.sizes.size()) call.refuse("as many strides as sizes are needed");
  call.returns(std::move(made));
}

void empty_permuted(ShapeCall& call) {
  require_strided(call);
  TensorMeta made = dense(call.sym_ints("size"), call.dtype().value_or(default_dtype()), device_of(call));
  const std::vector<int64_t> order = call.integers("physical_layout");
  if (order.size() != made.sizes.size()) call.refuse("physical_layout does not name every axis");
  Expr stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(wrap_dim(order[i], made.dim()));
    made.strides[axis] = stride;
    stride = stride * made.sizes[axis];
  }
  call.returns(std::move(made));
}

// ── Ranges ──

// A bound of a range: an expression where it is an integer.
struct Bound {
  std::optional<Expr> integer;
  double value = 0;
  bool floating = false;
};

Bound bound_of(const ShapeCall& call, std::string_view name, int64_t missing) {
  if (!call.has(name)) return {missing, static_cast<double>(missing), false};
  const c10::IValue& value = call.value(name);
  if (value.isInt() || value.isSymInt()) {
    const Expr expr = call.env().simplify(to_expr(value));
    return {expr, static_cast<double>(expr.as_int().value_or(0)), false};
  }
  if (value.isSymFloat() || value.isSymBool()) {
    call.refuse("a range with a bound that is computed in floating point from sizes", "Compute it with integers.");
  }
  const at::Scalar scalar = value.toScalar();
  const double number = scalar.toDouble();
  const bool whole = std::trunc(number) == number && std::abs(number) < 0x1p53;
  return {whole ? std::optional<Expr>(static_cast<int64_t>(number)) : std::nullopt, number, scalar.isFloatingPoint()};
}

// ceil((end - start) / step), or the floor of it plus one where the end counts; exact for integers.
Expr length_of_range(const ShapeCall& call, const Bound& start, const Bound& end, const Bound& step,
                     bool closed = false) {
  ShapeEnv& env = call.env();
  if (start.integer && end.integer && step.integer) {
    if (env.is_true(eq(*step.integer, 0))) call.refuse("the step is 0");
    const bool up = env.evaluate(gt(*step.integer, 0));
    const Expr distance = up ? *end.integer - *start.integer : *start.integer - *end.integer;
    const Expr stride = up ? *step.integer : -*step.integer;
    const Expr length = env.simplify(closed ? floordiv(distance, stride) + 1 : ceildiv(distance, stride));
    const auto sample = env.hint(length);
    if (sample && *sample < 0) call.refuse("the step leads away from the end");
    return length;
  }
  for (const Bound* bound : {&start, &end, &step}) {
    if (bound->integer && !bound->integer->is_int()) {
      call.refuse("a range with both symbolic and fractional bounds", "Scale a range of integers instead.");
    }
  }
  const double steps = (end.value - start.value) / step.value;
  const double length = closed ? std::floor(steps) + 1 : std::ceil(steps);
  if (!(length >= 0 && length < 0x1p53)) call.refuse("the step leads away from the end");
  return static_cast<int64_t>(length);
}

void arange(ShapeCall& call) {
  const Bound start = bound_of(call, "start", 0);
  const Bound end = bound_of(call, "end", 0);
  const Bound step = bound_of(call, "step", 1);
  const bool floating = start.floating || end.floating || step.floating;
  returns_made(call, {length_of_range(call, start, end, step)}, floating ? default_dtype() : ScalarType::Long);
}

// Both ends belong to it.
void range(ShapeCall& call) {
  const Bound step = bound_of(call, "step", 1);
  const Expr length =
      length_of_range(call, bound_of(call, "start", 0), bound_of(call, "end", 0), step, /*closed=*/true);
  returns_made(call, {length}, default_dtype());
}

void window(ShapeCall& call) { returns_made(call, {call.sym_int("window_length")}, default_dtype()); }

void linspace(ShapeCall& call) { returns_made(call, {call.sym_int("steps")}, default_dtype()); }

// ── Triangles ──

void triangle(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() < 2) call.refuse("the tensor has rank " + std::to_string(self.dim()) + ", not 2 or more");
  call.returns(dense(self.sizes, self.dtype, self.device));
}

// Elements of a lower triangle up to the diagonal `offset`.
int64_t elements_below(int64_t rows, int64_t columns, int64_t offset) {
  int64_t count = 0;
  if (rows == 0 || columns == 0) return 0;
  const int64_t first = offset > 0 ? std::min(columns, 1 + offset) : (rows + offset > 0 ? 1 : 0);
  const int64_t last = std::max<int64_t>(0, std::min(columns, rows + offset));
  const int64_t all = std::max<int64_t>(0, std::min(rows, rows + offset));
  const int64_t growing = last - first + 1;
  count = (first + last) * growing / 2;
  const int64_t full_rows = all - growing;
  return count + std::max<int64_t>(full_rows, 0) * columns;
}

void tril_indices(ShapeCall& call) {
  const int64_t count = elements_below(call.integer("row"), call.integer("col"), call.integer("offset"));
  returns_made(call, {2, count}, ScalarType::Long);
}

void triu_indices(ShapeCall& call) {
  const int64_t rows = call.integer("row");
  const int64_t columns = call.integer("col");
  const int64_t below = elements_below(rows, columns, call.integer("offset") - 1);
  returns_made(call, {2, rows * columns - below}, ScalarType::Long);
}

// ── Like another tensor ──

void like_self(ShapeCall& call) {
  require_strided(call);
  TensorMeta made = like(call.env(), call.meta("self"), call.memory_format());
  made.dtype = call.dtype().value_or(made.dtype);
  made.device = call.device().value_or(made.device);
  call.returns(std::move(made));
}

void new_of_sizes(ShapeCall& call) {
  require_strided(call);
  const TensorMeta self = call.meta("self");
  TensorMeta made =
      dense(call.sym_ints("size"), call.dtype().value_or(self.dtype), call.device().value_or(self.device));
  if (call.has("stride")) made.strides = call.sym_ints("stride");
  call.returns(std::move(made));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::empty.memory_format", of_sizes},
    {"aten::zeros", of_sizes},
    {"aten::ones", of_sizes},
    {"aten::rand", of_sizes},
    {"aten::randn", of_sizes},
    {"aten::randint", integers_of_sizes},
    {"aten::randperm", permutation},
    {"aten::full", full},
    {"aten::scalar_tensor", scalar_tensor},
    {"aten::eye", eye},
    {"aten::empty_strided", empty_strided},
    {"aten::empty_permuted", empty_permuted},
    {"aten::arange", arange},
    {"aten::linspace", linspace},
    {"aten::logspace", linspace},
    {"aten::range", range},
    {"aten::normal.float_float", of_sizes},
    {"aten::bartlett_window", window},
    {"aten::blackman_window", window},
    {"aten::hamming_window", window},
    {"aten::hann_window", window},
    {"aten::kaiser_window", window},
    {"aten::tril", triangle},
    {"aten::triu", triangle},
    {"aten::tril_indices", tril_indices},
    {"aten::triu_indices", triu_indices},
    {"aten::empty_like", like_self},
    {"aten::zeros_like", like_self},
    {"aten::ones_like", like_self},
    {"aten::full_like", like_self},
    {"aten::rand_like", like_self},
    {"aten::randn_like", like_self},
    {"aten::randint_like", like_self},
    {"aten::new_empty", new_of_sizes},
    {"aten::new_empty_strided", new_of_sizes},
    {"aten::new_zeros", new_of_sizes},
    {"aten::new_ones", new_of_sizes},
    {"aten::new_full", new_of_sizes},
});

}  // namespace

std::span<const ShapeEntry> factories() { return kTable; }

}  // namespace exporters::families
