// Convolutions, pools, resampling.
#include "exporters/onnx/translations/table.h"

#include <algorithm>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

// A list argument of one number stands for every spatial axis.
std::vector<int64_t> spatial(std::vector<int64_t> numbers, size_t axes) {
  return numbers.size() == 1 ? std::vector<int64_t>(axes, numbers[0]) : numbers;
}

std::vector<int64_t> both_sides(const std::vector<int64_t>& pads) {
  std::vector<int64_t> result = pads;
  result.insert(result.end(), pads.begin(), pads.end());
  return result;
}

// ── Convolutions ──

struct Padding {
  std::vector<int64_t> pads;
  bool same = false;  // output as large as the input
};

Padding padding_of(const OpCall& call, size_t axes) {
  const Argument& argument = call.arg("padding");
  if (const auto* text = argument.get_if<std::string>()) {
    return {std::vector<int64_t>(axes, 0), *text == "same"};
  }
  return {spatial(call.integers("padding"), axes)};
}

// torch's "same" puts the odd one after.
std::vector<int64_t> same_pads(const OpCall& call, const std::vector<int64_t>& dilation, size_t axes) {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  for (size_t i = 0; i < axes; ++i) {
    const auto kernel = call.meta("weight").sizes.at(2 + i).as_int();
    if (!kernel) {
      call.refuse("a kernel of symbolic size is not supported");
    }
    const int64_t total = dilation[i] * (*kernel - 1);
    before.push_back(total / 2);
    after.push_back(total - total / 2);
  }
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

OnnxValue convolve(Context& context, const OpCall& call, bool transposed, std::vector<int64_t> output_padding) {
  const size_t axes = call.meta("weight").sizes.size() - 2;
  const c10::ScalarType dtype = Context::compute_dtype(call.result().dtype);
  const bool batched = call.meta("input").sizes.size() == axes + 2;
  OnnxValue x = call.operand("input", dtype);
  if (!batched) {
    x = context.unsqueeze(x, {0});
  }
  const std::vector<int64_t> dilation = spatial(call.integers("dilation"), axes);
  const Padding padding = padding_of(call, axes);
  Attrs attrs = {{"strides", spatial(call.integers("stride"), axes)},
                 {"dilations", dilation},
                 {"group", call.integer("groups")},
                 {"pads", padding.same ? same_pads(call, dilation, axes) : both_sides(padding.pads)}};
  if (transposed) {
    attrs.emplace_back("output_padding", spatial(std::move(output_padding), axes));
  }
  OnnxValues inputs = {x, call.operand("weight", dtype)};
  if (call.has("bias")) {
    inputs.push_back(call.operand("bias", dtype));
  }
  const OnnxValue y = context.emit(transposed ? "ConvTranspose" : "Conv", inputs, attrs);
  return batched ? y : context.squeeze(y, {0});
}

OnnxValues aten_conv(Context& context, const OpCall& call) { return {convolve(context, call, false, {})}; }
OnnxValues aten_conv_transpose(Context& context, const OpCall& call) {
  return {convolve(context, call, true, call.integers("output_padding"))};
}
OnnxValues aten_convolution(Context& context, const OpCall& call) {
  return {convolve(context, call, call.boolean("transposed"), call.integers("output_padding"))};
}

// ── Pools ──

struct Window {
  size_t axes;
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
};

Window window_of(const OpCall& call, size_t axes) {
  Window window{axes, spatial(call.integers("kernel_size"), axes), {}, spatial(call.integers("padding"), axes)};
  const std::vector<int64_t> stride = call.integers("stride");
  window.stride = stride.empty() ? window.kernel : spatial(stride, axes);
  return window;
}

OnnxValue batched(Context& context, const OpCall& call, const OnnxValue& x, size_t axes) {
  return call.meta("self").sizes.size() == axes + 2 ? x : context.unsqueeze(x, {0});
}

OnnxValue unbatched(Context& context, const OpCall& call, const OnnxValue& y, size_t axes) {
  return call.meta("self").sizes.size() == axes + 2 ? y : context.squeeze(y, {0});
}

template <size_t kAxes>
OnnxValues aten_max_pool(Context& context, const OpCall& call) {
  if (call.node().outputs().size() > 1 && call.output(1).has_users()) {
    call.refuse("the indices of max_pool have another meaning in ONNX and are not supported");
  }
  const Window window = window_of(call, kAxes);
  const OnnxValue x = batched(context, call, context.computable(call.tensor("self")), kAxes);
  const OnnxValue y = context.emit("MaxPool", {x},
                                   {{"kernel_shape", window.kernel},
                                    {"strides", window.stride},
                                    {"pads", both_sides(window.padding)},
                                    {"dilations", spatial(call.integers("dilation"), kAxes)},
                                    {"ceil_mode", call.boolean("ceil_mode")}});
  return {unbatched(context, call, y, kAxes)};
}

template <size_t kAxes>
OnnxValues aten_avg_pool(Context& context, const OpCall& call) {
  if (call.has("divisor_override")) {
    call.refuse("divisor_override is not supported", "Multiply the result by kernel size over divisor.");
  }
  const Window window = window_of(call, kAxes);
  const bool ceil = call.boolean("ceil_mode");
  const bool padded = std::any_of(window.padding.begin(), window.padding.end(), [](int64_t p) { return p != 0; });
  if (ceil && padded && call.boolean("count_include_pad")) {
    call.refuse("ceil_mode with counted padding divides differently in ONNX", "Pad the tensor before the pool.");
  }
  const OnnxValue x = batched(context, call, context.computable(call.tensor("self")), kAxes);
  const OnnxValue y = context.emit("AveragePool", {x},
                                   {{"kernel_shape", window.kernel},
                                    {"strides", window.stride},
                                    {"pads", both_sides(window.padding)},
                                    {"ceil_mode", ceil},
                                    {"count_include_pad", call.boolean("count_include_pad")}});
  return {unbatched(context, call, y, kAxes)};
}

// Output i covers [floor(i·in/out), ceil((i+1)·in/out)). Size 1 is the mean; where out divides in, the windows are
// equal.
template <size_t kAxes, OpName kPool, OpName kReduce>
OnnxValue adaptive_pool(Context& context, const OpCall& call) {
  const Sizes& sizes = call.meta("self").sizes;
  const std::vector<int64_t> output = spatial(call.integers("output_size"), kAxes);
  const int64_t first = static_cast<int64_t>(sizes.size() - kAxes);
  const OnnxValue x = context.computable(call.tensor("self"));
  if (std::all_of(output.begin(), output.end(), [](int64_t size) { return size == 1; })) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < kAxes; ++i) {
      axes.push_back(first + static_cast<int64_t>(i));
    }
    return context.emit(kReduce.str(), {x, context.constant(axes)}, {{"keepdims", 1}});
  }
  std::vector<int64_t> kernel;
  for (size_t i = 0; i < kAxes; ++i) {
    const auto size = sizes[static_cast<size_t>(first) + i].as_int();
    if (!size || *size % output[i] != 0) {
      call.refuse("adaptive pooling needs a fixed input size that the output size divides, or output size 1",
                  "Make the spatial axes static, or use a plain pool.");
    }
    kernel.push_back(*size / output[i]);
  }
  const OnnxValue y =
      context.emit(kPool.str(), {batched(context, call, x, kAxes)}, {{"kernel_shape", kernel}, {"strides", kernel}});
  return unbatched(context, call, y, kAxes);
}

