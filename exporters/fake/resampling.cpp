#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"
#include "exporters/fake/spatial.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

// ── Resampling: interpolation, grids, and padding that repeats the border ──
namespace exporters::families {
namespace {

using c10::ScalarType;

// ── upsample_*: to a size, or by a factor ──

void require_batched(const ShapeCall& call, const TensorMeta& input, size_t spatial) {
  if (input.sizes.size() != spatial + 2) {
    call.refuse(fmt::format("the input has rank {}, not {}", input.dim(), spatial + 2));
  }
}

void returns_resampled(ShapeCall& call, const TensorMeta& input, const std::vector<Expr>& spatial) {
  for (size_t d = 0; d < spatial.size(); ++d) {
    require_at_least(call, spatial[d], 1, "size of the output");
    require_at_least(call, input.sizes[d + 2], 1, "size of the input");
  }
  call.returns(formatted(with_spatial(input, spatial), input.dtype, input, suggest_memory_format(call.env(), input)));
}

template <size_t kSpatial>
void upsample(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_batched(call, self, kSpatial);
  const std::vector<Expr> size = call.sym_ints("output_size");
  if (size.size() != kSpatial) {
    call.refuse(fmt::format("output_size has {} numbers for {} spatial axes", size.size(), kSpatial));
  }
  returns_resampled(call, self, size);
}

Expr scaled(const Expr& size, double factor) {
  const bool whole = factor == std::trunc(factor) && std::abs(factor) < 1e9;
  return whole ? size * static_cast<int64_t>(factor) : trunc_to_int(size, factor);
}

template <size_t kSpatial>
void upsample_vec(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  require_batched(call, input, kSpatial);
  if (call.has("output_size") == call.has("scale_factors")) {
    call.refuse("exactly one of output_size and scale_factors is to be given");
  }
  std::vector<Expr> size;
  if (call.has("output_size")) {
    size = call.sym_ints("output_size");
  } else {
    for (const double factor : call.value("scale_factors").toDoubleVector()) {
      size.push_back(size.size() < kSpatial ? scaled(input.sizes[size.size() + 2], factor) : Expr(0));
    }
  }
  if (size.size() != kSpatial) {
    call.refuse(fmt::format("{} sizes or factors for {} spatial axes", size.size(), kSpatial));
  }
  returns_resampled(call, input, size);
}

// ── Grids ──

void require_grid(ShapeCall& call, const TensorMeta& input, const TensorMeta& grid) {
  const size_t rank = input.sizes.size();
  if ((rank != 4 && rank != 5) || grid.sizes.size() != rank) {
    call.refuse(fmt::format("the input has rank {}, the grid {}", input.dim(), grid.dim()), "Both have rank 4 or 5.");
  }
  require_equal(call, grid.sizes[0], input.sizes[0], "batch of the grid");
  require_equal(call, grid.sizes.back(), static_cast<int64_t>(rank) - 2, "coordinates in the grid");
  for (size_t d = 2; d < rank; ++d) {
    require_at_least(call, input.sizes[d], 1, "size of the input");
  }
  if (grid.dtype != input.dtype) {
    call.refuse(
        fmt::format("the input has dtype {}, the grid {}", c10::toString(input.dtype), c10::toString(grid.dtype)),
        "Convert one of them.");
  }
}

void grid_sampler(ShapeCall& call) {
  const TensorMeta input = call.meta("input"), grid = call.meta("grid");
  require_grid(call, input, grid);
  call.returns(formatted(with_spatial(input, {grid.sizes.begin() + 1, grid.sizes.end() - 1}), input.dtype, input));
}

void affine_grid_generator(ShapeCall& call) {
  const TensorMeta theta = call.meta("theta");
  const std::vector<Expr> size = call.sym_ints("size");
  if (size.size() != 4 && size.size() != 5) {
    call.refuse(fmt::format("size has {} numbers, not 4 or 5", size.size()));
  }
  const auto dims = static_cast<int64_t>(size.size()) - 2;
  if (theta.dim() != 3) {
    call.refuse(fmt::format("theta has rank {}, not 3", theta.dim()));
  }
  require_equal(call, theta.sizes[0], size[0], "batch of theta");
  require_equal(call, theta.sizes[1], dims, "rows of theta");
  require_equal(call, theta.sizes[2], dims + 1, "columns of theta");
  std::vector<Expr> sizes{size[0]};
  sizes.insert(sizes.end(), size.begin() + 2, size.end());
  sizes.emplace_back(dims);
  call.returns(formatted(std::move(sizes), theta.dtype, theta));
}

// ── Padding: pairs (before, after), last axis first ──

template <bool kReflects>
void pad_border(ShapeCall& call, size_t spatial) {
  const TensorMeta self = call.meta("self");
  require_spatial_rank(call, self, spatial);
  const std::vector<Expr> padding = call.sym_ints("padding");
  if (padding.size() != 2 * spatial) {
    call.refuse(fmt::format("padding has {} numbers for {} spatial axes", padding.size(), spatial));
  }
  std::vector<Expr> sizes = self.sizes;
  for (size_t i = 0; i < spatial; ++i) {
    Expr& size = sizes[sizes.size() - 1 - i];
    const Expr &before = padding[2 * i], &after = padding[2 * i + 1];
    if (kReflects) {  // an element is not reflected twice
      require_at_most(call, before, size - 1, "padding before");
      require_at_most(call, after, size - 1, "padding after");
    } else {
      require_at_least(call, size, 1, "size of the input");
    }
    size = size + before + after;
    require_at_least(call, size, 1, "size of the output");
  }
  call.returns(formatted(std::move(sizes), self.dtype, self, suggest_memory_format(call.env(), self)));
}

template <size_t kSpatial>
void reflection_pad(ShapeCall& call) {
  pad_border<true>(call, kSpatial);
}
template <size_t kSpatial>
void replication_pad(ShapeCall& call) {
  pad_border<false>(call, kSpatial);
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::upsample_nearest1d", upsample<1>},
    {"aten::upsample_nearest1d.vec", upsample_vec<1>},
    {"aten::upsample_nearest2d", upsample<2>},
    {"aten::upsample_nearest2d.vec", upsample_vec<2>},
    {"aten::upsample_nearest3d", upsample<3>},
    {"aten::upsample_nearest3d.vec", upsample_vec<3>},
    {"aten::_upsample_nearest_exact1d", upsample<1>},
    {"aten::_upsample_nearest_exact1d.vec", upsample_vec<1>},
    {"aten::_upsample_nearest_exact2d", upsample<2>},
    {"aten::_upsample_nearest_exact2d.vec", upsample_vec<2>},
    {"aten::_upsample_nearest_exact3d", upsample<3>},
    {"aten::_upsample_nearest_exact3d.vec", upsample_vec<3>},
    {"aten::upsample_linear1d", upsample<1>},
    {"aten::upsample_linear1d.vec", upsample_vec<1>},
    {"aten::upsample_bilinear2d", upsample<2>},
    {"aten::upsample_bilinear2d.vec", upsample_vec<2>},
    {"aten::upsample_bicubic2d", upsample<2>},
    {"aten::upsample_bicubic2d.vec", upsample_vec<2>},
    {"aten::upsample_trilinear3d", upsample<3>},
    {"aten::upsample_trilinear3d.vec", upsample_vec<3>},
    {"aten::_upsample_bilinear2d_aa", upsample<2>},
    {"aten::_upsample_bilinear2d_aa.vec", upsample_vec<2>},
    {"aten::_upsample_bicubic2d_aa", upsample<2>},
    {"aten::_upsample_bicubic2d_aa.vec", upsample_vec<2>},
    {"aten::_upsample_lanczos2d_aa", upsample<2>},
    {"aten::_upsample_lanczos2d_aa.vec", upsample_vec<2>},
    {"aten::grid_sampler", grid_sampler},
    {"aten::grid_sampler_2d", grid_sampler},
    {"aten::grid_sampler_3d", grid_sampler},
    {"aten::affine_grid_generator", affine_grid_generator},
    {"aten::reflection_pad1d", reflection_pad<1>},
    {"aten::reflection_pad2d", reflection_pad<2>},
    {"aten::reflection_pad3d", reflection_pad<3>},
    {"aten::replication_pad1d", replication_pad<1>},
    {"aten::replication_pad2d", replication_pad<2>},
    {"aten::replication_pad3d", replication_pad<3>},
});

}  // namespace

std::span<const ShapeEntry> resampling() { return kTable; }

}  // namespace exporters::families
