// Scaled dot-product attention.
#include "exporters/onnx/translations/cache_states.h"
#include "exporters/onnx/translations/table.h"
#include "exporters/support/log.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace exporters::onnx {
namespace {

using Context = TranslationContext;

const std::vector<int64_t> kSwapHeads = {0, 2, 1, 3};

// The call with everything 4-d: [batch, heads, length, features].
struct Attention {
  OnnxValue query;
  OnnxValue key;
  OnnxValue value;
  Sizes query_sizes;
  Sizes key_sizes;
  Sizes value_sizes;
  OnnxValue mask;  // bool or of query's dtype; 4-d; last two axes may be 1; or left out
  Sizes mask_sizes;
  bool causal = false;
  std::optional<double> scale;  // by default 1 / sqrt(features)

  const Expr& query_length() const { return query_sizes[2]; }
  const Expr& key_length() const { return key_sizes[2]; }
  Sizes result_sizes() const { return {query_sizes[0], query_sizes[1], query_sizes[2], value_sizes[3]}; }
};

Sizes as_four(const OpCall& call, const Sizes& sizes) {
  if (sizes.size() < 2) {
    call.refuse("operands of fewer than two axes are not supported");
  }
  Sizes four(sizes.end() - 2, sizes.end());
  if (sizes.size() == 2) {
    four.insert(four.begin(), {Expr(1), Expr(1)});
    return four;
  }
  Expr batch = 1;
  for (size_t i = 0; i + 3 < sizes.size(); ++i) {
    batch = batch * sizes[i];
  }
  four.insert(four.begin(), {batch, sizes[sizes.size() - 3]});
  return four;
}

void read_mask(Context& context, const OpCall& call, Attention& attention) {
  if (!call.has("attn_mask")) {
    return;
  }
  const TensorMeta& meta = call.meta("attn_mask");
  OnnxValue mask = call.tensor("attn_mask");
  if (mask.dtype != c10::kBool) {
    mask = context.cast(mask, attention.query.dtype);
  }
  if (meta.dim() > 4) {
    call.refuse("a mask of more than four axes is not supported");
  }
  Sizes sizes(4 - meta.sizes.size(), Expr(1));
  sizes.insert(sizes.end(), meta.sizes.begin(), meta.sizes.end());
  attention.mask = context.reshape(mask, meta.sizes, sizes);
  attention.mask_sizes = sizes;
}

// torch lets query i see key j when j <= i, counted from the first of each. The operator's own flag means that only
// where both lengths are equal.
void read_causal(Context& context, const OpCall& call, Attention& attention) {
  if (!call.boolean("is_causal")) {
    return;
  }
  if (attention.query_length() == attention.key_length()) {
    attention.causal = true;
    return;
  }
  const OnnxValue rows = context.unsqueeze(context.iota(attention.query_length()), {0, 1, 3});
  const OnnxValue columns = context.unsqueeze(context.iota(attention.key_length()), {0, 1, 2});
  attention.mask = context.emit("LessOrEqual", {columns, rows});
  attention.mask_sizes = {1, 1, attention.query_length(), attention.key_length()};
}

Attention read_attention(Context& context, const OpCall& call) {
  if (call.floating("dropout_p") != 0.0) {
    call.refuse("the module was traced in training mode: attention dropout would be live in the exported graph",
                "Call eval() on the module before the export.");
  }
  Attention attention;
  const c10::ScalarType dtype = Context::compute_dtype(call.result().dtype);
  attention.query_sizes = as_four(call, call.meta("query").sizes);
  attention.key_sizes = as_four(call, call.meta("key").sizes);
  attention.value_sizes = as_four(call, call.meta("value").sizes);
  attention.query = context.reshape(call.operand("query", dtype), call.meta("query").sizes, attention.query_sizes);
  attention.key = context.reshape(call.operand("key", dtype), call.meta("key").sizes, attention.key_sizes);
  attention.value = context.reshape(call.operand("value", dtype), call.meta("value").sizes, attention.value_sizes);
  if (call.has("scale")) {
    attention.scale = call.floating("scale");
  }
  read_mask(context, call, attention);
  read_causal(context, call, attention);
  return attention;
}

// Note [Rows that mask every key]
// torch gives zeros there for bool masks and for -inf, and an ordinary softmax (a mean, if all are equal) for the
// lowest finite number, which many models add. ONNX Runtime's Attention takes the lowest number for "masked", its own
// form of a bool mask's false, and gives zeros. So bool masks go as they are; float masks are kept just above the
// lowest number, and rows of -inf alone are set to zero afterwards. Both are made once for all layers that share a
// mask.

c10::Scalar just_above_lowest(c10::ScalarType dtype) {
  const double lowest = dtype == c10::kHalf     ? -65504.0
                        : dtype == c10::kDouble ? std::numeric_limits<double>::lowest()
                                                : double{std::numeric_limits<float>::lowest()};
  return 0.98 * lowest;
}

bool is_float_mask(const Attention& attention) {
  return attention.mask.present() && attention.mask.dtype != c10::kBool;
}

// [batch or 1, heads or 1, length or 1, 1]: some key is left.
OnnxValue some_key_left(Context& context, const Attention& attention) {
  const OnnxValue top = context.emit("ReduceMax", {attention.mask, context.constant(std::vector<int64_t>{3})});
  return context.emit("Greater", {top, context.constant(-HUGE_VAL, attention.mask.dtype)});
}

// ── Opset 23: the Attention operator ──

OnnxValue full_length_mask(Context& context, const Attention& attention) {
  OnnxValue mask = attention.mask;
  if (is_float_mask(attention)) {
    mask = context.emit("Max", {mask, context.constant(just_above_lowest(mask.dtype), mask.dtype)});
  }
  Sizes full = attention.mask_sizes;
  full[2] = attention.query_length();
  full[3] = attention.key_length();
  return context.expand(mask, attention.mask_sizes, full);
}

Attrs attention_attributes(const Attention& attention) {
  Attrs attrs;
  if (attention.scale) {
    attrs.emplace_back("scale", *attention.scale);
  }
  if (attention.causal) {
    attrs.emplace_back("is_causal", 1);
  }
  return attrs;
}

// If `value` is [batch, heads, length, features] transposed from [batch, length, heads, features]: that, as
// [batch, length, heads * features], which the operator takes directly.
std::optional<OnnxValue> folded_heads(Context& context, const OnnxValue& value, const Sizes& sizes) {
  const auto* transposed = context.transposed_from(value);
  if (transposed == nullptr || transposed->perm != kSwapHeads) {
    return std::nullopt;
  }
  const OnnxValue source = transposed->source;
  return context.reshape(source, {sizes[0], sizes[2], sizes[1], sizes[3]}, {sizes[0], sizes[2], sizes[1] * sizes[3]});
}

// With float masks, rows of -inf alone become zeros.
OnnxValue without_masked_rows(Context& context, const Attention& attention, const OnnxValue& output) {
  if (!is_float_mask(attention)) {
    return output;
  }
  return context.where(some_key_left(context, attention), output, context.constant(0.0, output.dtype));
}

OnnxValue attention_on_heads(Context& context, const Attention& attention) {
  OnnxValues inputs = {attention.query, attention.key, attention.value};
  if (attention.mask.present()) {
    inputs.push_back(full_length_mask(context, attention));
  }
  const OnnxValue output = context.emit("Attention", inputs, attention_attributes(attention));
  return without_masked_rows(context, attention, output);
}

// Note [Caches of attention]
// Keys and values of a decode step are those of a cache, an input, with the new ones behind. The operator joins them by
// itself, and gives what they become; the Concats that the cache's update was written as are then taken by nobody.
std::optional<OnnxValue> attention_with_cache(Context& context, const OpCall& call, const Attention& attention) {
  const auto key = appended_to_cache(context, call, "key");
  const auto value = appended_to_cache(context, call, "value");
  if (!key || !value || attention.causal || key->fresh.dtype != attention.query.dtype ||
      value->fresh.dtype != attention.query.dtype) {
    return std::nullopt;
  }
  OnnxValues inputs = {attention.query, key->fresh, value->fresh, {}, key->past, value->past};
  if (attention.mask.present()) {
    inputs[3] = full_length_mask(context, attention);
  }
  const OnnxValues outputs = context.emit_many("Attention", inputs, attention_attributes(attention), 3);
  context.rebind(key->whole, outputs[1]);
  context.rebind(value->whole, outputs[2]);
  return without_masked_rows(context, attention, outputs[0]);
}

// ── ONNX Runtime's GroupQueryAttention ──

// Note [GroupQueryAttention]
// The operator always hides later keys, so it fits only where the mask is known to do so. Padding on the left, which
// its lengths cannot say, goes in as a bias, as the CPU provider has it; rows that see nothing come out as zeros, as in
// torch. It joins the cache by itself.
std::string why_not_group_query(const OpCall& call, const Attention& attention, const AppendedStates& key,
                                const std::string& provider) {
  if (attention.query.dtype != c10::kFloat && attention.query.dtype != c10::kHalf) {
    return "the operator computes in float32 and float16 only";
  }
  if (provider == "cuda" && attention.query.dtype != c10::kHalf) {  // docs/OperatorKernels.md of ONNX Runtime
    return "this provider's operator computes in float16 only";
  }
  if (!attention.query_sizes[1].is_int() || !attention.key_sizes[1].is_int() ||
      attention.query_sizes[3] != attention.value_sizes[3] || !attention.query_sizes[3].is_int()) {
    return "the numbers and sizes of its heads are not fixed, or not the same for keys and values";
  }
  if (*attention.query_sizes[3].as_int() % 8 != 0) {
    return "the operator takes heads of a multiple of 8 dimensions";
  }
  if (attention.scale == 0.0) {
    return "its scale is 0, which stands for the operator's own";
  }
  if (!call.has("attn_mask") || attention.mask.dtype != c10::kBool || attention.mask_sizes[1] != Expr(1)) {
    return "it has no bool mask for all heads";
  }
  const CausalMask mask = causal_mask(*call.arg("attn_mask").value(), key.past_sizes[2]);
  if (mask == CausalMask::kUnknown) {
    return "its mask is not known to hide later keys, which the operator always does";
  }
  return mask == CausalMask::kWithMore && provider != "cpu"
             ? "its mask hides more than later keys, and this provider's operator takes no mask"
             : "";
}

// [batch, heads, length, features] → [batch, length, heads · features]
OnnxValue folded(Context& context, const OnnxValue& states, const Sizes& sizes) {
  const OnnxValue rows = context.transpose(states, kSwapHeads);
  return context.reshape(rows, {sizes[0], sizes[2], sizes[1], sizes[3]}, {sizes[0], sizes[2], sizes[1] * sizes[3]});
}

OnnxValue mask_bias(Context& context, const Attention& attention) {
  const c10::ScalarType dtype = attention.query.dtype;
  return context.where(attention.mask, context.constant(0.0, dtype), context.constant(-HUGE_VAL, dtype));
}

OnnxValue group_query_attention(Context& context, const Attention& attention, const AppendedStates& key,
                                const AppendedStates& value, bool with_bias) {
  const Expr& batch = attention.query_sizes[0];
  const Expr& total = attention.key_sizes[2];
  const OnnxValue last = context.cast(context.size(total - Expr(1)), c10::kInt);
  OnnxValues inputs = {folded(context, attention.query, attention.query_sizes),
                       folded(context, key.fresh, key.fresh_sizes),
                       folded(context, value.fresh, value.fresh_sizes),
                       key.past,
                       value.past,
                       context.expand(last, {1}, {batch}),
                       context.cast(context.size_scalar(total), c10::kInt)};
  if (with_bias) {
    inputs.insert(inputs.end(), {{}, {}, {}, mask_bias(context, attention)});
  }
  Attrs attrs = {{"num_heads", *attention.query_sizes[1].as_int()}, {"kv_num_heads", *attention.key_sizes[1].as_int()}};
  if (attention.scale) {
    attrs.emplace_back("scale", *attention.scale);
  }
  // The CPU provider's kernel takes several new tokens behind a cache for one row only.
  context.require(le(batch, 1) || le(attention.query_length(), 1) || le(key.past_sizes[2], 0));
  const OnnxValues outputs = context.emit_contrib("GroupQueryAttention", inputs, attrs, 3);
  context.rebind(key.whole, outputs[1]);
  context.rebind(value.whole, outputs[2]);
  const Sizes sizes = attention.result_sizes();
  const Sizes split = {sizes[0], sizes[2], sizes[1], sizes[3]};
  return context.transpose(context.reshape(outputs[0], {sizes[0], sizes[2], sizes[1] * sizes[3]}, split), kSwapHeads);
}

std::optional<OnnxValue> fused_for_provider(Context& context, const OpCall& call, const Attention& attention) {
  if (!context.ort_fusions()) {
    return std::nullopt;
  }
  const auto key = appended_to_cache(context, call, "key");
  const auto value = appended_to_cache(context, call, "value");
  if (!key || !value) {
    return std::nullopt;  // attention without a cache: the standard operator is as fast
  }
  if (const std::string why = why_not_group_query(call, attention, *key, *context.ort_fusions()); !why.empty()) {
    log_warning("{}: attention is not fused into GroupQueryAttention: {}", call.node().describe(), why);
    return std::nullopt;
  }
  const bool with_bias = causal_mask(*call.arg("attn_mask").value(), key->past_sizes[2]) == CausalMask::kWithMore;
  return group_query_attention(context, attention, *key, *value, with_bias);
}

std::optional<OnnxValue> attention_on_folded_heads(Context& context, const Attention& attention) {
  const auto query_heads = attention.query_sizes[1].as_int();
  const auto key_heads = attention.key_sizes[1].as_int();
  if (!query_heads || !key_heads || *query_heads == 0 ||
      (attention.mask.present() && attention.mask_sizes[1] != Expr(1))) {
    return std::nullopt;
  }
  const auto query = folded_heads(context, attention.query, attention.query_sizes);
  const auto key = folded_heads(context, attention.key, attention.key_sizes);
  const auto value = folded_heads(context, attention.value, attention.value_sizes);
  if (!query || !key || !value) {
    return std::nullopt;
  }
  OnnxValues inputs = {*query, *key, *value};
  Attrs attrs = attention_attributes(attention);
  attrs.emplace_back("q_num_heads", *query_heads);
  attrs.emplace_back("kv_num_heads", *key_heads);
  if (attention.mask.present()) {
    inputs.push_back(full_length_mask(context, attention));
  }
  OnnxValue output = context.emit("Attention", inputs, attrs);
  if (is_float_mask(attention)) {
    const OnnxValue any = some_key_left(context, attention);
    const Sizes sizes = {attention.mask_sizes[0], 1, attention.mask_sizes[2], 1};
    output = context.where(context.reshape(any, sizes, {sizes[0], sizes[2], 1}), output,
                           context.constant(0.0, output.dtype));
  }
  const Sizes sizes = attention.result_sizes();
  const Sizes split = {sizes[0], sizes[2], sizes[1], sizes[3]};
  return context.transpose(context.reshape(output, {sizes[0], sizes[2], sizes[1] * sizes[3]}, split), kSwapHeads);
}

OnnxValues aten_sdpa_23(Context& context, const OpCall& call) {
  const Attention attention = read_attention(context, call);
  std::optional<OnnxValue> output = fused_for_provider(context, call, attention);
  if (!output) {
    output = attention_with_cache(context, call, attention);
  }
  if (!output) {
    output = attention_on_folded_heads(context, attention);
  }
  if (!output) {
    output = attention_on_heads(context, attention);
  }
  return {context.reshape(*output, attention.result_sizes(), call.result().sizes)};
}

// ── Below opset 23: matrix products and softmax ──

OnnxValue scale_of(Context& context, const Attention& attention) {
  const c10::ScalarType dtype = attention.query.dtype;
  const Expr& features = attention.query_sizes[3];
  if (attention.scale) {
    return context.constant(*attention.scale, dtype);
  }
  if (const auto number = features.as_int()) {
    return context.constant(1.0 / std::sqrt(static_cast<double>(*number)), dtype);
  }
  const OnnxValue root = context.emit("Sqrt", {context.cast(context.size_scalar(features), dtype)});
  return context.emit("Reciprocal", {root});
}

// Each key and value head serves as many query heads as there are to it.
OnnxValue repeat_heads(Context& context, const OnnxValue& x, const Sizes& sizes, const Expr& heads) {
  if (sizes[1] == heads) {
    return x;
  }
  const Expr groups = floordiv(heads, sizes[1]);
  const Sizes split = {sizes[0], sizes[1], 1, sizes[2], sizes[3]};
  const Sizes wide = {sizes[0], sizes[1], groups, sizes[2], sizes[3]};
  const OnnxValue repeated = context.expand(context.reshape(x, sizes, split), split, wide);
  return context.reshape(repeated, wide, {sizes[0], heads, sizes[2], sizes[3]});
}

OnnxValues aten_sdpa(Context& context, const OpCall& call) {
  Attention attention = read_attention(context, call);
  const Expr heads = attention.query_sizes[1];
  const OnnxValue key = repeat_heads(context, attention.key, attention.key_sizes, heads);
  const OnnxValue value = repeat_heads(context, attention.value, attention.value_sizes, heads);
  if (attention.causal) {
    const OnnxValue steps = context.iota(attention.query_length());
    attention.mask = context.emit("LessOrEqual", {context.unsqueeze(steps, {0}), context.unsqueeze(steps, {1})});
  }
  const c10::ScalarType dtype = attention.query.dtype;
  const OnnxValue scaled = context.emit("Mul", {attention.query, scale_of(context, attention)});
  OnnxValue scores = context.emit("MatMul", {scaled, context.transpose(key, {0, 1, 3, 2})});
  if (attention.mask.present()) {
    scores = attention.mask.dtype == c10::kBool
                 ? context.where(attention.mask, scores, context.constant(-HUGE_VAL, dtype))
                 : context.emit("Add", {scores, attention.mask});
  }
  OnnxValue weights = context.emit("Softmax", {scores}, {{"axis", -1}});
  if (attention.mask.present() && !attention.causal) {
    weights = context.where(context.emit("IsNaN", {weights}), context.constant(0.0, dtype), weights);
  }
  const OnnxValue output = context.emit("MatMul", {weights, value});
  return {context.reshape(output, attention.result_sizes(), call.result().sizes)};
}

// ONNX Runtime's Attention refuses empty tensors. Where one is empty, or may be because its size depends on data, plain
// products are written; sizes of inputs are checked before a run.
OnnxValues aten_sdpa_operator(Context& context, const OpCall& call) {
  Sizes sizes;
  for (const char* operand : {"query", "key"}) {
    const Sizes& own = call.meta(operand).sizes;
    sizes.insert(sizes.end(), own.begin(), own.end());
  }
  // ONNX Runtime takes a scale of 0 for one that is not given.
  if (call.has("scale") && static_cast<float>(call.floating("scale")) == 0.0F) {
    return aten_sdpa(context, call);
  }
  const auto may_be_empty = [](const Expr& size) { return size.has_unbacked() || size == Expr(0); };
  if (std::any_of(sizes.begin(), sizes.end(), may_be_empty)) {
    return aten_sdpa(context, call);
  }
  std::for_each(sizes.begin(), sizes.end(), [&](const Expr& size) { context.require_not_empty(size); });
  return aten_sdpa_23(context, call);
}

constexpr OnnxTranslationEntry kEntries[] = {
    {"aten.scaled_dot_product_attention", 18, aten_sdpa, "Add IsNaN MatMul Mul Reshape Softmax Transpose Where",
     "dropout (training mode); operands of one axis; masks of more than four axes"},
    {"aten.scaled_dot_product_attention", 23, aten_sdpa_operator, "Attention Greater Max ReduceMax Reshape Where",
     "dropout (training mode); operands of one axis; masks of more than four axes"},
    {"aten._scaled_dot_product_flash_attention_for_cpu", 18, aten_sdpa, "Add IsNaN MatMul Mul Softmax Transpose Where"},
    {"aten._scaled_dot_product_flash_attention_for_cpu", 23, aten_sdpa_operator,
     "Attention Greater Max ReduceMax Where"},
};

}  // namespace

std::span<const OnnxTranslationEntry> attention_translations() { return kEntries; }

}  // namespace exporters::onnx
