#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"
#include "exporters/fake/spatial.h"

#include <fmt/format.h>

#include <array>

// ── Pools, and other ops that regroup pixels ──
namespace exporters::families {
namespace {

using c10::MemoryFormat;
using c10::ScalarType;

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil = false;
};

template <bool kDilated>
Window read_window(const ShapeCall& call, size_t spatial) {
  Window window;
  window.kernel = per_axis(call, "kernel_size", spatial, {});
  window.stride = per_axis(call, "stride", spatial, window.kernel);
  window.padding = per_axis(call, "padding", spatial, {0});
  window.dilation = kDilated ? per_axis(call, "dilation", spatial, {1}) : std::vector<int64_t>(spatial, 1);
  window.ceil = call.boolean("ceil_mode");
  for (size_t d = 0; d < spatial; ++d) {
    if (window.kernel[d] <= 0 || window.stride[d] <= 0 || window.dilation[d] <= 0 || window.padding[d] < 0 ||
        2 * window.padding[d] > window.kernel[d]) {
      call.refuse(fmt::format("kernel {}, stride {}, padding {}, dilation {} of spatial axis {}", window.kernel[d],
                              window.stride[d], window.padding[d], window.dilation[d], d),
                  "The padding is at most half the kernel; the others are positive.");
    }
  }
  return window;
}

Expr pooled_size(ShapeCall& call, const Window& window, const Expr& size, size_t d) {
  const int64_t stride = window.stride[d], padding = window.padding[d];
  const int64_t reach = window.dilation[d] * (window.kernel[d] - 1) + 1;
  const Expr room = size + 2 * padding - reach;
  const char* const what = "size of the padded input, for this kernel";
  if (!window.ceil) {
    require_at_least(call, room + reach, reach, what);
    return floordiv(room, stride) + 1;
  }
  require_at_least(call, room + reach, reach - (stride - 1), what);
  require_at_least(call, size + padding, 1, what);
  // The last window starts inside the input or its left padding.
  return min(floordiv(room + (stride - 1), stride) + 1, floordiv(size + (padding - 1), stride) + 1);
}

template <bool kDilated>
std::vector<Expr> pooled_sizes(ShapeCall& call, const TensorMeta& self, size_t spatial) {
  require_spatial_rank(call, self, spatial);
  const Window window = read_window<kDilated>(call, spatial);
  std::vector<Expr> sizes;
  for (size_t d = 0; d < spatial; ++d) {
    sizes.push_back(pooled_size(call, window, self.sizes[self.sizes.size() - spatial + d], d));
  }
  return with_spatial(self, sizes);
}

// Ops on sequences that run as ops on images of height 1, and so may take the image's memory format.
TensorMeta as_image_of_height_1(const ShapeEnv& env, const TensorMeta& self, std::vector<Expr> sizes) {
  const TensorMeta image = with_axis(self, self.sizes.size() - 1);
  sizes.insert(sizes.end() - 1, 1);
  TensorMeta result = formatted(std::move(sizes), self.dtype, self, suggest_memory_format(env, image));
  drop_axis(result, result.sizes.size() - 2);
  return result;
}

TensorMeta following(ShapeCall& call, const TensorMeta& self, std::vector<Expr> sizes) {
  return formatted(std::move(sizes), self.dtype, self, suggest_memory_format(call.env(), self));
}

void returns_with_indices(ShapeCall& call, TensorMeta values) {
  TensorMeta indices = values;
  indices.dtype = ScalarType::Long;
  call.returns(std::move(values));
  call.returns(std::move(indices));
}

void max_pool1d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(formatted(pooled_sizes<true>(call, self, 1), self.dtype, self));
}

void max_pool1d_with_indices(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  returns_with_indices(call, as_image_of_height_1(call.env(), self, pooled_sizes<true>(call, self, 1)));
}

template <size_t kSpatial>
void max_pool(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(following(call, self, pooled_sizes<true>(call, self, kSpatial)));
}

template <size_t kSpatial>
void max_pool_with_indices(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  returns_with_indices(call, following(call, self, pooled_sizes<true>(call, self, kSpatial)));
}

