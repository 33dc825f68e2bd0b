#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"
#include "exporters/fake/reshape_in_place.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

// ── Views: other sizes and strides over the same memory ──
namespace exporters::families {
namespace {

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

void returns_view(ShapeCall& call, TensorMeta meta) { call.returns_view(call.tensor("self"), std::move(meta)); }

size_t axis_of(const ShapeCall& call, std::string_view name, const TensorMeta& meta) {
  if (meta.sizes.empty()) {
    call.refuse("a tensor of rank 0 has no axis to take");
  }
  return static_cast<size_t>(call.dim(name, meta.dim()));
}

Expr product(const std::vector<Expr>& sizes) {
  Expr result = 1;
  for (const Expr& size : sizes) {
    result = result * size;
  }
  return result;
}

std::string to_string(const std::vector<Expr>& sizes) {
  std::string text;
  for (const Expr& size : sizes) {
    text += (text.empty() ? "" : ", ") + size.str();
  }
  return "[" + text + "]";
}

// ── view and reshape ──

// Requested sizes with -1 replaced; requires the same number of elements.
std::vector<Expr> resolve_sizes(const ShapeCall& call, const std::vector<Expr>& have, std::vector<Expr> want) {
  ShapeEnv& env = call.env();
  const Expr numel = product(have);
  std::optional<size_t> open;
  Expr known = 1;
  for (size_t d = 0; d < want.size(); ++d) {
    if (want[d] == Expr(-1)) {
      if (open) call.refuse("more than one size of " + to_string(want) + " is -1");
      open = d;
    } else {
      known = known * want[d];
    }
  }
  const auto mismatch = [&] { call.refuse("sizes " + to_string(want) + " don't fit a tensor of " + to_string(have)); };
  if (!open) {
    if (!holds(env, eq(known, numel))) mismatch();
    return want;
  }
  if (env.is_true(eq(known, 0))) {
    call.refuse("-1 in " + to_string(want) + " could be any size: there are no elements");
  }
  const Expr quotient = env.simplify(floordiv(numel, known));
  if (!env.is_true(eq(quotient * known, numel)) && !holds(env, eq(mod(numel, known), 0))) mismatch();
  want[*open] = env.simplify(quotient);
  return want;
}

// The same memory with other sizes, if facts say that it can be.
std::optional<TensorMeta> viewed(const ShapeEnv& env, const TensorMeta& self, const std::vector<Expr>& sizes) {
  const auto strides = view_strides(env, self, sizes);
  if (!strides) return std::nullopt;
  TensorMeta result = self;
  result.sizes = sizes;
  result.strides = *strides;
  return result;
}

void returns_viewed(ShapeCall& call, const std::vector<Expr>& sizes) {
  const TensorMeta self = call.meta("self");
  auto result = viewed(call.env(), self, sizes);
  if (!result) {
    call.refuse("sizes " + to_string(sizes) + " need a copy of the tensor of sizes " + to_string(self.sizes) +
                    " and strides " + to_string(self.strides),
                "Use reshape.");
  }
  returns_view(call, std::move(*result));
}

void returns_reshaped(ShapeCall& call, const std::vector<Expr>& sizes) {
  const TensorMeta self = call.meta("self");
  if (auto result = viewed(call.env(), self, sizes)) {
    returns_view(call, std::move(*result));
  } else {
    call.returns(dense(sizes, self.dtype, self.device));
  }
}

std::vector<Expr> requested_sizes(const ShapeCall& call, std::string_view name) {
  return resolve_sizes(call, call.meta("self").sizes, call.sym_ints(name));
}

void view(ShapeCall& call) { returns_viewed(call, requested_sizes(call, "size")); }
void view_as(ShapeCall& call) {
  returns_viewed(call, resolve_sizes(call, call.meta("self").sizes, call.meta("other").sizes));
}
void reshape(ShapeCall& call) { returns_reshaped(call, requested_sizes(call, "shape")); }
void reshape_as(ShapeCall& call) {
  returns_reshaped(call, resolve_sizes(call, call.meta("self").sizes, call.meta("other").sizes));
}

// view that autograd does not track: it shares memory all the same.
void unsafe_view(ShapeCall& call) { returns_viewed(call, requested_sizes(call, "size")); }

void view_dtype(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  const c10::ScalarType dtype = call.dtype().value();
  const auto from = static_cast<int64_t>(c10::elementSize(self.dtype));
  const auto to = static_cast<int64_t>(c10::elementSize(dtype));
  if (from != to) {
    if (self.sizes.empty() || !call.env().is_true(eq(self.strides.back(), 1))) {
      call.refuse("an element size other than the tensor's needs a last axis of stride 1");
    }
    const auto scale = [&](const Expr& expr, const char* what) {
      if (from > to) return expr * (from / to);
      if (!call.env().evaluate(eq(mod(expr, to / from), 0))) {
        call.refuse(std::string(what) + " " + expr.str() + " is not a multiple of " + std::to_string(to / from));
      }
      return call.env().simplify(floordiv(expr, to / from));
    };
    self.sizes.back() = scale(self.sizes.back(), "the last size");
    for (size_t d = 0; d + 1 < self.strides.size(); ++d) {
      self.strides[d] = scale(self.strides[d], "stride");
    }
    self.storage_offset = scale(self.storage_offset, "the storage offset");
  }
  self.dtype = dtype;
  returns_view(call, std::move(self));
}

void flatten(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.sizes.empty()) {
    returns_reshaped(call, {1});
    return;
  }
  const auto first = axis_of(call, "start_dim", self);
  const auto last = axis_of(call, "end_dim", self);
  if (first > last) call.refuse("start_dim stands after end_dim");
  if (first == last) {
    call.returns_same(call.tensor("self"));
    return;
  }
  std::vector<Expr> sizes(self.sizes.begin(), self.sizes.begin() + static_cast<int64_t>(first));
  sizes.push_back(
      product({self.sizes.begin() + static_cast<int64_t>(first), self.sizes.begin() + static_cast<int64_t>(last) + 1}));
  sizes.insert(sizes.end(), self.sizes.begin() + static_cast<int64_t>(last) + 1, self.sizes.end());
  returns_reshaped(call, sizes);
}

void ravel(ShapeCall& call) { returns_reshaped(call, {product(call.meta("self").sizes)}); }

void unflatten(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const auto axis = static_cast<int64_t>(axis_of(call, "dim", self));
  const std::vector<Expr> parts = resolve_sizes(call, {self.sizes[static_cast<size_t>(axis)]}, call.sym_ints("sizes"));
  std::vector<Expr> sizes(self.sizes.begin(), self.sizes.begin() + axis);
  sizes.insert(sizes.end(), parts.begin(), parts.end());
  sizes.insert(sizes.end(), self.sizes.begin() + axis + 1, self.sizes.end());
  returns_viewed(call, sizes);
}

// ── Order of axes ──

TensorMeta permuted(const TensorMeta& self, const std::vector<size_t>& order) {
  TensorMeta result = self;
  for (size_t d = 0; d < order.size(); ++d) {
    result.sizes[d] = self.sizes[order[d]];
    result.strides[d] = self.strides[order[d]];
  }
  return result;
}

TensorMeta transposed(TensorMeta meta, size_t a, size_t b) {
  std::swap(meta.sizes[a], meta.sizes[b]);
  std::swap(meta.strides[a], meta.strides[b]);
  return meta;
}

void transpose_axes(ShapeCall& call, std::string_view a, std::string_view b) {
  const TensorMeta self = call.meta("self");
  const auto first = static_cast<size_t>(call.dim(a, self.dim()));
  const auto second = static_cast<size_t>(call.dim(b, self.dim()));
  returns_view(call, self.sizes.empty() ? self : transposed(self, first, second));
}

void transpose(ShapeCall& call) { transpose_axes(call, "dim0", "dim1"); }
void swapaxes(ShapeCall& call) { transpose_axes(call, "axis0", "axis1"); }

void t(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() > 2) call.refuse("the tensor has rank " + std::to_string(self.dim()) + ", not 2 or less");
  returns_view(call, self.dim() < 2 ? self : transposed(self, 0, 1));
}

