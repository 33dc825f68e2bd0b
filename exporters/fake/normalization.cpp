#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <ATen/OpMathType.h>
#include <fmt/format.h>

#include <array>

// ── Normalization: layers of fixed statistics or statistics of the sample; never of the batch ──
namespace exporters::families {
namespace {

using c10::ScalarType;

void require_floating(const ShapeCall& call, const TensorMeta& input) {
  if (!c10::isFloatingType(input.dtype) && !c10::isComplexType(input.dtype)) {
    call.refuse(fmt::format("the input has dtype {}, not a floating one", c10::toString(input.dtype)),
                "Convert it first.");
  }
}

// The last axes of the input are exactly the normalized shape, and so is an affine parameter.
size_t require_normalized_shape(ShapeCall& call, const TensorMeta& input) {
  const std::vector<Expr> shape = call.sym_ints("normalized_shape");
  if (shape.empty() || shape.size() > input.sizes.size()) {
    call.refuse(fmt::format("normalized_shape has {} axes, the input {}", shape.size(), input.sizes.size()));
  }
  const size_t outer = input.sizes.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    require_equal(call, input.sizes[outer + d], shape[d], "an axis of normalized_shape");
  }
  for (const char* name : {"weight", "bias"}) {
    if (!call.has(name)) continue;
    const TensorMeta parameter = call.meta(name);
    if (parameter.sizes.size() != shape.size()) {
      call.refuse(
          fmt::format("{} has rank {}, not that of normalized_shape, {}", name, parameter.sizes.size(), shape.size()));
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      require_equal(call, parameter.sizes[d], shape[d], name);
    }
  }
  return outer;
}

// Whether a low-precision input has parameters of float: then the statistics are float as well.
// Any other mixture is refused, as the CPU kernels do.
bool mixes_dtypes(const ShapeCall& call, const TensorMeta& input, std::initializer_list<const char*> parameters) {
  bool mixed = false;
  for (const char* name : parameters) {
    if (!call.has(name) || call.meta(name).dtype == input.dtype) continue;
    if (!c10::isReducedFloatingType(input.dtype) || call.meta(name).dtype != ScalarType::Float) {
      call.refuse(fmt::format("the input has dtype {} and {} {}", c10::toString(input.dtype), name,
                              c10::toString(call.meta(name).dtype)),
                  "Use one dtype, or float parameters with a bfloat16 or half input.");
    }
    mixed = true;
  }
  return mixed;
}

std::vector<Expr> statistics_sizes(const TensorMeta& input, size_t outer) {
  std::vector<Expr> sizes(input.sizes.begin(), input.sizes.begin() + static_cast<std::ptrdiff_t>(outer));
  sizes.resize(input.sizes.size(), 1);
  return sizes;
}

void layer_norm(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  require_floating(call, input);
  require_normalized_shape(call, input);
  mixes_dtypes(call, input, {"weight", "bias"});
  call.returns(formatted(input.sizes, input.dtype, input));
}

void native_layer_norm(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  require_floating(call, input);
  const size_t outer = require_normalized_shape(call, input);
  const bool mixed = mixes_dtypes(call, input, {"weight", "bias"});
  const TensorMeta statistics =
      formatted(statistics_sizes(input, outer), mixed ? ScalarType::Float : input.dtype, input);
  call.returns(formatted(input.sizes, input.dtype, input));
  call.returns(statistics);
  call.returns(statistics);
}

TensorMeta rms_normed(ShapeCall& call, const TensorMeta& input) {
  return formatted(input.sizes, input.dtype, input, suggest_memory_format(call.env(), input));
}

void rms_norm(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  require_floating(call, input);
  require_normalized_shape(call, input);
  call.returns(rms_normed(call, input));
}

void fused_rms_norm(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  require_floating(call, input);
  const size_t outer = require_normalized_shape(call, input);
  call.returns(rms_normed(call, input));
  call.returns(formatted(statistics_sizes(input, outer), at::toOpMathType(input.dtype), input));
}

// Parameters with one element for each channel.
void require_channels(ShapeCall& call, const Expr& channels, std::initializer_list<const char*> parameters) {
  for (const char* name : parameters) {
    if (!call.has(name)) continue;
    const TensorMeta parameter = call.meta(name);
    if (parameter.sizes.size() != 1) {
      call.refuse(fmt::format("{} has rank {}, not 1", name, parameter.sizes.size()));
    }
    require_equal(call, parameter.sizes[0], channels, name);
  }
}

void require_rank(const ShapeCall& call, const TensorMeta& input, size_t least) {
  if (input.sizes.size() < least) {
    call.refuse(fmt::format("the input has rank {}, not at least {}", input.sizes.size(), least));
  }
}

void require_groups(ShapeCall& call, const Expr& channels, int64_t groups) {
  if (groups <= 0) {
    call.refuse(fmt::format("{} groups", groups));
  }
  require_multiple(call, channels, groups, "channels");
}

void group_norm(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  require_floating(call, input);
  require_rank(call, input, 2);
  require_groups(call, input.sizes[1], call.integer("num_groups"));
  require_channels(call, input.sizes[1], {"weight", "bias"});
  mixes_dtypes(call, input, {"weight", "bias"});
  call.returns(formatted(input.sizes, input.dtype, input, suggest_memory_format(call.env(), input)));
}

void native_group_norm(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  require_floating(call, input);
  const Expr channels = call.sym_int("C");
  const int64_t groups = call.integer("group");
  require_groups(call, channels, groups);
  require_channels(call, channels, {"weight", "bias"});
  const bool mixed = mixes_dtypes(call, input, {"weight", "bias"});
  const TensorMeta statistics = formatted({call.sym_int("N"), groups}, mixed ? ScalarType::Float : input.dtype, input);
  call.returns(formatted(input.sizes, input.dtype, input, suggest_memory_format(call.env(), input)));
  call.returns(statistics);
  call.returns(statistics);
}

[[noreturn]] void refuse_training(const ShapeCall& call) {
  call.refuse("batch normalization in training mode takes its statistics from the batch and changes the module",
              "Call eval() on the model before the export.");
}

TensorMeta batch_normed(ShapeCall& call, const TensorMeta& input) {
  require_floating(call, input);
  require_rank(call, input, 2);
  require_channels(call, input.sizes[1], {"weight", "bias", "running_mean", "running_var"});
  return formatted(input.sizes, input.dtype, input, suggest_memory_format(call.env(), input));
}

void batch_norm(ShapeCall& call) {
  // Without running statistics it normalizes by the batch's, whatever the flag says.
  if (call.boolean("training") || !call.has("running_mean") || !call.has("running_var")) {
    refuse_training(call);
  }
  call.returns(batch_normed(call, call.meta("input")));
}

// With saved statistics, which inference leaves empty.
void native_batch_norm(ShapeCall& call) {
  const bool training = std::any_of(call.schema().arguments().begin(), call.schema().arguments().end(),
                                    [](const auto& argument) { return argument.name() == "training"; }) &&
                        call.boolean("training");
  if (training || !call.has("running_mean") || !call.has("running_var")) {
    refuse_training(call);
  }
  const TensorMeta input = call.meta("input");
  const bool mixed = mixes_dtypes(call, input, {"weight", "bias", "running_mean", "running_var"});
  const TensorMeta statistics = formatted({0}, mixed ? ScalarType::Float : input.dtype, input);
  call.returns(batch_normed(call, input));
  call.returns(statistics);
  call.returns(statistics);
}

// Statistics of each sample and channel, or the running ones; it reshapes to one batch, so the layout is row-major.
void instance_norm(ShapeCall& call) {
  const TensorMeta input = call.meta("input");
  require_floating(call, input);
  require_rank(call, input, 2);
  if (call.boolean("use_input_stats") && (call.has("running_mean") || call.has("running_var"))) {
    refuse_training(call);
  }
  if (!call.boolean("use_input_stats") && !(call.has("running_mean") && call.has("running_var"))) {
    call.refuse("neither the input's statistics nor running ones are to be used");
  }
  require_channels(call, input.sizes[1], {"weight", "bias", "running_mean", "running_var"});
  call.returns(formatted(input.sizes, input.dtype, input));
}

// A weight of norm g along one axis, in the direction of v; and the norms of v.
void weight_norm(ShapeCall& call) {
  const TensorMeta v = call.meta("v"), g = call.meta("g");
  if (g.dim() != v.dim()) {
    call.refuse("the norms have another rank than the weight");
  }
  call.returns(formatted(v.sizes, v.dtype, v));
  call.returns(formatted(g.sizes, g.dtype, v));
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::_weight_norm_interface", weight_norm},
    {"aten::layer_norm", layer_norm},
    {"aten::native_layer_norm", native_layer_norm},
    {"aten::rms_norm", rms_norm},
    {"aten::_fused_rms_norm", fused_rms_norm},
    {"aten::group_norm", group_norm},
    {"aten::native_group_norm", native_group_norm},
    {"aten::batch_norm", batch_norm},
    {"aten::native_batch_norm", native_batch_norm},
    {"aten::_native_batch_norm_legit", native_batch_norm},
    {"aten::_native_batch_norm_legit_no_training", native_batch_norm},
    {"aten::instance_norm", instance_norm},
});

}  // namespace

std::span<const ShapeEntry> normalization() { return kTable; }

}  // namespace exporters::families
