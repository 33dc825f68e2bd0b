#include "exporters/fake/layout.h"

#include "exporters/fake/shape_call.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace exporters {
namespace {

// Any size that is neither 0 nor 1 would do; a prime does not divide evenly by accident.
constexpr int64_t kTypicalSize = 7;

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

TensorMeta formatted(std::vector<Expr> sizes, c10::ScalarType dtype, const TensorMeta& like, c10::MemoryFormat format) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.device = like.device;
  meta.strides = strides_of_format(sizes, format);
  meta.sizes = std::move(sizes);
  return meta;
}

}  // namespace exporters