void avg_pool1d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(as_image_of_height_1(call.env(), self, pooled_sizes<false>(call, self, 1)));
}

void avg_pool2d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(following(call, self, pooled_sizes<false>(call, self, 2)));
}

// The three-dimensional kernel is row-major only, and wants the kernel to fit without the padding.
void avg_pool3d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_spatial_rank(call, self, 3);
  const std::vector<int64_t> kernel = per_axis(call, "kernel_size", 3, {});
  for (size_t d = 0; d < 3; ++d) {
    require_at_least(call, self.sizes[self.sizes.size() - 3 + d], kernel[d], "size of the input, for this kernel");
  }
  call.returns(formatted(pooled_sizes<false>(call, self, 3), self.dtype, self));
}

std::vector<Expr> adaptive_sizes(ShapeCall& call, const TensorMeta& self, size_t spatial) {
  require_spatial_rank(call, self, spatial);
  std::vector<Expr> output = call.sym_ints("output_size");
  if (output.size() == 1) {
    output.resize(spatial, output[0]);
  }
  if (output.size() != spatial) {
    call.refuse(fmt::format("output_size has {} numbers for {} spatial axes", output.size(), spatial));
  }
  for (size_t d = 0; d < spatial; ++d) {
    require_at_least(call, self.sizes[self.sizes.size() - spatial + d], 1, "size of the input");
  }
  return with_spatial(self, output);
}

void adaptive_avg_pool1d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(as_image_of_height_1(call.env(), self, adaptive_sizes(call, self, 1)));
}

void adaptive_avg_pool2d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  call.returns(following(call, self, adaptive_sizes(call, self, 2)));
}

// The kernel is row-major only, but an output of one voxel is a mean.
void adaptive_avg_pool3d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  const std::vector<Expr> sizes = adaptive_sizes(call, self, 3);
  const bool single = std::all_of(sizes.end() - 3, sizes.end(), [](const Expr& size) { return size == Expr(1); });
  call.returns(single ? following(call, self, sizes) : formatted(sizes, self.dtype, self));
}

void adaptive_max_pool1d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  returns_with_indices(call, as_image_of_height_1(call.env(), self, adaptive_sizes(call, self, 1)));
}

void adaptive_max_pool2d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  returns_with_indices(call, following(call, self, adaptive_sizes(call, self, 2)));
}

void adaptive_max_pool3d(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  returns_with_indices(call, formatted(adaptive_sizes(call, self, 3), self.dtype, self));
}

// ── Pixels into channels and back ──

int64_t positive(const ShapeCall& call, const char* name) {
  const int64_t value = call.integer(name);
  if (value <= 0) {
    call.refuse(fmt::format("{} is {}, not positive", name, value));
  }
  return value;
}

void require_image(const ShapeCall& call, const TensorMeta& self) {
  if (self.dim() < 3) {
    call.refuse(fmt::format("the input has rank {}, not at least 3", self.dim()));
  }
}

void pixel_shuffle(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_image(call, self);
  const int64_t factor = positive(call, "upscale_factor");
  std::vector<Expr> sizes = self.sizes;
  const size_t channel = sizes.size() - 3;
  require_multiple(call, sizes[channel], factor * factor, "channels");
  sizes[channel] = floordiv(sizes[channel], factor * factor);
  sizes[channel + 1] = sizes[channel + 1] * factor;
  sizes[channel + 2] = sizes[channel + 2] * factor;
  call.returns(following(call, self, std::move(sizes)));
}

void pixel_unshuffle(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_image(call, self);
  const int64_t factor = positive(call, "downscale_factor");
  std::vector<Expr> sizes = self.sizes;
  const size_t channel = sizes.size() - 3;
  for (const size_t d : {channel + 1, channel + 2}) {
    require_multiple(call, sizes[d], factor, "size of the image");
    sizes[d] = floordiv(sizes[d], factor);
  }
  sizes[channel] = sizes[channel] * (factor * factor);
  call.returns(following(call, self, std::move(sizes)));
}

