#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"
#include "exporters/fake/spatial.h"

#include <fmt/format.h>

#include <array>

// ── Convolutions ──
namespace exporters::families {
namespace {

using c10::MemoryFormat;
using c10::ScalarType;

struct Convolution {
  TensorMeta input;
  TensorMeta weight;  // out, in / groups, kernel…; transposed: in, out / groups, kernel…
  size_t spatial = 0;
  std::vector<Expr> stride, padding, dilation, output_padding;
  bool transposed = false;
  bool same_padding = false;
  Expr groups = 1;
};

bool is_unbatched(const Convolution& conv) { return conv.input.sizes.size() == conv.spatial + 1; }

std::vector<Expr> one_per_axis(const ShapeCall& call, const char* name, size_t count, int64_t otherwise) {
  std::vector<Expr> values;
  if (call.has(name)) values = call.sym_ints(name);
  if (values.empty()) values.assign(1, otherwise);
  if (values.size() == 1) values.resize(count, values[0]);
  if (values.size() != count) {
    call.refuse(fmt::format("{} has {} numbers for {} spatial axes", name, values.size(), count));
  }
  return values;
}

bool has_argument(const ShapeCall& call, std::string_view name) {
  const auto& arguments = call.schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(), [&](const auto& a) { return a.name() == name; });
}

bool is_transposed(const ShapeCall& call) {
  if (has_argument(call, "transposed")) return call.boolean("transposed");
  return call.schema().name().find("conv_transpose") != std::string::npos;
}

void read_padding(const ShapeCall& call, Convolution& conv) {
  if (!call.value("padding").isString()) {
    conv.padding = one_per_axis(call, "padding", conv.spatial, 0);
    return;
  }
  const std::string mode = call.string("padding");
  if (mode != "same" && mode != "valid") {
    call.refuse(fmt::format("padding '{}'", mode), "It is 'same', 'valid' or numbers.");
  }
  conv.same_padding = mode == "same";
  conv.padding.assign(conv.spatial, 0);
}

Convolution read(const ShapeCall& call) {
  Convolution conv;
  conv.input = call.meta("input");
  conv.weight = call.meta("weight");
  if (conv.weight.dim() < 3) {
    call.refuse(fmt::format("weight has rank {}, not at least 3", conv.weight.dim()));
  }
  conv.spatial = conv.weight.sizes.size() - 2;
  if (conv.input.sizes.size() != conv.spatial + 2 && conv.input.sizes.size() != conv.spatial + 1) {
    call.refuse(fmt::format("the input has rank {} and weight {}", conv.input.dim(), conv.weight.dim()),
                "Give the input a batch (optional) and a channel axis before the spatial ones.");
  }
  conv.transposed = is_transposed(call);
  conv.stride = one_per_axis(call, "stride", conv.spatial, 1);
  conv.dilation = one_per_axis(call, "dilation", conv.spatial, 1);
  conv.output_padding = has_argument(call, "output_padding") ? one_per_axis(call, "output_padding", conv.spatial, 0)
                                                             : std::vector<Expr>(conv.spatial, 0);
  conv.groups = call.sym_int("groups");
  read_padding(call, conv);
  return conv;
}

void require_dtypes(const ShapeCall& call, const Convolution& conv) {
  if (conv.weight.dtype != conv.input.dtype) {
    call.refuse(fmt::format("the input has dtype {} and weight {}", c10::toString(conv.input.dtype),
                            c10::toString(conv.weight.dtype)),
                "Convert one of them.");
  }
  if (call.has("bias") && call.meta("bias").dtype != conv.input.dtype) {
    call.refuse(fmt::format("the input has dtype {} and bias {}", c10::toString(conv.input.dtype),
                            c10::toString(call.meta("bias").dtype)),
                "Convert one of them.");
  }
}

Expr out_channels(const Convolution& conv) {
  return conv.transposed ? conv.weight.sizes[1] * conv.groups : conv.weight.sizes[0];
}

void require_channels(ShapeCall& call, const Convolution& conv) {
  const Expr& channels = conv.input.sizes[is_unbatched(conv) ? 0 : 1];
  const Expr expected = conv.transposed ? conv.weight.sizes[0] : conv.weight.sizes[1] * conv.groups;
  require_equal(call, channels, expected, "channels of the input");
  require_multiple(call, conv.weight.sizes[0], conv.groups, "first size of weight");
  if (call.has("bias")) {
    const TensorMeta bias = call.meta("bias");
    if (bias.dim() != 1) {
      call.refuse(fmt::format("bias has rank {}, not 1", bias.dim()));
    }
    require_equal(call, bias.sizes[0], out_channels(conv), "size of bias");
  }
}

Expr transposed_size(const Convolution& conv, const Expr& size, size_t d) {
  const Expr reach = conv.dilation[d] * (conv.weight.sizes[d + 2] - 1) + 1;
  return (size - 1) * conv.stride[d] - 2 * conv.padding[d] + reach + conv.output_padding[d];
}

Expr spatial_size(ShapeCall& call, const Convolution& conv, size_t d) {
  const Expr& size = conv.input.sizes[conv.input.sizes.size() - conv.spatial + d];
  if (conv.transposed) {
    const Expr result = transposed_size(conv, size, d);
    require_at_least(call, result, 1, "size of the output");
    return result;
  }
  if (conv.same_padding) {
    if (conv.stride[d] != Expr(1)) {
      call.refuse("padding 'same' with a stride", "Pad explicitly.");
    }
    return size;
  }
  const Expr reach = conv.dilation[d] * (conv.weight.sizes[d + 2] - 1) + 1;
  const Expr padded = size + 2 * conv.padding[d];
  require_at_least(call, padded, reach, "size of the padded input, for this kernel");
  return floordiv(padded - reach, conv.stride[d]) + 1;
}

// Note [Layout of convolutions]
// Channels-last when the input or the weight is, as for ATen's oneDNN and native kernels on the CPU. In one spatial
// dimension the op runs as a two-dimensional one on a row-major input, but the weight may still look channels-last. The
// three-dimensional kernels for double and half are row-major only.
MemoryFormat output_format(const ShapeEnv& env, const Convolution& conv) {
  TensorMeta weight = conv.weight;
  TensorMeta input = conv.input;
  if (is_unbatched(conv)) {
    input = with_axis(input, 0);
  }
  if (conv.spatial == 1) {
    weight = with_axis(weight, 2);
    return suggest_memory_format(env, weight);
  }
  if (conv.spatial == 3 && (input.dtype == ScalarType::Double || input.dtype == ScalarType::Half)) {
    return MemoryFormat::Contiguous;
  }
  const MemoryFormat format = suggest_memory_format(env, input);
  return format != MemoryFormat::Contiguous ? format : suggest_memory_format(env, weight);
}

void convolution(ShapeCall& call) {
  const Convolution conv = read(call);
  require_dtypes(call, conv);
  require_channels(call, conv);
  std::vector<Expr> sizes{is_unbatched(conv) ? Expr(1) : conv.input.sizes[0], out_channels(conv)};
  if (conv.spatial == 1) {
    sizes.emplace_back(1);
  }
  for (size_t d = 0; d < conv.spatial; ++d) {
    sizes.push_back(spatial_size(call, conv, d));
  }
  TensorMeta result = formatted(std::move(sizes), conv.input.dtype, conv.input, output_format(call.env(), conv));
  if (conv.spatial == 1) {
    drop_axis(result, 2);
  }
  if (is_unbatched(conv)) {
    drop_axis(result, 0);
  }
  call.returns(std::move(result));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::convolution", convolution},
    {"aten::_convolution", convolution},
    {"aten::conv1d", convolution},
    {"aten::conv2d", convolution},
    {"aten::conv3d", convolution},
    {"aten::conv_transpose1d", convolution},
    {"aten::conv_transpose2d.input", convolution},
    {"aten::conv_transpose3d.input", convolution},
});

}  // namespace

std::span<const ShapeEntry> convolution() { return kTable; }

}  // namespace exporters::families