void matrix_transpose(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() < 2) call.refuse("the tensor has rank " + std::to_string(self.dim()) + ", not 2 or more");
  returns_view(call, transposed(self, self.sizes.size() - 2, self.sizes.size() - 1));
}

void permute(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  std::vector<size_t> order;
  for (const int64_t dim : call.integers("dims")) {
    order.push_back(static_cast<size_t>(wrap_dim(dim, self.dim())));
  }
  std::vector<size_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t d = 0; d < sorted.size(); ++d) {
    if (sorted[d] != d) call.refuse("dims names an axis twice");
  }
  if (order.size() != self.sizes.size()) call.refuse("dims does not name every axis");
  returns_view(call, permuted(self, order));
}

// ── One axis more or less ──

void unsqueeze(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  const int64_t axis = call.dim("dim", self.dim() + 1);
  const auto at = static_cast<size_t>(axis);
  const Expr stride = at == self.sizes.size() ? Expr(1) : self.sizes[at] * self.strides[at];
  self.sizes.insert(self.sizes.begin() + axis, 1);
  self.strides.insert(self.strides.begin() + axis, stride);
  returns_view(call, std::move(self));
}

// Whether an axis is 1 decides the rank, so a symbol is asked.
void squeeze_axes(ShapeCall& call, std::vector<bool> axes) {
  const TensorMeta self = call.meta("self");
  TensorMeta result = self;
  result.sizes.clear();
  result.strides.clear();
  for (size_t d = 0; d < self.sizes.size(); ++d) {
    if (!axes[d] || !call.env().evaluate(eq(self.sizes[d], 1))) {
      result.sizes.push_back(self.sizes[d]);
      result.strides.push_back(self.strides[d]);
    }
  }
  returns_view(call, std::move(result));
}

