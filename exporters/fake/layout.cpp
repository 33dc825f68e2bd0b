#include "exporters/fake/layout.h"

#include "exporters/fake/shape_call.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace exporters {
namespace {

// Any size that is neither 0 nor 1 would do; a prime does not divide evenly by accident.
constexpr int64_t kTypicalSize = 53;

int64_t typical_value(const ShapeEnv& env, Symbol symbol) {
  const Range range = env.bounds(symbol);
  const int64_t wanted = std::max(env.hint(symbol).value_or(kTypicalSize), int64_t{0});
  return std::clamp(wanted > 1 ? wanted : kTypicalSize, std::max(range.min, int64_t{0}),
                    std::max(range.max, int64_t{0}));
}

// Note [Strides like channels-last]
// The same walk as c10's is_channels_last_strides_2d and _3d: strides must ascend from the channel over the spatial
// axes to the batch, and ambiguous cases count as row-major.
template <size_t Rank>
bool ascends(const ShapeEnv& env, const TensorMeta& meta, const std::array<size_t, Rank>& innermost_first) {
  const int64_t channel_stride = typical(env, meta.strides[1]);
  if (channel_stride == 0) {
    return false;
  }
  int64_t least = 0;
  for (const size_t d : innermost_first) {
    const int64_t size = typical(env, meta.sizes[d]);
    const int64_t stride = typical(env, meta.strides[d]);
    if (size == 0 || stride < least || (d == 0 && least == channel_stride)) {
      return false;
    }
    least = size > 1 ? stride * size : stride;
  }
  return true;
}

// Note [Output strides of elementwise ops]
// TensorIterator sorts axes by the operands' strides (`reorder_dimensions`) and lays a fresh output out in that order.
// https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/TensorIterator.cpp
class AxisOrder {
 public:
  AxisOrder(const ShapeEnv& env, c10::ArrayRef<TensorMeta> operands, const std::vector<Expr>& sizes) {
    for (const Expr& size : sizes) {
      sizes_.push_back(typical(env, size));
    }
    for (const TensorMeta& operand : operands) {
      strides_.push_back(iteration_strides(env, operand, sizes));
    }
  }

  /// Innermost axis first.
  std::vector<size_t> innermost_first() const {
    std::vector<size_t> order(sizes_.size());
    std::iota(order.rbegin(), order.rend(), 0);
    for (size_t i = 1; i < order.size(); ++i) {  // insertion sort that tolerates undecided pairs
      size_t moved = i;
      for (size_t j = i; j-- > 0;) {
        const int decision = should_swap(order[j], order[moved]);
        if (decision > 0) {
          std::swap(order[j], order[moved]);
          moved = j;
        } else if (decision < 0) {
          break;
        }
      }
    }
    return order;
  }

 private:
  // Strides of an operand in the broadcast's rank: 0 where it is expanded.
  static std::vector<int64_t> iteration_strides(const ShapeEnv& env, const TensorMeta& operand,
                                                const std::vector<Expr>& sizes) {
    std::vector<int64_t> strides(sizes.size(), 0);
    const size_t skip = sizes.size() - operand.sizes.size();
    for (size_t d = 0; d < operand.sizes.size(); ++d) {
      const bool expanded = env.is_true(eq(operand.sizes[d], 1)) && !env.is_true(eq(sizes[skip + d], 1));
      strides[skip + d] = expanded ? 0 : typical(env, operand.strides[d]);
    }
    return strides;
  }

  // 1: axis a, now further in, belongs outside b; -1: they stand right; 0: undecided.
  int should_swap(size_t a, size_t b) const {
    for (const std::vector<int64_t>& strides : strides_) {
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] < strides[b]) return -1;
      if (strides[a] > strides[b]) return 1;
      if (sizes_[a] > sizes_[b]) return 1;
    }
    return 0;
  }

  std::vector<int64_t> sizes_;
  std::vector<std::vector<int64_t>> strides_;
};

// The shortcut `fast_set_up`: row-major operands of the output's own shape give a row-major output.
bool all_contiguous(const ShapeEnv& env, c10::ArrayRef<TensorMeta> operands, const std::vector<Expr>& sizes) {
  return std::all_of(operands.begin(), operands.end(),
                     [&](const TensorMeta& operand) { return operand.sizes == sizes && is_contiguous(operand, env); });
}

}  // namespace

int64_t typical(const ShapeEnv& env, const Expr& expr) {
  const Expr simple = env.simplify(expr);
  return simple.is_int() ? *simple.as_int()
                         : simple.evaluate([&](Symbol symbol) { return typical_value(env, symbol); });
}

c10::MemoryFormat suggest_memory_format(const ShapeEnv& env, const TensorMeta& meta) {
  if (meta.dim() == 4 && ascends(env, meta, std::array<size_t, 4>{1, 3, 2, 0})) {
    return c10::MemoryFormat::ChannelsLast;
  }
  if (meta.dim() == 5 && ascends(env, meta, std::array<size_t, 5>{1, 4, 3, 2, 0})) {
    return c10::MemoryFormat::ChannelsLast3d;
  }
  return c10::MemoryFormat::Contiguous;
}

std::vector<Expr> elementwise_strides(const ShapeEnv& env, c10::ArrayRef<TensorMeta> operands,
                                      const std::vector<Expr>& sizes) {
  if (all_contiguous(env, operands, sizes)) {
    return contiguous_strides(sizes);
  }
  std::vector<Expr> strides(sizes.size(), 0);
  Expr product = 1;
  for (const size_t axis : AxisOrder(env, operands, sizes).innermost_first()) {
    strides[axis] = product;
    product = product * (sizes[axis] == Expr(0) ? Expr(1) : sizes[axis]);
  }
  return strides;
}

bool is_dense(const ShapeEnv& env, const TensorMeta& meta) {
  if (is_contiguous(meta, env)) {
    return true;
  }
  std::vector<size_t> order;
  for (size_t d = 0; d < meta.sizes.size(); ++d) {
    if (!env.is_true(eq(meta.sizes[d], 1))) {
      order.push_back(d);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return typical(env, meta.strides[a]) < typical(env, meta.strides[b]); });
  Expr expected = 1;
  for (const size_t d : order) {
    if (!env.is_true(eq(meta.strides[d], expected))) {
      return false;
    }
    expected = expected * meta.sizes[d];
  }
  return true;
}

std::vector<Expr> preserved_strides(ShapeEnv& env, const TensorMeta& meta) {
  return is_dense(env, meta) ? meta.strides : elementwise(env, {meta}, meta.dtype).strides;
}

TensorMeta like(ShapeEnv& env, const TensorMeta& meta, std::optional<c10::MemoryFormat> format) {
  TensorMeta result = meta;
  result.storage_offset = 0;
  result.requires_grad = false;
  result.strides = format.value_or(c10::MemoryFormat::Preserve) == c10::MemoryFormat::Preserve
                       ? preserved_strides(env, meta)
                       : strides_of_format(meta.sizes, *format);
  return result;
}

TensorMeta formatted(std::vector<Expr> sizes, c10::ScalarType dtype, const TensorMeta& like, c10::MemoryFormat format) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.device = like.device;
  meta.strides = strides_of_format(sizes, format);
  meta.sizes = std::move(sizes);
  return meta;
}

}  // namespace exporters
