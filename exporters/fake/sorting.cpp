#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <fmt/format.h>

#include <array>

// ── Order: sort, topk, searches in sorted values ──
namespace exporters::families {
namespace {

using c10::ScalarType;

void refuse_complex(const ShapeCall& call, const TensorMeta& self) {
  if (c10::isComplexType(self.dtype)) {
    call.refuse("complex numbers have no order");
  }
}

TensorMeta sorted(ShapeCall& call, ScalarType dtype) {
  TensorMeta self = call.meta("self");
  refuse_complex(call, self);
  self.strides = preserved_strides(call.env(), self);
  self.storage_offset = 0;
  self.dtype = dtype;
  return self;
}

void sort(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.dim("dim", self.dim());
  call.returns(sorted(call, self.dtype));
  call.returns(sorted(call, ScalarType::Long));
}

void argsort(ShapeCall& call) {
  call.dim("dim", call.meta("self").dim());
  call.returns(sorted(call, ScalarType::Long));
}

void msort(ShapeCall& call) { call.returns(sorted(call, call.meta("self").dtype)); }

void returns_values_and_indices(ShapeCall& call, const std::vector<Expr>& sizes, const TensorMeta& self) {
  call.returns(formatted(sizes, self.dtype, self));
  call.returns(formatted(sizes, ScalarType::Long, self));
}

// The size of the axis; k lies within it.
Expr require_k(ShapeCall& call, const TensorMeta& self, int64_t dim, const Expr& k, int64_t least) {
  const Expr size = self.dim() == 0 ? Expr(1) : self.sizes[static_cast<size_t>(dim)];
  require_at_least(call, k, least, "k");
  require_at_most(call, k, size, "k");
  return size;
}

void topk(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  refuse_complex(call, self);
  const int64_t dim = call.dim("dim", self.dim());
  const Expr k = call.sym_int("k");
  require_k(call, self, dim, k, 0);
  std::vector<Expr> sizes = self.sizes;
  if (!sizes.empty()) {
    sizes[static_cast<size_t>(dim)] = k;
  }
  returns_values_and_indices(call, sizes, self);
}

void kthvalue(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  refuse_complex(call, self);
  const int64_t dim = call.dim("dim", self.dim());
  require_k(call, self, dim, call.sym_int("k"), 1);
  std::vector<Expr> sizes = self.sizes;
  if (!sizes.empty() && call.boolean("keepdim")) {
    sizes[static_cast<size_t>(dim)] = 1;
  } else if (!sizes.empty()) {
    sizes.erase(sizes.begin() + dim);
  }
  returns_values_and_indices(call, sizes, self);
}

// Where `values` would be inserted: their size, as integers.
void returns_positions(ShapeCall& call, std::vector<Expr> sizes, const TensorMeta& boundaries) {
  const ScalarType dtype = call.boolean("out_int32") ? ScalarType::Int : ScalarType::Long;
  call.returns(formatted(std::move(sizes), dtype, boundaries));
}

void require_same_dtype(const ShapeCall& call, const TensorMeta& boundaries, const TensorMeta& values) {
  if (boundaries.dtype != values.dtype && values.dim() != 0) {
    call.refuse(fmt::format("the boundaries have dtype {}, the values {}", c10::toString(boundaries.dtype),
                            c10::toString(values.dtype)),
                "Convert one of them.");
  }
}

void bucketize(ShapeCall& call) {
  const TensorMeta boundaries = call.meta("boundaries");
  if (boundaries.dim() != 1) {
    call.refuse(fmt::format("boundaries have rank {}, not 1", boundaries.dim()));
  }
  std::vector<Expr> sizes;
  if (call.value("self").isTensor()) {
    require_same_dtype(call, boundaries, call.meta("self"));
    sizes = call.meta("self").sizes;
  }
  returns_positions(call, std::move(sizes), boundaries);
}

void searchsorted(ShapeCall& call) {
  const TensorMeta sequence = call.meta("sorted_sequence");
  if (!call.value("self").isTensor()) {
    if (sequence.dim() != 1) {
      call.refuse(fmt::format("a number is looked up in a sequence of rank {}, not 1", sequence.dim()));
    }
    returns_positions(call, {}, sequence);
    return;
  }
  const TensorMeta values = call.meta("self");
  require_same_dtype(call, sequence, values);
  if (sequence.dim() != 1) {
    if (sequence.dim() != values.dim()) {
      call.refuse(fmt::format("the sequence has rank {}, the values {}", sequence.dim(), values.dim()));
    }
    for (size_t d = 0; d + 1 < values.sizes.size(); ++d) {
      require_equal(call, sequence.sizes[d], values.sizes[d], "size of the sequence");
    }
  }
  returns_positions(call, values.sizes, sequence);
}

// How many values lie in each of equal bins.
void histc(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const int64_t bins = call.integer("bins");
  if (bins <= 0) {
    call.refuse(fmt::format("there are {} bins", bins));
  }
  call.returns(formatted({Expr(bins)}, self.dtype, self));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::histc", histc},
    {"aten::sort", sort},
    {"aten::sort.stable", sort},
    {"aten::argsort", argsort},
    {"aten::argsort.stable", argsort},
    {"aten::msort", msort},
    {"aten::topk", topk},
    {"aten::kthvalue", kthvalue},
    {"aten::bucketize.Tensor", bucketize},
    {"aten::bucketize.Scalar", bucketize},
    {"aten::searchsorted.Tensor", searchsorted},
    {"aten::searchsorted.Scalar", searchsorted},
});

}  // namespace

std::span<const ShapeEntry> sorting() { return kTable; }

}  // namespace exporters::families