void channel_shuffle(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_image(call, self);
  require_multiple(call, self.sizes[1], call.sym_int("groups"), "channels");
  call.returns(following(call, self, self.sizes));
}

// ── Sliding blocks as columns and back ──

// How many blocks there are along each of the two axes.
std::vector<Expr> blocks(ShapeCall& call, const std::vector<Expr>& image) {
  const auto kernel = per_axis(call, "kernel_size", 2, {}), dilation = per_axis(call, "dilation", 2, {1}),
             padding = per_axis(call, "padding", 2, {0}), stride = per_axis(call, "stride", 2, {1});
  std::vector<Expr> counts;
  for (size_t d = 0; d < 2; ++d) {
    if (kernel[d] <= 0 || dilation[d] <= 0 || stride[d] <= 0 || padding[d] < 0) {
      call.refuse("kernel_size, dilation and stride are positive, padding is not negative");
    }
    const int64_t reach = dilation[d] * (kernel[d] - 1) + 1;
    const Expr padded = image[d] + 2 * padding[d];
    require_at_least(call, padded, reach, "size of the padded image, for this kernel");
    counts.push_back(floordiv(padded - reach, stride[d]) + 1);
  }
  return counts;
}

int64_t block_elements(const ShapeCall& call) {
  const auto kernel = per_axis(call, "kernel_size", 2, {});
  return kernel[0] * kernel[1];
}

void im2col(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_spatial_rank(call, self, 2);
  const std::vector<Expr> counts = blocks(call, {self.sizes.end() - 2, self.sizes.end()});
  std::vector<Expr> sizes(self.sizes.begin(), self.sizes.end() - 2);
  sizes.back() = sizes.back() * block_elements(call);
  sizes.push_back(counts[0] * counts[1]);
  call.returns(formatted(std::move(sizes), self.dtype, self));
}

void col2im(ShapeCall& call) {
  const TensorMeta self = call.meta("self");
  require_spatial_rank(call, self, 1);
  std::vector<Expr> image = call.sym_ints("output_size");
  if (image.size() == 1) {
    image.push_back(image[0]);
  }
  const std::vector<Expr> counts = blocks(call, image);
  require_equal(call, self.sizes.back(), counts[0] * counts[1], "number of blocks");
  std::vector<Expr> sizes(self.sizes.begin(), self.sizes.end() - 1);
  require_multiple(call, sizes.back(), block_elements(call), "size of a column");
  sizes.back() = floordiv(sizes.back(), block_elements(call));
  sizes.insert(sizes.end(), image.begin(), image.end());
  call.returns(formatted(std::move(sizes), self.dtype, self));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::max_pool1d", max_pool1d},
    {"aten::max_pool1d_with_indices", max_pool1d_with_indices},
    {"aten::max_pool2d", max_pool<2>},
    {"aten::max_pool2d_with_indices", max_pool_with_indices<2>},
    {"aten::max_pool3d", max_pool<3>},
    {"aten::max_pool3d_with_indices", max_pool_with_indices<3>},
    {"aten::avg_pool1d", avg_pool1d},
    {"aten::avg_pool2d", avg_pool2d},
    {"aten::avg_pool3d", avg_pool3d},
    {"aten::adaptive_avg_pool1d", adaptive_avg_pool1d},
    {"aten::adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"aten::_adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"aten::adaptive_avg_pool3d", adaptive_avg_pool3d},
    {"aten::_adaptive_avg_pool3d", adaptive_avg_pool3d},
    {"aten::adaptive_max_pool1d", adaptive_max_pool1d},
    {"aten::adaptive_max_pool2d", adaptive_max_pool2d},
    {"aten::adaptive_max_pool3d", adaptive_max_pool3d},
    {"aten::pixel_shuffle", pixel_shuffle},
    {"aten::pixel_unshuffle", pixel_unshuffle},
    {"aten::channel_shuffle", channel_shuffle},
    {"aten::native_channel_shuffle", channel_shuffle},
    {"aten::im2col", im2col},
    {"aten::col2im", col2im},
});

}  // namespace

std::span<const ShapeEntry> pooling() { return kTable; }

}  // namespace exporters::families