void squeeze(ShapeCall& call) { squeeze_axes(call, std::vector<bool>(call.meta("self").sizes.size(), true)); }

void squeeze_dim(ShapeCall& call) {
  const int64_t rank = std::max<int64_t>(call.meta("self").dim(), 1);
  std::vector<bool> axes(static_cast<size_t>(rank), false);
  axes[static_cast<size_t>(call.dim("dim", rank))] = true;
  squeeze_axes(call, std::move(axes));
}

void squeeze_dims(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  std::vector<bool> axes(std::max<size_t>(self.sizes.size(), 1), false);
  const bool one = !call.value("dim").isList();
  for (const int64_t dim : one ? std::vector{call.integer("dim")} : call.integers("dim")) {
    axes[static_cast<size_t>(wrap_dim(dim, self.dim()))] = true;
  }
  squeeze_axes(call, std::move(axes));
}

// The tensor itself gets the shape of the view, which takes the same arguments.
template <void (*View)(ShapeCall&)>
void in_place(ShapeCall& call) {
  ShapeCall view = call;
  View(view);
  const at::Tensor self = call.tensor("self");
  reshape_in_place(self, meta_of(view.results().at(0).toTensor()));
  call.returns_same(self);
}

void refuse_in_place(ShapeCall& call) {
  call.refuse("changes the size of a tensor's memory in place", "Make a new tensor.");
}

// Whether a position is negative. One that depends on data is asserted not to be.
bool counts_from_end(ShapeEnv& env, const Expr& position) {
  return position.has_unbacked() ? !holds(env, ge(position, 0)) : env.evaluate(lt(position, 0));
}

void select(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  const auto axis = static_cast<int64_t>(axis_of(call, "dim", self));
  const Expr size = self.sizes[static_cast<size_t>(axis)];
  Expr index = call.sym_int("index");
  // Out of range is an error in every runner, so it is not asked of symbols; which end the index counts from is.
  const auto sample = call.env().hint(index);
  const auto sample_size = call.env().hint(size);
  if (sample && sample_size && (*sample < -*sample_size || *sample >= *sample_size)) {
    call.refuse("index " + index.str() + " is outside axis " + std::to_string(axis) + " of size " + size.str());
  }
  if (counts_from_end(call.env(), index)) {
    index = index + size;
  }
  self.storage_offset = self.storage_offset + index * self.strides[static_cast<size_t>(axis)];
  self.sizes.erase(self.sizes.begin() + axis);
  self.strides.erase(self.strides.begin() + axis);
  returns_view(call, std::move(self));
}

