#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <algorithm>

// ── Joining, repeating, padding and moving elements ──
namespace exporters::families {
namespace {

std::vector<TensorMeta> metas_of(const std::vector<at::Tensor>& tensors) {
  std::vector<TensorMeta> metas;
  for (const at::Tensor& tensor : tensors) {
    metas.push_back(meta_of(tensor));
  }
  return metas;
}

// ── cat and stack ──

// cat skips tensors of sizes [0]: it has always done so.
bool is_skipped(const TensorMeta& meta) { return meta.dim() == 1 && meta.sizes[0] == Expr(0); }

// Channels-last only when every tensor is.
c10::MemoryFormat common_format(const ShapeEnv& env, const std::vector<TensorMeta>& metas) {
  const c10::MemoryFormat format = suggest_memory_format(env, metas.front());
  const bool all = std::all_of(metas.begin(), metas.end(),
                               [&](const TensorMeta& meta) { return suggest_memory_format(env, meta) == format; });
  return all ? format : c10::MemoryFormat::Contiguous;
}

void require_same_but(const ShapeCall& call, const TensorMeta& first, const TensorMeta& other, size_t axis) {
  if (first.dim() != other.dim()) {
    call.refuse("tensors of rank " + std::to_string(first.dim()) + " and " + std::to_string(other.dim()) + " meet");
  }
  for (size_t d = 0; d < first.sizes.size(); ++d) {
    if (d != axis && !holds(call.env(), eq(first.sizes[d], other.sizes[d]))) {
      call.refuse("sizes " + first.sizes[d].str() + " and " + other.sizes[d].str() + " of axis " + std::to_string(d) +
                  " differ");
    }
  }
}

void cat(ShapeCall& call) {
  const std::vector<at::Tensor> tensors = call.tensors("tensors");
  if (tensors.empty()) call.refuse("no tensors");
  const std::vector<TensorMeta> metas = metas_of(tensors);
  const auto first = std::find_if_not(metas.begin(), metas.end(), is_skipped);
  if (first == metas.end()) {
    call.returns(dense({0}, promote(tensors), metas[0].device));
    return;
  }
  if (first->sizes.empty()) call.refuse("tensors of rank 0 cannot be joined", "Use stack.");
  const auto axis = static_cast<size_t>(call.dim("dim", first->dim()));
  Expr size = 0;
  for (const TensorMeta& meta : metas) {
    if (is_skipped(meta)) continue;
    require_same_but(call, *first, meta, axis);
    size = size + meta.sizes[axis];
  }
  std::vector<Expr> sizes = first->sizes;
  sizes[axis] = call.env().simplify(size);
  call.returns(formatted(std::move(sizes), promote(tensors), *first, common_format(call.env(), metas)));
}

void stack(ShapeCall& call) {
  const std::vector<at::Tensor> tensors = call.tensors("tensors");
  if (tensors.empty()) call.refuse("no tensors");
  const std::vector<TensorMeta> metas = metas_of(tensors);
  for (const TensorMeta& meta : metas) {
    require_same_but(call, metas[0], meta, metas[0].sizes.size());
  }
  std::vector<Expr> sizes = metas[0].sizes;
  sizes.insert(sizes.begin() + call.dim("dim", metas[0].dim() + 1), static_cast<int64_t>(tensors.size()));
  call.returns(dense(std::move(sizes), promote(tensors), metas[0].device));
}

void block_diag(ShapeCall& call) {
  const std::vector<at::Tensor> tensors = call.tensors("tensors");
  Expr rows = 0, columns = 0;
  for (const at::Tensor& tensor : tensors) {
    const std::vector<Expr> sizes = meta_of(tensor).sizes;
    if (sizes.size() > 2) call.refuse("a block has rank " + std::to_string(sizes.size()) + ", not 2 or less");
    rows = rows + (sizes.size() == 2 ? sizes[0] : Expr(1));
    columns = columns + (sizes.empty() ? Expr(1) : sizes.back());
  }
  if (tensors.empty()) rows = 1;
  call.returns(dense({rows, columns}, tensors.empty() ? c10::ScalarType::Float : promote(tensors)));
}

// ── Repeats ──

void returns_repeated(ShapeCall& call, std::vector<Expr> repeats) {
  const TensorMeta self = call.meta("self");
  if (repeats.size() < self.sizes.size()) {
    call.refuse("fewer repeats than the tensor has axes");
  }
  std::vector<Expr> sizes = std::move(repeats);
  const size_t skip = sizes.size() - self.sizes.size();
  for (size_t d = 0; d < self.sizes.size(); ++d) {
    sizes[skip + d] = sizes[skip + d] * self.sizes[d];
  }
  call.returns(dense(std::move(sizes), self.dtype, self.device));
}

void repeat(ShapeCall& call) { returns_repeated(call, call.sym_ints("repeats")); }

// Missing leading repeats are 1.
void tile(ShapeCall& call) {
  std::vector<Expr> repeats = call.sym_ints("dims");
  const size_t rank = call.meta("self").sizes.size();
  if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), 1);
  returns_repeated(call, std::move(repeats));
}

