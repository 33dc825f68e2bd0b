#include "exporters/fake/checks.h"
#include "exporters/fake/families.h"
#include "exporters/fake/layout.h"

#include <fmt/format.h>

#include <array>

// ── Attention: scaled_dot_product_attention and what lies below it ──
namespace exporters::families {
namespace {

using c10::ScalarType;

// The operands of one call; axes are counted from the end: -3 heads, -2 sequence, -1 features.
struct Attention {
  TensorMeta query, key, value;
  std::optional<TensorMeta> mask;
  bool causal = false;
  bool grouped = false;  // fewer heads for keys and values than for queries
  double dropout = 0;
};

const Expr& axis(const TensorMeta& meta, int64_t from_end) {
  return meta.sizes[meta.sizes.size() - static_cast<size_t>(from_end)];
}

Attention read(const ShapeCall& call) {
  Attention a{call.meta("query"), call.meta("key"), call.meta("value"), std::nullopt};
  if (call.has("attn_mask")) a.mask = call.meta("attn_mask");
  a.causal = call.boolean("is_causal");
  a.dropout = call.floating("dropout_p");
  const auto& arguments = call.schema().arguments();
  a.grouped = std::any_of(arguments.begin(), arguments.end(), [](const auto& x) { return x.name() == "enable_gqa"; }) &&
              call.boolean("enable_gqa");
  return a;
}

void require_dtypes(const ShapeCall& call, const Attention& a) {
  if (a.key.dtype != a.query.dtype || a.value.dtype != a.query.dtype || !c10::isFloatingType(a.query.dtype)) {
    call.refuse(fmt::format("query, key and value have dtypes {}, {} and {}, not one floating dtype",
                            c10::toString(a.query.dtype), c10::toString(a.key.dtype), c10::toString(a.value.dtype)));
  }
  if (a.mask && a.mask->dtype != ScalarType::Bool && a.mask->dtype != ScalarType::Float &&
      a.mask->dtype != a.query.dtype) {
    call.refuse(fmt::format("the mask has dtype {}; it must be bool, float or the query's {}",
                            c10::toString(a.mask->dtype), c10::toString(a.query.dtype)),
                "Convert the mask.");
  }
}

void require_ranks(const ShapeCall& call, const Attention& a) {
  for (const TensorMeta* operand : {&a.query, &a.key, &a.value}) {
    if (operand->dim() < 2 || (a.grouped && operand->dim() < 3)) {
      call.refuse(fmt::format("an operand has rank {}", operand->dim()), "Give it batch, heads, sequence, features.");
    }
  }
  if (a.mask && a.mask->dim() < 2) {
    call.refuse(fmt::format("the mask has rank {}, not at least 2", a.mask->dim()),
                "Give it one axis for queries and one for keys.");
  }
}

// Each head of keys or values serves a group of query heads.
void repeat_heads(ShapeCall& call, const Attention& a, TensorMeta& operand) {
  const Expr heads = axis(operand, 3);
  require_multiple(call, axis(a.query, 3), heads, "heads of the query");
  operand.sizes[operand.sizes.size() - 3] = axis(a.query, 3);
}

std::vector<Expr> batch_sizes(const TensorMeta& meta) { return {meta.sizes.begin(), meta.sizes.end() - 2}; }

// Batch axes, heads among them, meet as in matmul.
std::vector<Expr> broadcast_batches(ShapeEnv& env, std::initializer_list<const TensorMeta*> operands) {
  std::vector<TensorMeta> batches;
  for (const TensorMeta* operand : operands) {
    batches.push_back(dense(batch_sizes(*operand), operand->dtype));
  }
  return broadcast_sizes(env, batches);
}

// The scores must not grow: the mask is added in place.
void require_mask_fits(ShapeCall& call, const TensorMeta& mask, const std::vector<Expr>& scores) {
  if (mask.sizes.size() > scores.size()) {
    call.refuse(fmt::format("the mask has rank {}, the attention scores {}", mask.sizes.size(), scores.size()));
  }
  const size_t skip = scores.size() - mask.sizes.size();
  for (size_t d = 0; d < mask.sizes.size(); ++d) {
    const Expr met = call.env().broadcast(scores[skip + d], mask.sizes[d]);
    require_equal(call, met, scores[skip + d], "attention scores, broadcast with the mask");
  }
}

std::vector<Expr> output_sizes(ShapeCall& call, const Attention& a) {
  ShapeEnv& env = call.env();
  require_equal(call, axis(a.query, 1), axis(a.key, 1), "features of query and key");
  require_equal(call, axis(a.key, 2), axis(a.value, 2), "length of key and value");
  TensorMeta key = a.key, value = a.value;
  if (a.grouped) {
    repeat_heads(call, a, key);
    repeat_heads(call, a, value);
  }
  std::vector<Expr> scores = broadcast_batches(env, {&a.query, &key});
  scores.push_back(axis(a.query, 2));
  scores.push_back(axis(a.key, 2));
  if (a.mask) {
    require_mask_fits(call, *a.mask, scores);
  }
  TensorMeta weights = dense(scores, a.query.dtype);
  std::vector<Expr> sizes = broadcast_batches(env, {&weights, &value});
  sizes.push_back(axis(a.query, 2));
  sizes.push_back(axis(a.value, 1));
  return sizes;
}

// Note [Which attention kernel]
// The CPU has two: a fused one, whose output has the memory layout of the query, and plain matmuls, whose output is
// row-major. These are the conditions of the fused one (sdp_utils_cpp, use_flash_attention_cpp). They decide the layout
// only, so they are asked at typical sizes and leave no guards.
class KernelChoice {
 public:
  KernelChoice(const ShapeEnv& env, const Attention& attention) : env_(env), a_(attention) {}