// ── expand ──

TensorMeta expanded(const ShapeCall& call, const TensorMeta& self, const std::vector<Expr>& want) {
  ShapeEnv& env = call.env();
  if (want.size() < self.sizes.size()) {
    call.refuse("a tensor of rank " + std::to_string(self.dim()) + " cannot be expanded to " + to_string(want));
  }
  TensorMeta result = self;
  const size_t skip = want.size() - self.sizes.size();
  result.sizes = want;
  result.strides.assign(want.size(), 0);
  for (size_t d = skip; d < want.size(); ++d) {
    const Expr& have = self.sizes[d - skip];
    const Expr size = want[d] == Expr(-1) ? have : env.broadcast(have, want[d]);
    if (want[d] != Expr(-1) && !holds(env, eq(size, want[d]))) {
      call.refuse("axis " + std::to_string(d - skip) + " of size " + have.str() + " cannot be expanded to " +
                  want[d].str());
    }
    const bool repeats = env.is_true(eq(have, 1)) && !env.is_true(eq(size, 1));
    result.sizes[d] = env.simplify(size);
    result.strides[d] = repeats ? Expr(0) : self.strides[d - skip];
  }
  for (size_t d = 0; d < skip; ++d) {
    if (want[d] == Expr(-1)) call.refuse("-1 stands for an axis that the tensor does not have");
  }
  return result;
}

void returns_expanded(ShapeCall& call, const std::vector<Expr>& want) {
  returns_view(call, expanded(call, call.meta("self"), want));
}

void broadcast_tensors(ShapeCall& call) {
  const std::vector<at::Tensor> tensors = call.tensors("tensors");
  std::vector<TensorMeta> metas;
  for (const at::Tensor& tensor : tensors) {
    metas.push_back(meta_of(tensor));
  }
  const std::vector<Expr> sizes = broadcast_sizes(call.env(), metas);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool stays = meta_of(tensors[i]).sizes == sizes;
    results.push_back(stays ? tensors[i] : make_fake(expanded(call, metas[i], sizes), call.shared_env(), tensors[i]));
  }
  call.returns_value(results);
}

void expand(ShapeCall& call) { returns_expanded(call, call.sym_ints("size")); }
void expand_as(ShapeCall& call) { returns_expanded(call, call.meta("other").sizes); }

// ── Parts of an axis ──

// Note [Bounds of a slice]
// Python clamps bounds to the axis. Which side of it a bound is on is asked (and so becomes a guard), so that lengths
// stay as plain as the model wrote them. Sizes that depend on data cannot be asked: they keep min and max.
Expr clamp_to(ShapeEnv& env, const Expr& value, const Expr& low, const Expr& high) {
  const auto at_most = [&](const Expr& a, const Expr& b) -> std::optional<bool> {
    const BoolExpr condition = le(a, b);
    if (const auto known = env.statically(condition)) return known;
    if (a.has_unbacked() || b.has_unbacked()) return std::nullopt;
    return env.evaluate(condition);
  };
  const auto fits = at_most(value, high);
  if (fits == std::optional(false)) return high;
  const auto above = at_most(low, value);
  if (above == std::optional(false)) return low;
  if (fits && above) return value;
  return max(min(value, high), low);
}

Expr bound_of(ShapeEnv& env, const Expr& bound, const Expr& size) {
  if (bound == Expr(kToTheEnd)) return size;
  return clamp_to(env, counts_from_end(env, bound) ? bound + size : bound, 0, size);
}

TensorMeta sliced(ShapeEnv& env, TensorMeta meta, size_t axis, const Expr& start, const Expr& end, const Expr& step) {
  const Expr size = meta.sizes[axis];
  const Expr first = bound_of(env, start, size);
  Expr last = bound_of(env, end, size);
  if (!(last == size && first == Expr(0))) {
    last = clamp_to(env, last, first, size);
  }
  meta.sizes[axis] = env.simplify(ceildiv(last - first, step));
  meta.storage_offset = env.simplify(meta.storage_offset + first * meta.strides[axis]);
  meta.strides[axis] = meta.strides[axis] * step;
  return meta;
}