// ── Padding ──

// Sizes with `padding` (last axis first, a pair each) added.
std::vector<Expr> padded_sizes(const ShapeCall& call, const TensorMeta& self, const std::vector<Expr>& padding) {
  if (padding.size() % 2 != 0 || padding.size() > 2 * self.sizes.size()) {
    call.refuse("padding has " + std::to_string(padding.size()) + " numbers, which does not fit a tensor of rank " +
                std::to_string(self.dim()));
  }
  std::vector<Expr> sizes = self.sizes;
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    Expr& size = sizes[sizes.size() - 1 - i];
    size = call.env().simplify(size + padding[2 * i] + padding[2 * i + 1]);
    const auto sample = call.env().hint(size);
    if (sample && *sample < 0) call.refuse("the padding removes more than there is");
  }
  return sizes;
}

void constant_pad(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  std::vector<Expr> sizes = padded_sizes(call, self, call.sym_ints("pad"));
  call.returns(formatted(std::move(sizes), self.dtype, self, suggest_memory_format(call.env(), self)));
}

// Whether the edges of images or volumes are padded, where the result keeps the operand's format.
bool pads_images(const TensorMeta& self, const std::vector<Expr>& padding) {
  return self.dim() >= 4 && static_cast<size_t>(self.dim()) == padding.size() / 2 + 2;
}

void pad(ShapeCall& call) {
  const std::string mode = call.string("mode");
  const TensorMeta self = call.meta("self");
  const std::vector<Expr> padding = call.sym_ints("pad");
  const bool follows_format = mode == "constant" || (mode != "circular" && pads_images(self, padding));
  call.returns(formatted(padded_sizes(call, self, padding), self.dtype, self,
                         follows_format ? suggest_memory_format(call.env(), self) : c10::MemoryFormat::Contiguous));
}

// ── Moves ──

void roll(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(formatted(self.sizes, self.dtype, self, suggest_memory_format(call.env(), self)));
}

void flip(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  for (const int64_t dim : call.integers("dims")) {
    wrap_dim(dim, self.dim());
  }
  call.returns(like(call.env(), self));
}

// Quarter turns are a flip of one axis, seen with the two exchanged.
void rot90(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const std::vector<int64_t> dims = call.integers("dims");
  if (dims.size() != 2) call.refuse("dims must name two axes");
  const auto a = static_cast<size_t>(wrap_dim(dims[0], self.dim()));
  const auto b = static_cast<size_t>(wrap_dim(dims[1], self.dim()));
  if (self.dim() < 2 || a == b) call.refuse("dims must name two different axes");
  const int64_t turns = ((call.integer("k") % 4) + 4) % 4;
  TensorMeta result = like(call.env(), self, turns == 0 ? c10::MemoryFormat::Contiguous : c10::MemoryFormat::Preserve);
  if (turns % 2 == 1) {
    std::swap(result.sizes[a], result.sizes[b]);
    std::swap(result.strides[a], result.strides[b]);
  }
  call.returns(std::move(result));
}

// Expanded views of vectors; "xy" exchanges the first two axes.
void meshgrid(ShapeCall& call) {
  const std::vector<at::Tensor> tensors = call.tensors("tensors");
  const bool xy = call.has("indexing") && call.string("indexing") == "xy" && tensors.size() >= 2;
  std::vector<Expr> sizes;
  for (const at::Tensor& tensor : tensors) {
    const TensorMeta meta = meta_of(tensor);
    if (meta.dim() > 1) call.refuse("operands must be vectors");
    sizes.push_back(meta.numel());
  }
  if (xy) std::swap(sizes[0], sizes[1]);
  std::vector<at::Tensor> grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorMeta meta = meta_of(tensors[i]);
    const size_t axis = xy && i < 2 ? 1 - i : i;
    const Expr stride = meta.strides.empty() ? Expr(1) : meta.strides[0];
    meta.sizes = sizes;
    meta.strides.assign(sizes.size(), 0);
    meta.strides[axis] = stride;
    grids.push_back(make_fake(std::move(meta), call.shared_env(), tensors[i]));
  }
  call.returns_value(grids);
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::cat", cat},
    {"aten::concat", cat},
    {"aten::concatenate", cat},
    {"aten::stack", stack},
    {"aten::block_diag", block_diag},
    {"aten::repeat", repeat},
    {"aten::tile", tile},
    {"aten::constant_pad_nd", constant_pad},
    {"aten::pad", pad},
    {"aten::roll", roll},
    {"aten::flip", flip},
    {"aten::rot90", rot90},
    {"aten::meshgrid", meshgrid},
});

}  // namespace

std::span<const ShapeEntry> joins() { return kTable; }

}  // namespace exporters::families
