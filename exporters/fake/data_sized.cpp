#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <fmt/format.h>

#include <array>

// ── Results whose size depends on the data: their sizes are unbacked symbols ──
namespace exporters::families {
namespace {

using c10::ScalarType;

// Between `least` and the number of elements.
Expr count_up_to(ShapeCall& call, const Expr& elements, int64_t least = 0) {
  return call.env().add_unbacked({least, std::max(call.env().bounds(elements).max, least)});
}

// At least one where there is any element, so 0 only where there may be none.
Expr distinct_up_to(ShapeCall& call, const Expr& elements) {
  return count_up_to(call, elements, call.env().bounds(elements).min > 0 ? 1 : 0);
}

void nonzero(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  TensorMeta result = formatted({count_up_to(call, self.numel()), self.dim()}, ScalarType::Long, self);
  result.strides = {1, result.sizes[0]};  // column-major, so that each axis's positions are contiguous
  call.returns(std::move(result));
}

void nonzero_static(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(formatted({call.sym_int("size"), self.dim()}, ScalarType::Long, self));
}

void masked_select(ShapeCall& call) {
  const TensorMeta self = call.meta("self"), mask = call.meta("mask");
  if (mask.dtype != ScalarType::Bool && mask.dtype != ScalarType::Byte) {
    call.refuse(fmt::format("the mask has dtype {}, not bool", c10::toString(mask.dtype)));
  }
  TensorMeta whole;
  whole.sizes = broadcast_sizes(call.env(), {self, mask});
  call.returns(formatted({count_up_to(call, whole.numel())}, self.dtype, self));
}

void masked_scatter(ShapeCall& call) {
  const TensorMeta self = call.meta("self"), mask = call.meta("mask");
  if (mask.dtype != ScalarType::Bool) {
    call.refuse(fmt::format("the mask has dtype {}, not bool", c10::toString(mask.dtype)));
  }
  if (call.meta("source").dtype != self.dtype) {
    call.refuse(fmt::format("self has dtype {} and source {}", c10::toString(self.dtype),
                            c10::toString(call.meta("source").dtype)),
                "Convert the source.");
  }
  call.returns(formatted(broadcast_sizes(call.env(), {self, mask}), self.dtype, self));
}

// ── unique: the values, for each element its value's position, and how often each value occurs ──

void returns_inverse_and_counts(ShapeCall& call, bool inverse, bool counts, std::vector<Expr> inverse_sizes,
                                const Expr& count) {
  const TensorMeta self = call.meta("self");
  call.returns(formatted(inverse ? std::move(inverse_sizes) : std::vector<Expr>{0}, ScalarType::Long, self));
  if (call.schema().returns().size() == 3) {
    call.returns(formatted({counts ? count : Expr(0)}, ScalarType::Long, self));
  }
}

void unique_of_all(ShapeCall& call, bool counts) {
  const TensorMeta self = call.meta("self");
  const Expr count = distinct_up_to(call, self.numel());
  call.returns(formatted({count}, self.dtype, self));
  returns_inverse_and_counts(call, call.boolean("return_inverse"), counts, self.sizes, count);
}

// Slices along the axis: it is brought to the front, and moved back after.
void unique_along(ShapeCall& call, int64_t dim, bool inverse, bool counts) {
  const TensorMeta self = call.meta("self");
  if (self.dim() == 0) {
    call.refuse("self has rank 0");
  }
  const auto axis = static_cast<size_t>(dim);
  const Expr count = distinct_up_to(call, self.sizes[axis]);
  TensorMeta result = formatted(self.sizes, self.dtype, self);
  result.sizes[axis] = count;
  std::vector<Expr> front = result.sizes;
  std::rotate(front.begin(), front.begin() + dim, front.begin() + dim + 1);
  result.strides = contiguous_strides(front);
  std::rotate(result.strides.begin(), result.strides.begin() + 1, result.strides.begin() + dim + 1);
  call.returns(std::move(result));
  returns_inverse_and_counts(call, inverse, counts, {self.sizes[axis]}, count);
}

void unique(ShapeCall& call) { unique_of_all(call, false); }
void unique2(ShapeCall& call) { unique_of_all(call, call.boolean("return_counts")); }

void unique_dim(ShapeCall& call) {
  unique_along(call, call.dim("dim", call.meta("self").dim()), true, true);  // it gives both always
}

void unique_consecutive(ShapeCall& call) {
  if (!call.has("dim")) {
    unique2(call);
    return;
  }
  unique_along(call, call.dim("dim", call.meta("self").dim()), true, true);
}

// ── Counts ──

void bincount(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() != 1 || !c10::isIntegralType(self.dtype, /*includeBool=*/false)) {
    call.refuse(fmt::format("self has rank {} and dtype {}; a vector of integers is needed", self.dim(),
                            c10::toString(self.dtype)));
  }
  ScalarType dtype = ScalarType::Long;
  if (call.has("weights")) {
    require_equal(call, call.meta("weights").numel(), self.numel(), "number of weights");
    dtype = call.meta("weights").dtype == ScalarType::Float ? ScalarType::Float : ScalarType::Double;
  }
  // As many as the largest value asks for, and at least minlength.
  const Range minimum = call.env().bounds(call.sym_int("minlength"));
  const Expr count = call.env().add_unbacked({std::max<int64_t>(minimum.min, 0), Range::kMax});
  call.returns(formatted({count}, dtype, self));
}

// ── repeat_interleave ──

Expr repeated_count(ShapeCall& call) {
  const auto given = call.optional_sym_int("output_size");
  return given ? *given : call.env().add_unbacked();
}

void require_repeats(const ShapeCall& call) {
  const TensorMeta repeats = call.meta("repeats");
  if (repeats.dim() > 1 || (repeats.dtype != ScalarType::Long && repeats.dtype != ScalarType::Int)) {
    call.refuse(fmt::format("repeats has rank {} and dtype {}; a vector of integers is needed", repeats.dim(),
                            c10::toString(repeats.dtype)));
  }
}

void repeat_interleave(ShapeCall& call) {
  require_repeats(call);
  const TensorMeta repeats = call.meta("repeats");
  if (repeats.dim() != 1) {
    call.refuse("repeats has rank 0, not 1");
  }
  call.returns(formatted({repeated_count(call)}, repeats.dtype, repeats));
}

// The axis that grows; without `dim` all elements in one row.
std::pair<std::vector<Expr>, size_t> axis_to_repeat(const ShapeCall& call, const TensorMeta& self) {
  if (!call.has("dim")) {
    return {{self.numel()}, 0};
  }
  return {self.dim() == 0 ? std::vector<Expr>{1} : self.sizes, static_cast<size_t>(call.dim("dim", self.dim()))};
}

void repeat_interleave_self_tensor(ShapeCall& call) {
  require_repeats(call);
  const TensorMeta self = call.meta("self"), repeats = call.meta("repeats");
  auto [sizes, axis] = axis_to_repeat(call, self);
  if (repeats.dim() == 1 && repeats.sizes[0] != Expr(1)) {
    require_equal(call, repeats.sizes[0], sizes[axis], "number of repeats");
  }
  sizes[axis] = repeated_count(call);
  call.returns(formatted(std::move(sizes), self.dtype, self));
}

void repeat_interleave_self_int(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  auto [sizes, axis] = axis_to_repeat(call, self);
  const Expr repeats = call.sym_int("repeats");
  require_at_least(call, repeats, 0, "repeats");
  sizes[axis] = sizes[axis] * repeats;
  if (const auto given = call.optional_sym_int("output_size")) {
    require_equal(call, *given, sizes[axis], "output_size");
  }
  call.returns(formatted(std::move(sizes), self.dtype, self));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::nonzero", nonzero},
    {"aten::argwhere", nonzero},
    {"aten::nonzero_static", nonzero_static},
    {"aten::masked_select", masked_select},
    {"aten::masked_scatter", masked_scatter},
    {"aten::_unique", unique},
    {"aten::_unique2", unique2},
    {"aten::unique_dim", unique_dim},
    {"aten::unique_dim_consecutive", unique_dim},
    {"aten::unique_consecutive", unique_consecutive},
    {"aten::bincount", bincount},
    {"aten::repeat_interleave.Tensor", repeat_interleave},
    {"aten::repeat_interleave.self_Tensor", repeat_interleave_self_tensor},
    {"aten::repeat_interleave.self_int", repeat_interleave_self_int},
});

}  // namespace

std::span<const ShapeEntry> data_sized() { return kTable; }

}  // namespace exporters::families
