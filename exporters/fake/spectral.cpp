#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

// ── Complex numbers and Fourier transforms ──
namespace exporters::families {
namespace {

void require_complex(const ShapeCall& call, const TensorMeta& self) {
  if (!c10::isComplexType(self.dtype)) {
    call.refuse(fmt::format("self has dtype {}, which is not complex", c10::toString(self.dtype)));
  }
}

void require_real(const ShapeCall& call, const TensorMeta& self) {
  if (!c10::isFloatingType(self.dtype)) {
    call.refuse(fmt::format("self has dtype {}, which is not floating", c10::toString(self.dtype)));
  }
}

// ── Complex numbers as pairs ──

TensorMeta as_pairs(TensorMeta meta) {
  for (Expr& stride : meta.strides) {
    stride = stride * 2;
  }
  meta.sizes.emplace_back(2);
  meta.strides.emplace_back(1);
  meta.storage_offset = meta.storage_offset * 2;
  meta.dtype = c10::toRealValueType(meta.dtype);
  return meta;
}

void view_as_real(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_complex(call, self);
  call.returns_view(call.tensor("self"), as_pairs(self));
}

void view_as_complex(ShapeCall& call) {
  TensorMeta meta = call.meta("self");
  require_real(call, meta);
  if (meta.dim() == 0) {
    call.refuse("self has rank 0");
  }
  require_equal(call, meta.sizes.back(), 2, "last size");
  require_equal(call, meta.strides.back(), 1, "last stride");
  meta.sizes.pop_back();
  meta.strides.pop_back();
  for (Expr& stride : meta.strides) {
    require_multiple(call, stride, 2, "stride");
    stride = floordiv(stride, 2);
  }
  require_multiple(call, meta.storage_offset, 2, "storage offset");
  meta.storage_offset = floordiv(meta.storage_offset, 2);
  meta.dtype = c10::toComplexType(meta.dtype);
  call.returns_view(call.tensor("self"), std::move(meta));
}

void conjugate_view(ShapeCall& call) {
  require_complex(call, call.meta("self"));
  call.returns_view(call.tensor("self"), call.meta("self"));
}

// ── Fourier transforms ──

// Note [Layout of transforms]
// The kernel moves the transformed axes behind the others and sorts both groups by stride, outermost first; the output
// is row-major in that order. (As with MKL; a libtorch built without it gives row-major outputs.)
class TransformOrder {
 public:
  TransformOrder(const ShapeEnv& env, const TensorMeta& self, std::vector<int64_t> axes, bool keep_last)
      : env_(env), self_(self) {
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (std::find(axes.begin(), axes.end(), d) == axes.end()) order_.push_back(d);
    }
    sort(order_.begin(), order_.end());
    sort(axes.begin(), axes.end() - (keep_last ? 1 : 0));
    order_.insert(order_.end(), axes.begin(), axes.end());
  }

  std::vector<Expr> strides(const std::vector<Expr>& sizes) const {
    std::vector<Expr> ordered;
    for (const int64_t d : order_) {
      ordered.push_back(sizes[static_cast<size_t>(d)]);
    }
    const std::vector<Expr> dense = contiguous_strides(ordered);
    std::vector<Expr> strides(sizes.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      strides[static_cast<size_t>(order_[i])] = dense[i];
    }
    return strides;
  }

 private:
  using Iterator = std::vector<int64_t>::iterator;
  void sort(Iterator begin, Iterator end) const {
    std::stable_sort(begin, end, [&](int64_t a, int64_t b) { return stride(a) > stride(b); });
  }
  int64_t stride(int64_t d) const { return typical(env_, self_.strides[static_cast<size_t>(d)]); }