void slice(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const size_t axis = axis_of(call, "dim", self);
  const Expr step = call.sym_int("step");
  if (!call.env().evaluate(ge(step, 1))) call.refuse("the step " + step.str() + " is not positive");
  returns_view(call, sliced(call.env(), self, axis, call.optional_sym_int("start").value_or(0),
                            call.optional_sym_int("end").value_or(kToTheEnd), step));
}

// A part whose bounds the op checks itself: nothing is asked beyond the samples.
TensorMeta narrowed(const ShapeCall& call, TensorMeta meta, size_t axis, const Expr& start, const Expr& length) {
  const auto first = call.env().hint(start);
  const auto last = call.env().hint(start + length);
  const auto size = call.env().hint(meta.sizes[axis]);
  if (first && last && size && (*first < 0 || *last < *first || *last > *size)) {
    call.refuse("[" + start.str() + ", " + (start + length).str() + ") is outside axis " + std::to_string(axis) +
                " of size " + meta.sizes[axis].str());
  }
  meta.sizes[axis] = length;
  meta.storage_offset = call.env().simplify(meta.storage_offset + start * meta.strides[axis]);
  return meta;
}

void narrow(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const size_t axis = axis_of(call, "dim", self);
  Expr start = call.sym_int("start");
  if (counts_from_end(call.env(), start)) start = start + self.sizes[axis];
  returns_view(call, narrowed(call, self, axis, start, call.sym_int("length")));
}

// Consecutive parts of an axis.
std::vector<TensorMeta> parts_of(const ShapeCall& call, const TensorMeta& self, size_t axis,
                                 const std::vector<Expr>& lengths) {
  std::vector<TensorMeta> parts;
  Expr start = 0;
  for (const Expr& length : lengths) {
    parts.push_back(narrowed(call, self, axis, start, length));
    start = call.env().simplify(start + length);
  }
  return parts;
}

// Lengths of the parts of at most `length` that make up `size`; how many there are is fixed by the trace.
std::vector<Expr> equal_parts(const ShapeCall& call, const Expr& size, const Expr& length) {
  ShapeEnv& env = call.env();
  const Expr whole = env.simplify(floordiv(size, length));
  if (whole.is_int() && env.is_true(eq(whole * length, size))) {
    return std::vector<Expr>(static_cast<size_t>(std::max<int64_t>(*whole.as_int(), 1)), length);
  }
  const int64_t count = std::max<int64_t>(env.specialize(ceildiv(size, length)), 1);
  std::vector<Expr> lengths(static_cast<size_t>(count - 1), length);
  lengths.push_back(env.simplify(size - length * (count - 1)));
  return lengths;
}

void returns_parts(ShapeCall& call, size_t axis, const std::vector<Expr>& lengths) {
  call.returns_view_list(call.tensor("self"), parts_of(call, call.meta("self"), axis, lengths));
}

void split(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const size_t axis = axis_of(call, "dim", self);
  const Expr length = call.sym_int("split_size");
  if (length == Expr(0)) call.refuse("parts of size 0");
  returns_parts(call, axis, equal_parts(call, self.sizes[axis], length));
}

void chunk(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const size_t axis = axis_of(call, "dim", self);
  const int64_t chunks = call.integer("chunks");
  if (chunks < 1) call.refuse("chunks is " + std::to_string(chunks) + ", not at least 1");
  const Expr& size = self.sizes[axis];
  returns_parts(call, axis, equal_parts(call, size, call.env().simplify(ceildiv(size, chunks))));
}

void split_with_sizes_named(ShapeCall& call, std::string_view name) {
  const TensorMeta self = call.meta("self");
  const size_t axis = axis_of(call, "dim", self);
  const std::vector<Expr> lengths = call.sym_ints(name);
  Expr sum = 0;
  for (const Expr& length : lengths) {
    sum = sum + length;
  }
  if (!holds(call.env(), eq(sum, self.sizes[axis]))) {
    call.refuse("the parts " + to_string(lengths) + " don't make up the size " + self.sizes[axis].str());
  }
  returns_parts(call, axis, lengths);
}