  bool fused() const {
    return a_.dropout == 0 && has_rank_4() && heads_match() && mask_fits() &&
           same(axis(a_.query, 1), axis(a_.key, 1)) && same(axis(a_.query, 1), axis(a_.value, 1)) &&
           !is(axis(a_.query, 2), 0) && !is(axis(a_.key, 2), 0) && last_strides_are_1();
  }

 private:
  bool is(const Expr& expr, int64_t value) const { return typical(env_, expr) == value; }
  bool same(const Expr& x, const Expr& y) const { return typical(env_, x) == typical(env_, y); }

  bool has_rank_4() const { return a_.query.dim() == 4 && a_.key.dim() == 4 && a_.value.dim() == 4; }

  bool heads_match() const {
    const bool batches = same(a_.query.sizes[0], a_.key.sizes[0]) && same(a_.query.sizes[0], a_.value.sizes[0]);
    const bool heads =
        same(a_.key.sizes[1], a_.value.sizes[1]) && (a_.grouped || same(a_.query.sizes[1], a_.key.sizes[1]));
    return batches && !is(a_.query.sizes[0], 0) && heads;
  }

  bool mask_fits() const { return !a_.mask || a_.mask->dim() == 2 || a_.mask->dim() == 4; }

  bool last_strides_are_1() const {
    return is(a_.query.strides[3], 1) && is(a_.key.strides[3], 1) && is(a_.value.strides[3], 1);
  }

  const ShapeEnv& env_;
  const Attention& a_;
};

void scaled_dot_product_attention(ShapeCall& call) {
  const Attention a = read(call);
  require_dtypes(call, a);
  require_ranks(call, a);
  TensorMeta output = dense(output_sizes(call, a), a.query.dtype, a.query.device);
  if (KernelChoice(call.env(), a).fused()) {
    output.strides = preserved_strides(call.env(), call.meta("query"));
  } else if (a.causal && a.mask) {
    call.refuse("is_causal and a mask together", "Put the causal part into the mask.");
  }
  call.returns(std::move(output));
}

// The plain path, which gives the attention weights too.
void attention_math(ShapeCall& call) {
  const Attention a = read(call);
  require_dtypes(call, a);
  require_ranks(call, a);
  const std::vector<Expr> sizes = output_sizes(call, a);
  std::vector<Expr> weights(sizes.begin(), sizes.end() - 1);
  weights.push_back(axis(a.key, 2));
  call.returns(dense(sizes, a.query.dtype, a.query.device));
  call.returns(dense(weights, a.query.dtype, a.query.device));
}

// The fused path, which gives the logarithm of each row's sum of exponentials too: (batch, queries, heads), seen as
// (batch, heads, queries), in float for low-precision inputs.
void flash_attention_for_cpu(ShapeCall& call) {
  const Attention a = read(call);
  require_dtypes(call, a);
  require_ranks(call, a);
  if (a.query.dim() != 4 || a.key.dim() != 4 || a.value.dim() != 4) {
    call.refuse("the operands must have rank 4");
  }
  Attention grouped = a;
  grouped.grouped = true;
  TensorMeta output = dense(output_sizes(call, grouped), a.query.dtype, a.query.device);
  output.strides = preserved_strides(call.env(), call.meta("query"));
  const Expr batch = a.query.sizes[0], heads = a.query.sizes[1], queries = a.query.sizes[2];
  TensorMeta sums =
      dense({batch, queries, heads}, c10::isReducedFloatingType(a.query.dtype) ? ScalarType::Float : a.query.dtype,
            a.query.device);
  std::swap(sums.sizes[1], sums.sizes[2]);
  std::swap(sums.strides[1], sums.strides[2]);
  call.returns(std::move(output));
  call.returns(std::move(sums));
}

void refuse_device_kernel(ShapeCall& call) {
  call.refuse("a kernel of one device, chosen at run time, cannot be exported", "Call scaled_dot_product_attention.");
}

void refuse_fused_layer(ShapeCall& call) {
  call.refuse("the fused inference path of a whole transformer layer is not exported",
              "Switch it off (at::globalContext() or requires_grad on the parameters), so that the layer runs as ops.");
}

constexpr auto kTable = std::to_array<ShapeEntry>({
    {"aten::scaled_dot_product_attention", scaled_dot_product_attention},
    {"aten::_scaled_dot_product_attention_math", attention_math},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu},
    {"aten::_scaled_dot_product_flash_attention", refuse_device_kernel},
    {"aten::_scaled_dot_product_efficient_attention", refuse_device_kernel},
    {"aten::_scaled_dot_product_cudnn_attention", refuse_device_kernel},
    {"aten::_scaled_dot_product_fused_attention_overrideable", refuse_device_kernel},
    {"aten::_native_multi_head_attention", refuse_fused_layer},
    {"aten::_transformer_encoder_layer_fwd", refuse_fused_layer},
});

}  // namespace

std::span<const ShapeEntry> attention() { return kTable; }

}  // namespace exporters::families
