#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <fmt/format.h>

#include <array>

// ── Indexing along one axis: gather, scatter, index_select, embedding and their kin ──
namespace exporters::families {
namespace {

using c10::ScalarType;

void require_dtype(const ShapeCall& call, const char* name, std::initializer_list<ScalarType> allowed) {
  const ScalarType dtype = call.meta(name).dtype;
  if (std::find(allowed.begin(), allowed.end(), dtype) == allowed.end()) {
    call.refuse(fmt::format("{} has dtype {}", name, c10::toString(dtype)), "Convert it to int64.");
  }
}

void require_index(const ShapeCall& call, const char* name = "index") {
  require_dtype(call, name, {ScalarType::Long, ScalarType::Int});
}

void require_same_dtype(const ShapeCall& call, const char* a, const char* b) {
  const ScalarType first = call.meta(a).dtype, second = call.meta(b).dtype;
  if (first != second) {
    call.refuse(fmt::format("{} has dtype {} and {} {}", a, c10::toString(first), b, c10::toString(second)),
                fmt::format("Convert {} to {}.", b, c10::toString(first)));
  }
}

// Tensors of rank 0 count as one element.
std::vector<Expr> at_least_1d(std::vector<Expr> sizes) { return sizes.empty() ? std::vector<Expr>{1} : sizes; }

void require_same_rank(const ShapeCall& call, const TensorMeta& a, const TensorMeta& b, const char* what) {
  if (at_least_1d(a.sizes).size() != at_least_1d(b.sizes).size()) {
    call.refuse(fmt::format("{} has rank {}, self {}", what, b.dim(), a.dim()));
  }
}

// ── gather and scatter: the index has self's rank ──

// An index, or a source, reaches no further than `whole` along every axis but `except` (−1: every axis).
void require_within(ShapeCall& call, const TensorMeta& part, const TensorMeta& whole, int64_t except) {
  const std::vector<Expr> inner = at_least_1d(part.sizes), outer = at_least_1d(whole.sizes);
  for (size_t d = 0; d < inner.size(); ++d) {
    if (static_cast<int64_t>(d) != except) {
      require_at_most(call, inner[d], outer[d], "size of the index");
    }
  }
}

// An index without elements may have any shape: nothing is read or written.
bool is_empty(const ShapeEnv& env, const TensorMeta& meta) {
  return std::any_of(meta.sizes.begin(), meta.sizes.end(), [&](const Expr& size) { return env.is_true(eq(size, 0)); });
}

void gather(ShapeCall& call) {
  const TensorMeta self = call.meta("self"), index = call.meta("index");
  require_index(call);
  const int64_t dim = call.dim("dim", self.dim());
  if (!is_empty(call.env(), index)) {
    require_same_rank(call, self, index, "index");
    require_within(call, index, self, dim);
  }
  call.returns(formatted(index.sizes, self.dtype, self));
}

// Both tensors are broadcast, but for the axis.
void take_along_dim(ShapeCall& call) {
  const TensorMeta self = call.meta("self"), indices = call.meta("indices");
  require_dtype(call, "indices", {ScalarType::Long});
  if (!call.has("dim")) {
    call.returns(formatted({indices.numel()}, self.dtype, self));
    return;
  }
  require_same_rank(call, self, indices, "indices");
  const int64_t dim = call.dim("dim", self.dim());
  std::vector<Expr> sizes = indices.sizes;
  for (size_t d = 0; d < sizes.size() && d < self.sizes.size(); ++d) {
    if (static_cast<int64_t>(d) != dim) {
      sizes[d] = call.env().broadcast(self.sizes[d], indices.sizes[d]);
    }
  }
  call.returns(formatted(std::move(sizes), self.dtype, self));
}

void scatter(ShapeCall& call) {
  const TensorMeta self = call.meta("self"), index = call.meta("index");
  require_index(call);
  const int64_t dim = call.dim("dim", self.dim());
  if (!is_empty(call.env(), index)) {
    require_same_rank(call, self, index, "index");
    require_within(call, index, self, dim);
    if (call.has("src")) {
      require_same_dtype(call, "self", "src");
      require_same_rank(call, self, call.meta("src"), "src");
      require_within(call, index, call.meta("src"), -1);
    }
  }
  call.returns(formatted(self.sizes, self.dtype, self));
}

// ── index_*: a vector of positions along one axis ──

Expr positions(ShapeCall& call) {
  const TensorMeta index = call.meta("index");
  require_index(call);
  if (index.dim() > 1) {
    call.refuse(fmt::format("index has rank {}, not 1", index.dim()), "Use gather, or index with a tensor.");
  }
  return index.dim() == 0 ? Expr(1) : index.sizes[0];
}

void index_select(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  const Expr count = positions(call);
  const int64_t dim = call.dim("dim", self.dim());
  if (self.dim() > 0) {
    self.sizes[static_cast<size_t>(dim)] = count;
  } else {
    require_equal(call, count, 1, "positions in a tensor of rank 0");
  }
  call.returns(formatted(self.sizes, self.dtype, self));
}

// The source is self with the axis cut to the number of positions.
void require_source_fits(ShapeCall& call, const TensorMeta& self, int64_t dim) {
  const TensorMeta source = call.meta("source");
  require_same_dtype(call, "self", "source");
  const Expr count = positions(call);
  if (source.dim() == 0 || self.dim() == 0) {
    return;  // one element, taken as it is
  }
  require_same_rank(call, self, source, "source");
  for (size_t d = 0; d < self.sizes.size(); ++d) {
    require_equal(call, source.sizes[d], static_cast<int64_t>(d) == dim ? count : self.sizes[d], "size of source");
  }
}

void index_add(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_source_fits(call, self, call.dim("dim", self.dim()));
  call.returns(formatted(self.sizes, self.dtype, self));
}

TensorMeta preserved(ShapeCall& call, TensorMeta self) {
  self.strides = preserved_strides(call.env(), self);
  self.storage_offset = 0;
  return self;
}

void index_fill(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.dim("dim", self.dim());
  positions(call);
  if (call.value("value").isTensor() && call.meta("value").dim() != 0) {
    call.refuse(fmt::format("value has rank {}, not 0", call.meta("value").dim()));
  }
  call.returns(preserved(call, self));
}

// ── Flat positions ──

void take(ShapeCall& call) {
  require_dtype(call, "index", {ScalarType::Long});
  call.returns(formatted(call.meta("index").sizes, call.meta("self").dtype, call.meta("self")));
}

void put(ShapeCall& call) {
  require_dtype(call, "index", {ScalarType::Long});
  require_same_dtype(call, "self", "source");
  require_equal(call, call.meta("source").numel(), call.meta("index").numel(), "elements of source");
  call.returns(preserved(call, call.meta("self")));
}

// ── *_scatter: a view of self is overwritten; the result is laid out as self, gaps and all ──

TensorMeta clone_with_strides(ShapeCall& call, const TensorMeta& self) {
  const bool overlaps = std::any_of(self.strides.begin(), self.strides.end(), [&](const Expr& stride) {
    const auto d = static_cast<size_t>(&stride - self.strides.data());
    return stride == Expr(0) && typical(call.env(), self.sizes[d]) > 1;
  });
  return overlaps ? preserved(call, self) : self;
}

void require_source_of(ShapeCall& call, const std::vector<Expr>& view) {
  const TensorMeta source = call.meta("src");
  if (source.sizes.size() != view.size()) {
    call.refuse(fmt::format("src has rank {}, the view it is written to {}", source.dim(), view.size()));
  }
  for (size_t d = 0; d < view.size(); ++d) {
    require_equal(call, source.sizes[d], view[d], "size of src");
  }
}

void select_scatter(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  std::vector<Expr> view = self.sizes;
  if (view.empty()) {
    call.refuse("self has rank 0");
  }
  view.erase(view.begin() + call.dim("dim", self.dim()));
  require_source_of(call, view);
  call.returns(clone_with_strides(call, self));
}

// The size of a slice is settled by the op that slices; here src must only have self's rank and reach no further.
void slice_scatter(ShapeCall& call) {
  const TensorMeta self = call.meta("self"), source = call.meta("src");
  const int64_t dim = call.dim("dim", self.dim());
  require_same_rank(call, self, source, "src");
  for (size_t d = 0; d < self.sizes.size(); ++d) {
    if (static_cast<int64_t>(d) == dim) {
      require_at_most(call, source.sizes[d], self.sizes[d], "size of src");
    } else {
      require_equal(call, source.sizes[d], self.sizes[d], "size of src");
    }
  }
  call.returns(clone_with_strides(call, self));
}

void diagonal_scatter(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (call.meta("src").dim() != self.dim() - 1) {
    call.refuse(fmt::format("src has rank {}, the diagonal of self {}", call.meta("src").dim(), self.dim() - 1));
  }
  call.returns(clone_with_strides(call, self));
}

void as_strided_scatter(ShapeCall& call) {
  require_source_of(call, call.sym_ints("size"));
  call.returns(clone_with_strides(call, call.meta("self")));
}

// ── Embeddings ──

void embedding(ShapeCall& call) {
  const TensorMeta weight = call.meta("weight"), indices = call.meta("indices");
  require_index(call, "indices");
  if (weight.dim() != 2) {
    call.refuse(fmt::format("weight has rank {}, not 2", weight.dim()));
  }
  std::vector<Expr> sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  call.returns(formatted(std::move(sizes), weight.dtype, weight));
}

void refuse_renorm(ShapeCall& call) {
  call.refuse("an embedding with max_norm rescales its weights as it is called",
              "Apply the norm to the weights once and set max_norm to nothing.");
}

void one_hot(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_dtype(call, "self", {ScalarType::Long});
  const Expr classes = call.sym_int("num_classes");
  if (classes.as_int().value_or(1) <= 0) {
    call.refuse("the number of classes would be taken from the data",
                "Give num_classes, for example the size of the vocabulary.");
  }
  std::vector<Expr> sizes = self.sizes;
  sizes.push_back(classes);
  call.returns(formatted(std::move(sizes), ScalarType::Long, self));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::gather", gather},
    {"aten::take_along_dim", take_along_dim},
    {"aten::scatter", scatter},
    {"aten::scatter_add", scatter},
    {"aten::scatter_reduce", scatter},
    {"aten::index_select", index_select},
    {"aten::index_add", index_add},
    {"aten::index_copy", index_add},
    {"aten::index_reduce", index_add},
    {"aten::index_fill", index_fill},
    {"aten::take", take},
    {"aten::put", put},
    {"aten::select_scatter", select_scatter},
    {"aten::slice_scatter", slice_scatter},
    {"aten::diagonal_scatter", diagonal_scatter},
    {"aten::as_strided_scatter", as_strided_scatter},
    {"aten::embedding", embedding},
    {"aten::embedding_renorm_", refuse_renorm},
    {"aten::one_hot", one_hot},
});

}  // namespace

std::span<const ShapeEntry> indexing() { return kTable; }

}  // namespace exporters::families
