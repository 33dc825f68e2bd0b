#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <fmt/format.h>

#include <array>

// ── Indexing by tensors, as in x[i, :, mask] ──
namespace exporters::families {
namespace {

using c10::ScalarType;

bool is_mask(const TensorMeta& index) { return index.dtype == ScalarType::Bool || index.dtype == ScalarType::Byte; }

// One index for each axis of self; a mask takes as many axes as it has and becomes as many vectors of positions.
class Indices {
 public:
  Indices(ShapeCall& call, TensorMeta self) : call_(call), self_(std::move(self)) {
    for (const std::optional<at::Tensor>& index : call.optional_tensors("indices")) {
      add(index);
    }
    by_axis_.resize(std::max(by_axis_.size(), self_.sizes.size()));
    if (by_axis_.size() > self_.sizes.size()) {
      call.refuse(fmt::format("{} indices for a tensor of rank {}", by_axis_.size(), self_.sizes.size()));
    }
    if (!adjacent()) {
      move_to_front();
    }
  }

  // Sizes and layout of self[indices]: what TensorIterator makes of self, expanded along the indices' axes, and the
  // indices, expanded along the others.
  TensorMeta selected() {
    const std::vector<Expr> picked = broadcast_sizes(call_.env(), present());
    const size_t before = first_indexed();
    TensorMeta source = self_;
    source.sizes.clear();
    source.strides.clear();
    bool inserted = false;
    for (size_t d = 0; d < by_axis_.size(); ++d) {
      if (!by_axis_[d]) {
        source.sizes.push_back(self_.sizes[d]);
        source.strides.push_back(self_.strides[d]);
      } else if (!inserted) {
        source.sizes.insert(source.sizes.end(), picked.begin(), picked.end());
        source.strides.insert(source.strides.end(), picked.size(), 0);
        inserted = true;
      }
    }
    std::vector<TensorMeta> operands{source};
    for (TensorMeta index : present()) {
      pad(index, before, source.sizes.size() - before - picked.size());
      operands.push_back(std::move(index));
    }
    TensorMeta result = elementwise(call_.env(), operands, self_.dtype);
    result.device = self_.device;
    return result;
  }

  bool any() const {
    return std::any_of(by_axis_.begin(), by_axis_.end(), [](const auto& index) { return index.has_value(); });
  }

 private:
  void add(const std::optional<at::Tensor>& index) {
    if (!index) {
      by_axis_.emplace_back();
      return;
    }
    const TensorMeta meta = meta_of(*index);
    if (is_mask(meta)) {
      add_mask(meta);
    } else if (meta.dtype == ScalarType::Long || meta.dtype == ScalarType::Int) {
      by_axis_.emplace_back(meta);
    } else {
      call_.refuse(fmt::format("an index has dtype {}", c10::toString(meta.dtype)),
                   "Indices are int64, int32 or bool.");
    }
  }

  void add_mask(const TensorMeta& mask) {
    const size_t axis = by_axis_.size();
    if (axis + mask.sizes.size() > self_.sizes.size()) {
      call_.refuse(fmt::format("a mask of rank {} at axis {} of a tensor of rank {}", mask.dim(), axis, self_.dim()));
    }
    for (size_t d = 0; d < mask.sizes.size(); ++d) {
      require_equal(call_, mask.sizes[d], self_.sizes[axis + d], "size of a mask");
    }
    // How many elements are set is known only when the program runs.
    const Range range{0, call_.env().bounds(mask.numel()).max};
    const TensorMeta positions = dense({call_.env().add_unbacked(range)}, ScalarType::Long, mask.device);
    by_axis_.insert(by_axis_.end(), mask.sizes.size(), positions);
    if (mask.sizes.empty()) {
      call_.refuse("a mask of rank 0", "Use where, or a mask of rank 1.");
    }
  }

  std::vector<TensorMeta> present() const {
    std::vector<TensorMeta> result;
    for (const auto& index : by_axis_) {
      if (index) result.push_back(*index);
    }
    return result;
  }

  size_t first_indexed() const {
    const auto it = std::find_if(by_axis_.begin(), by_axis_.end(), [](const auto& index) { return index.has_value(); });
    return static_cast<size_t>(it - by_axis_.begin());
  }

  bool adjacent() const {
    const auto present = [](const auto& index) { return index.has_value(); };
    const auto first = std::find_if(by_axis_.begin(), by_axis_.end(), present);
    const auto last = std::find_if(by_axis_.rbegin(), by_axis_.rend(), present).base();
    return first >= last || std::all_of(first, last, present);
  }

  // As NumPy: where indices do not stand together, the axes they give come first.
  void move_to_front() {
    TensorMeta moved = self_;
    moved.sizes.clear();
    moved.strides.clear();
    std::vector<std::optional<TensorMeta>> indices;
    for (const bool indexed : {true, false}) {
      for (size_t d = 0; d < by_axis_.size(); ++d) {
        if (by_axis_[d].has_value() != indexed) continue;
        moved.sizes.push_back(self_.sizes[d]);
        moved.strides.push_back(self_.strides[d]);
        indices.push_back(by_axis_[d]);
      }
    }
    self_ = std::move(moved);
    by_axis_ = std::move(indices);
  }

  static void pad(TensorMeta& index, size_t before, size_t after) {
    for (std::vector<Expr>* exprs : {&index.sizes, &index.strides}) {
      const Expr filling = exprs == &index.sizes ? 1 : 0;
      exprs->insert(exprs->begin(), before, filling);
      exprs->insert(exprs->end(), after, filling);
    }
  }

  ShapeCall& call_;
  TensorMeta self_;
  std::vector<std::optional<TensorMeta>> by_axis_;
};

void index(ShapeCall& call) {
  Indices indices(call, call.meta("self"));
  if (!indices.any()) {
    call.refuse("no index");
  }
  call.returns(indices.selected());
}

void require_values_fit(ShapeCall& call) {
  const TensorMeta self = call.meta("self"), values = call.meta("values");
  if (values.dtype != self.dtype) {
    call.refuse(fmt::format("self has dtype {} and values {}", c10::toString(self.dtype), c10::toString(values.dtype)),
                "Convert the values.");
  }
  const TensorMeta selected = Indices(call, self).selected();
  if (values.sizes.size() > selected.sizes.size()) {
    // Leading axes of size 1 are dropped.
    for (size_t d = 0; d + selected.sizes.size() < values.sizes.size(); ++d) {
      require_equal(call, values.sizes[d], 1, "leading size of the values");
    }
  }
  const size_t rank = std::min(values.sizes.size(), selected.sizes.size());
  for (size_t back = 1; back <= rank; ++back) {
    const Expr& size = selected.sizes[selected.sizes.size() - back];
    const Expr met = call.env().broadcast(size, values.sizes[values.sizes.size() - back]);
    require_equal(call, size, met, "what is indexed, broadcast with the values");
  }
}

void index_put(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  require_values_fit(call);
  self.strides = preserved_strides(call.env(), self);
  self.storage_offset = 0;
  call.returns(std::move(self));
}

void index_put_in_place(ShapeCall& call) {
  require_values_fit(call);
  call.returns_same(call.tensor("self"));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::index.Tensor", index},
    {"aten::_unsafe_index.Tensor", index},
    {"aten::index_put", index_put},
    {"aten::_unsafe_index_put", index_put},
    {"aten::index_put_", index_put_in_place},
    {"aten::_index_put_impl_", index_put_in_place},
});

}  // namespace

std::span<const ShapeEntry> advanced_indexing() { return kTable; }

}  // namespace exporters::families