template <size_t kAxes>
OnnxValues aten_adaptive_avg_pool(Context& context, const OpCall& call) {
  return {adaptive_pool<kAxes, "AveragePool", "ReduceMean">(context, call)};
}

template <size_t kAxes>
OnnxValues aten_adaptive_max_pool(Context& context, const OpCall& call) {
  if (call.node().outputs().size() > 1 && call.output(1).has_users()) {
    call.refuse("the indices of adaptive_max_pool are not supported");
  }
  return {adaptive_pool<kAxes, "MaxPool", "ReduceMax">(context, call)};
}

// ── Resampling ──

OnnxValue resize(Context& context, const OpCall& call, Attrs attrs) {
  const OnnxValue x = context.computable(call.tensor(call.has("input") ? "input" : "self"));  // .vec names it input
  return context.emit("Resize", {x, {}, {}, context.sizes(call.result().sizes)}, std::move(attrs));
}

// torch scales by the given factor where there is one, ONNX by the ratio of sizes: the same unless the product was
// rounded.
void refuse_rounded_scales(const OpCall& call) {
  for (const char* name : {"scales", "scales_h", "scales_w", "scale_factors"}) {
    if (!call.has(name)) {
      continue;
    }
    const Argument& argument = call.arg(name);
    const Argument::List list = argument.is_list() ? argument.list() : Argument::List{argument};
    for (const Argument& item : list) {
      const auto* scale = item.get_if<double>();
      if (scale != nullptr && *scale != static_cast<double>(static_cast<int64_t>(*scale))) {
        call.refuse("resampling by a factor that is not a whole number depends on rounding",
                    "Give the output size instead.");
      }
    }
  }
}