void split_with_sizes(ShapeCall& call) { split_with_sizes_named(call, "split_sizes"); }
void split_sizes(ShapeCall& call) { split_with_sizes_named(call, "split_size"); }

// The first size % sections parts are one longer: part i has (size + sections - 1 - i) // sections elements.
void tensor_split_sections(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const size_t axis = axis_of(call, "dim", self);
  const int64_t sections = call.integer("sections");
  if (sections < 1) call.refuse("sections is " + std::to_string(sections) + ", not at least 1");
  std::vector<Expr> lengths;
  for (int64_t i = 0; i < sections; ++i) {
    lengths.push_back(call.env().simplify(floordiv(self.sizes[axis] + (sections - 1 - i), sections)));
  }
  returns_parts(call, axis, lengths);
}

void tensor_split_indices(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const size_t axis = axis_of(call, "dim", self);
  std::vector<TensorMeta> parts;
  Expr start = 0;
  for (const Expr& end : call.sym_ints("indices")) {
    parts.push_back(sliced(call.env(), self, axis, start, end, 1));
    start = end;
  }
  parts.push_back(sliced(call.env(), self, axis, start, kToTheEnd, 1));
  call.returns_view_list(call.tensor("self"), std::move(parts));
}

void unbind(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const auto axis = static_cast<int64_t>(axis_of(call, "dim", self));
  const int64_t count = call.env().specialize(self.sizes[static_cast<size_t>(axis)]);
  std::vector<TensorMeta> parts;
  for (int64_t i = 0; i < count; ++i) {
    TensorMeta part = self;
    part.storage_offset = part.storage_offset + self.strides[static_cast<size_t>(axis)] * i;
    part.sizes.erase(part.sizes.begin() + axis);
    part.strides.erase(part.strides.begin() + axis);
    parts.push_back(std::move(part));
  }
  call.returns_view_list(call.tensor("self"), std::move(parts));
}

// ── Other windows on the memory ──

void as_strided(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  self.sizes = call.sym_ints("size");
  self.strides = call.sym_ints("stride");
  if (self.sizes.size() != self.strides.size()) call.refuse("as many strides as sizes are needed");
  self.storage_offset = call.optional_sym_int("storage_offset").value_or(self.storage_offset);
  returns_view(call, std::move(self));
}

void reshape_alias(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  self.sizes = call.sym_ints("size");
  self.strides = call.sym_ints("stride");
  returns_view(call, std::move(self));
}

void unfold(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  const int64_t axis = call.dim("dimension", self.dim());
  const auto at = static_cast<size_t>(axis);
  const int64_t size = call.integer("size");
  const int64_t step = call.integer("step");
  const Expr have = self.sizes.empty() ? Expr(1) : self.sizes[at];
  const Expr stride = self.sizes.empty() ? Expr(1) : self.strides[at];
  const auto sample = call.env().hint(have);
  if (size < 0 || step < 1 || (sample && size > *sample)) {
    call.refuse("windows of size " + std::to_string(size) + " and step " + std::to_string(step) +
                " don't fit an axis of size " + have.str());
  }
  if (!self.sizes.empty()) {
    self.sizes[at] = call.env().simplify(floordiv(have - size, step) + 1);
    self.strides[at] = stride * step;
  }
  self.sizes.push_back(size);
  self.strides.push_back(stride);
  returns_view(call, std::move(self));
}

void diagonal(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  const int64_t first = call.dim("dim1", self.dim());
  const int64_t second = call.dim("dim2", self.dim());
  const int64_t offset = call.integer("offset");
  if (self.dim() < 2 || first == second) call.refuse("a diagonal needs two different axes");
  const auto a = static_cast<size_t>(first);
  const auto b = static_cast<size_t>(second);
  const Expr rows = offset < 0 ? self.sizes[a] + offset : self.sizes[a];
  const Expr columns = offset > 0 ? self.sizes[b] - offset : self.sizes[b];
  const Expr length = call.env().simplify(max(min(rows, columns), 0));
  const Expr stride = self.strides[a] + self.strides[b];
  if (offset != 0 && !call.env().is_true(eq(length, 0))) {
    self.storage_offset = self.storage_offset + (offset > 0 ? self.strides[b] * offset : self.strides[a] * -offset);
  }
  for (const int64_t axis : {std::max(first, second), std::min(first, second)}) {
    self.sizes.erase(self.sizes.begin() + axis);
    self.strides.erase(self.strides.begin() + axis);
  }
  self.sizes.push_back(length);
  self.strides.push_back(stride);
  returns_view(call, std::move(self));
}