  const ShapeEnv& env_;
  const TensorMeta& self_;
  std::vector<int64_t> order_;
};

std::vector<int64_t> transformed_axes(const ShapeCall& call, const TensorMeta& self) {
  std::vector<int64_t> axes = call.integers("dim");
  for (int64_t& axis : axes) {
    axis = wrap_dim(axis, self.dim());
  }
  if (axes.empty() || self.dim() == 0) {
    call.refuse("no axis to transform");
  }
  return axes;
}

TensorMeta transformed(const ShapeCall& call, const TensorMeta& self, const std::vector<int64_t>& axes, bool keep_last,
                       std::vector<Expr> sizes, c10::ScalarType dtype) {
  TensorMeta result = formatted(sizes, dtype, self);
  result.strides = TransformOrder(call.env(), self, axes, keep_last).strides(sizes);
  return result;
}

void complex_to_complex(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_complex(call, self);
  call.returns(transformed(call, self, transformed_axes(call, self), false, self.sizes, self.dtype));
}

void real_to_complex(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_real(call, self);
  const std::vector<int64_t> axes = transformed_axes(call, self);
  std::vector<Expr> sizes = self.sizes;
  if (call.boolean("onesided")) {
    Expr& last = sizes[static_cast<size_t>(axes.back())];
    last = floordiv(last, 2) + 1;
  }
  call.returns(transformed(call, self, axes, true, std::move(sizes), c10::toComplexType(self.dtype)));
}

// Several axes: all but the last one complex to complex first.
void complex_to_real(ShapeCall& call) {
  TensorMeta self = call.meta("self");
  require_complex(call, self);
  std::vector<int64_t> axes = transformed_axes(call, self);
  const int64_t last = axes.back();
  axes.pop_back();
  if (!axes.empty()) {
    self = transformed(call, self, axes, false, self.sizes, self.dtype);
  }
  std::vector<Expr> sizes = self.sizes;
  sizes[static_cast<size_t>(last)] = call.sym_int("last_dim_size");
  call.returns(transformed(call, self, {last}, false, std::move(sizes), c10::toRealValueType(self.dtype)));
}

// ── Short-time Fourier transform: (batch, frequencies, frames), with the memory of (batch, frames, frequencies) ──

bool is_complex_stft(const ShapeCall& call, const TensorMeta& self) {
  return c10::isComplexType(self.dtype) || (call.has("window") && c10::isComplexType(call.meta("window").dtype));
}

Expr padded_length(ShapeCall& call, const TensorMeta& self, int64_t size) {
  const auto& arguments = call.schema().arguments();
  const bool centers =
      std::any_of(arguments.begin(), arguments.end(), [](const auto& a) { return a.name() == "center"; }) &&
      call.boolean("center");
  if (!centers) {
    return self.sizes.back();
  }
  if (call.string("pad_mode") == "reflect") {
    require_at_least(call, self.sizes.back(), size / 2 + 1, "length of the signal");
  }
  return self.sizes.back() + size / 2 * 2;
}

void stft(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  if (self.dim() != 1 && self.dim() != 2) {
    call.refuse(fmt::format("the signal has rank {}, not 1 or 2", self.dim()));
  }
  if (!c10::isFloatingType(self.dtype) && !c10::isComplexType(self.dtype)) {
    call.refuse(fmt::format("the signal has dtype {}", c10::toString(self.dtype)));
  }
  if (call.has("align_to_window") && call.boolean("align_to_window")) {
    call.refuse("align_to_window is not handled");
  }
  const int64_t size = call.integer("n_fft"), hop = call.optional_integer("hop_length").value_or(size / 4);
  if (size <= 0 || hop <= 0) {
    call.refuse(fmt::format("n_fft is {} and hop_length {}; both must be positive", size, hop));
  }
  const bool is_complex = is_complex_stft(call, self);
  if (!is_complex && !call.has("return_complex")) {
    call.refuse("return_complex is not given", "Give return_complex=true.");
  }
  const bool onesided = call.has("onesided") ? call.boolean("onesided") : !is_complex;
  const Expr length = padded_length(call, self, size);
  require_at_least(call, length, size, "length of the signal");
  const Expr frames = floordiv(length - size, hop) + 1, frequencies = onesided ? size / 2 + 1 : size;
  const auto dtype = c10::isComplexType(self.dtype) ? self.dtype : c10::toComplexType(self.dtype);
  TensorMeta result = formatted({self.dim() == 2 ? self.sizes[0] : Expr(1), frames, frequencies}, dtype, self);
  std::swap(result.sizes[1], result.sizes[2]);
  std::swap(result.strides[1], result.strides[2]);
  if (self.dim() == 1) {
    result.sizes.erase(result.sizes.begin());
    result.strides.erase(result.strides.begin());
  }
  const bool complex_result = call.has("return_complex") ? call.boolean("return_complex") : true;
  call.returns(complex_result ? std::move(result) : as_pairs(std::move(result)));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::view_as_real", view_as_real},
    {"aten::view_as_complex", view_as_complex},
    {"aten::_conj", conjugate_view},
    {"aten::_fft_c2c", complex_to_complex},
    {"aten::_fft_r2c", real_to_complex},
    {"aten::_fft_c2r", complex_to_real},
    {"aten::stft", stft},
    {"aten::stft.center", stft},
});

}  // namespace

std::span<const ShapeEntry> spectral() { return kTable; }

}  // namespace exporters::families