OnnxValues aten_upsample_nearest(Context& context, const OpCall& call) {
  refuse_rounded_scales(call);
  return {resize(context, call,
                 {{"mode", "nearest"}, {"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}})};
}

OnnxValues aten_upsample_nearest_exact(Context& context, const OpCall& call) {
  refuse_rounded_scales(call);
  return {resize(
      context, call,
      {{"mode", "nearest"}, {"coordinate_transformation_mode", "half_pixel"}, {"nearest_mode", "round_prefer_ceil"}})};
}

const char* coordinates(const OpCall& call) { return call.boolean("align_corners") ? "align_corners" : "half_pixel"; }

OnnxValues aten_upsample_linear(Context& context, const OpCall& call) {
  refuse_rounded_scales(call);
  return {resize(context, call, {{"mode", "linear"}, {"coordinate_transformation_mode", coordinates(call)}})};
}

OnnxValues aten_upsample_cubic(Context& context, const OpCall& call) {
  refuse_rounded_scales(call);
  return {resize(context, call,
                 {{"mode", "cubic"}, {"coordinate_transformation_mode", coordinates(call)}, {"cubic_coeff_a", -0.75}})};
}

OnnxValues aten_pixel_shuffle(Context& context, const OpCall& call) {
  const Sizes& from = call.meta("self").sizes;
  const Sizes& to = call.result().sizes;
  const int64_t factor = call.integer("upscale_factor");
  const size_t lead = from.size() - 3;
  Sizes split(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(lead));
  split.insert(split.end(), {to[lead], factor, factor, from[lead + 1], from[lead + 2]});
  std::vector<int64_t> perm;
  for (size_t i = 0; i < lead; ++i) {
    perm.push_back(static_cast<int64_t>(i));
  }
  const int64_t c = static_cast<int64_t>(lead);
  perm.insert(perm.end(), {c, c + 3, c + 1, c + 4, c + 2});
  Sizes swapped;
  for (int64_t axis : perm) {
    swapped.push_back(split[static_cast<size_t>(axis)]);
  }
  return {context.reshape(context.transpose(context.reshape(call.tensor("self"), from, split), perm), swapped, to)};
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.conv1d", 18, aten_conv, "Conv Squeeze Unsqueeze", "padding \"same\" with a kernel of symbolic size"},
    {"aten.conv2d", 18, aten_conv, "Conv", "padding \"same\" with a kernel of symbolic size"},
    {"aten.conv3d", 18, aten_conv, "Conv", "padding \"same\" with a kernel of symbolic size"},
    {"aten.conv_transpose1d", 18, aten_conv_transpose, "ConvTranspose"},
    {"aten.conv_transpose2d", 18, aten_conv_transpose, "ConvTranspose"},
    {"aten.conv_transpose3d", 18, aten_conv_transpose, "ConvTranspose"},
    {"aten.convolution", 18, aten_convolution, "Conv ConvTranspose"},
    {"aten.max_pool1d", 18, aten_max_pool<1>, "MaxPool"},
    {"aten.max_pool2d", 18, aten_max_pool<2>, "MaxPool"},
    {"aten.max_pool3d", 18, aten_max_pool<3>, "MaxPool"},
    {"aten.max_pool2d_with_indices", 18, aten_max_pool<2>, "MaxPool", "its indices"},
    {"aten.avg_pool1d", 18, aten_avg_pool<1>, "AveragePool", "ceil_mode with counted padding"},
    {"aten.avg_pool2d", 18, aten_avg_pool<2>, "AveragePool", "divisor_override; ceil_mode with counted padding"},
    {"aten.avg_pool3d", 18, aten_avg_pool<3>, "AveragePool", "divisor_override; ceil_mode with counted padding"},
    {"aten.adaptive_avg_pool1d", 18, aten_adaptive_avg_pool<1>, "AveragePool ReduceMean",
     "sizes other than 1 where the input's is symbolic or no multiple"},
    {"aten.adaptive_avg_pool2d", 18, aten_adaptive_avg_pool<2>, "AveragePool ReduceMean",
     "sizes other than 1 where the input's is symbolic or no multiple"},
    {"aten._adaptive_avg_pool2d", 18, aten_adaptive_avg_pool<2>, "AveragePool ReduceMean",
     "sizes other than 1 where the input's is symbolic or no multiple"},
    {"aten.adaptive_avg_pool3d", 18, aten_adaptive_avg_pool<3>, "AveragePool ReduceMean",
     "sizes other than 1 where the input's is symbolic or no multiple"},
    {"aten.adaptive_max_pool1d", 18, aten_adaptive_max_pool<1>, "MaxPool ReduceMax",
     "its indices; sizes other than 1 where the input's is symbolic or no multiple"},
    {"aten.adaptive_max_pool2d", 18, aten_adaptive_max_pool<2>, "MaxPool ReduceMax",
     "its indices; sizes other than 1 where the input's is symbolic or no multiple"},
    {"aten.upsample_nearest1d", 18, aten_upsample_nearest, "Resize", "factors that are no whole numbers"},
    {"aten.upsample_nearest2d", 18, aten_upsample_nearest, "Resize", "factors that are no whole numbers"},
    {"aten.upsample_nearest3d", 18, aten_upsample_nearest, "Resize", "factors that are no whole numbers"},
    {"aten._upsample_nearest_exact1d", 18, aten_upsample_nearest_exact, "Resize", "factors that are no whole numbers"},
    {"aten._upsample_nearest_exact2d", 18, aten_upsample_nearest_exact, "Resize", "factors that are no whole numbers"},
    {"aten.upsample_linear1d", 18, aten_upsample_linear, "Resize", "factors that are no whole numbers"},
    {"aten.upsample_bilinear2d", 18, aten_upsample_linear, "Resize", "factors that are no whole numbers"},
    {"aten.upsample_trilinear3d", 18, aten_upsample_linear, "Resize", "factors that are no whole numbers"},
    {"aten.upsample_bicubic2d", 18, aten_upsample_cubic, "Resize", "factors that are no whole numbers"},
    {"aten.pixel_shuffle", 18, aten_pixel_shuffle, "Reshape Transpose"},
};

}  // namespace

std::span<const OnnxTranslationEntry> conv_translations() { return kEntries; }

}  // namespace exporters::onnx