// Elements of the last axis on a diagonal of two new ones; the rest is 0, so this is no view.
void diag_embed(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  const int64_t rank = self.dim() + 1;
  const int64_t first = wrap_dim(call.integer("dim1"), rank);
  const int64_t second = wrap_dim(call.integer("dim2"), rank);
  if (self.sizes.empty() || first == second)
    call.refuse("a diagonal needs an axis of its own and two different new ones");
  const Expr size = self.sizes.back() + std::abs(call.integer("offset"));
  std::vector<Expr> sizes(self.sizes.begin(), self.sizes.end() - 1);
  for (const int64_t axis : {std::min(first, second), std::max(first, second)}) {
    sizes.insert(sizes.begin() + axis, size);
  }
  call.returns(dense(std::move(sizes), self.dtype, self.device));
}

void alias(ShapeCall& call) { returns_view(call, call.meta("self")); }

void alias_copy(ShapeCall& call) { call.returns(like(call.env(), call.meta("self"))); }

void returns_self(ShapeCall& call) { call.returns_same(call.tensor("self")); }

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::view", view},
    {"aten::view.dtype", view_dtype},
    {"aten::view_as", view_as},
    {"aten::reshape", reshape},
    {"aten::reshape_as", reshape_as},
    {"aten::_unsafe_view", unsafe_view},
    {"aten::_reshape_alias", reshape_alias},
    {"aten::flatten.using_ints", flatten},
    {"aten::ravel", ravel},
    {"aten::unflatten.int", unflatten},
    {"aten::transpose.int", transpose},
    {"aten::swapdims", transpose},
    {"aten::swapaxes", swapaxes},
    {"aten::t", t},
    {"aten::mT", matrix_transpose},
    {"aten::permute", permute},
    {"aten::unsqueeze", unsqueeze},
    {"aten::squeeze", squeeze},
    {"aten::squeeze.dim", squeeze_dim},
    {"aten::squeeze.dims", squeeze_dims},
    {"aten::select.int", select},
    {"aten::expand", expand},
    {"aten::expand_as", expand_as},
    {"aten::broadcast_tensors", broadcast_tensors},
    {"aten::slice.Tensor", slice},
    {"aten::narrow", narrow},
    {"aten::split.Tensor", split},
    {"aten::unsafe_split.Tensor", split},
    {"aten::unsafe_split_with_sizes", split_with_sizes},
    {"aten::split.sizes", split_sizes},
    {"aten::split_with_sizes", split_with_sizes},
    {"aten::chunk", chunk},
    {"aten::unsafe_chunk", chunk},
    {"aten::tensor_split.sections", tensor_split_sections},
    {"aten::tensor_split.indices", tensor_split_indices},
    {"aten::unbind.int", unbind},
    {"aten::as_strided", as_strided},
    {"aten::unfold", unfold},
    {"aten::diagonal", diagonal},
    {"aten::diag_embed", diag_embed},
    {"aten::alias", alias},
    {"aten::detach", alias},
    {"aten::lift_fresh", returns_self},
    {"aten::lift", alias_copy},
    {"aten::requires_grad_", returns_self},
    {"aten::squeeze_", in_place<squeeze>},
    {"aten::squeeze_.dim", in_place<squeeze_dim>},
    {"aten::squeeze_.dims", in_place<squeeze_dims>},
    {"aten::unsqueeze_", in_place<unsqueeze>},
    {"aten::transpose_", in_place<transpose>},
    {"aten::swapaxes_", in_place<swapaxes>},
    {"aten::swapdims_", in_place<transpose>},
    {"aten::t_", in_place<t>},
    {"aten::as_strided_", in_place<as_strided>},
    {"aten::resize_", refuse_in_place},
});

}  // namespace

std::span<const ShapeEntry> views() { return kTable; }

}  // namespace exporters::families
