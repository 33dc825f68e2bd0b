#include "exporters/models/masks.h"

#include "exporters/models/module.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <c10/util/StringUtil.h>

#include <limits>

namespace exporters::models {
namespace {

at::Tensor scalar(double value, const at::Tensor& like) { return at::scalar_tensor(value, like.options()); }

/// The bool mask in the form that `kind` takes.
at::Tensor finish(AttentionKind kind, const at::Tensor& visible, const at::Tensor& embeds) {
  if (kind == AttentionKind::kSdpa) {
    return visible;
  }
  return at::where(visible, scalar(0.0, embeds), scalar(lowest_number(embeds.scalar_type()), embeds));
}

/// [batch, keys] → bool [batch, 1, 1, keys]
at::Tensor padding_mask(const at::Tensor& attention_mask) {
  return attention_mask.to(c10::ScalarType::Bool).unsqueeze(1).unsqueeze(1);
}

at::Tensor positions(const c10::SymInt& start, const c10::SymInt& end) {
  return at::arange(start, end, at::TensorOptions().dtype(c10::ScalarType::Long));
}

at::Tensor as_queries(const at::Tensor& t) { return t.unsqueeze(1).unsqueeze(3); }
at::Tensor as_keys(const at::Tensor& t) { return t.unsqueeze(1).unsqueeze(2); }

/// Bool [batch or 1, 1, queries, keys], from positions [batch or 1, queries] and [batch or 1, keys].
at::Tensor visible_positions(const at::Tensor& queries, const at::Tensor& keys, std::optional<int64_t> sliding_window) {
  const at::Tensor query_positions = as_queries(queries);
  const at::Tensor key_positions = as_keys(keys);
  const at::Tensor visible = at::le(key_positions, query_positions);
  if (!sliding_window) {
    return visible;
  }
  return at::bitwise_and(visible, at::gt(key_positions, query_positions - *sliding_window));
}

/// Bool [batch or 1, 1, queries, queries]: causal within each packed sequence. Sequences are told apart where
/// consecutive positions do not differ by 1; that the first one begins at any position changes nothing.
at::Tensor packed_mask(const at::Tensor& position_ids, std::optional<int64_t> sliding_window) {
  const at::Tensor before_first = position_ids.slice(1, 0, 1) - 1;
  const at::Tensor sequence = at::cumsum(at::ne(at::diff(position_ids, 1, -1, before_first), 1), -1);
  return at::bitwise_and(visible_positions(position_ids, position_ids, sliding_window),
                         at::eq(as_keys(sequence), as_queries(sequence)));
}

/// Bool [1, 1, queries, keys]
at::Tensor span_mask(const CacheSpan& span, const c10::SymInt& queries, std::optional<int64_t> sliding_window) {
  const at::Tensor keys = positions(span.key_offset, span.key_offset + span.keys).unsqueeze(0);
  at::Tensor query_positions = positions(span.past, span.past + queries);
  if (span.past_tensor.defined()) {
    query_positions = query_positions + span.past_tensor;
  }
  return visible_positions(query_positions.unsqueeze(0), keys, sliding_window);
}

/// The part of the padding mask that belongs to the keys of `span`: bool [batch, 1, 1, keys].
at::Tensor padding_of_keys(const at::Tensor& attention_mask, const at::Tensor& embeds, const CacheSpan& span) {
  if (span.fixed_length) {
    const c10::SymInt given = attention_mask.sym_size(1);
    require(given.sym_le(span.keys), [&] {
      return c10::str("attention_mask is ", attention_mask.sym_sizes(), ", the cache has room for ", span.keys);
    });
    check_padding_mask(attention_mask, embeds, given);
    return padding_mask(at::constant_pad_nd_symint(attention_mask, {0, span.keys - given}, 0));
  }
  check_padding_mask(attention_mask, embeds, span.key_offset + span.keys);
  const bool all = span.key_offset.maybe_as_int() == 0;
  return padding_mask(all ? attention_mask
                          : attention_mask.slice_symint(1, span.key_offset, span.key_offset + span.keys));
}

bool is_prepared(const at::Tensor& mask) { return mask.defined() && mask.dim() == 4; }

}  // namespace

double lowest_number(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Half:
      return static_cast<double>(std::numeric_limits<c10::Half>::lowest());
    case c10::ScalarType::BFloat16:
      return static_cast<double>(std::numeric_limits<c10::BFloat16>::lowest());
    case c10::ScalarType::Double:
      return std::numeric_limits<double>::lowest();
    default:
      return std::numeric_limits<float>::lowest();
  }
}

void check_padding_mask(const at::Tensor& mask, const at::Tensor& embeds, const c10::SymInt& keys) {
  if (mask.dim() != 2) {
    throw Error(fmt::format("attention_mask has {} dimensions", mask.dim()), current_place().str(),
                "It is [batch, keys], or [batch, 1, queries, keys] when already prepared");
  }
  const auto describe = [&] {
    return c10::str("attention_mask is ", mask.sym_sizes(), ", the other inputs make it [", embeds.sym_size(0), ", ",
                    keys, "] (batch, keys)");
  };
  require(mask.sym_size(0).sym_eq(embeds.sym_size(0)), describe);
  require(mask.sym_size(1).sym_eq(keys), describe);
}

at::Tensor create_bidirectional_mask(AttentionKind kind, const at::Tensor& embeds, const at::Tensor& attention_mask,
                                     const c10::SymInt& keys) {
  if (!attention_mask.defined() || is_prepared(attention_mask)) {
    return attention_mask;
  }
  check_padding_mask(attention_mask, embeds, keys);
  return finish(kind, padding_mask(attention_mask), embeds);
}

at::Tensor create_bidirectional_sliding_mask(AttentionKind kind, const at::Tensor& embeds,
                                             const at::Tensor& attention_mask, int64_t reach) {
  if (is_prepared(attention_mask)) {
    return attention_mask;
  }
  const c10::SymInt length = embeds.sym_size(1);
  const at::Tensor all = positions(0, length).unsqueeze(0);
  const at::Tensor near = at::le(at::abs(as_queries(all) - as_keys(all)), reach);
  if (!attention_mask.defined()) {
    return finish(kind, near, embeds);
  }
  check_padding_mask(attention_mask, embeds, length);
  return finish(kind, at::bitwise_and(near, padding_mask(attention_mask)), embeds);
}

CausalMask create_causal_mask(AttentionKind kind, const at::Tensor& embeds, const at::Tensor& attention_mask,
                              const CausalMaskOptions& options) {
  if (is_prepared(attention_mask)) {
    return {attention_mask};
  }
  const c10::SymInt queries = embeds.sym_size(1);
  const CacheSpan span = options.span.value_or(CacheSpan::after(0, queries));
  if (attention_mask.defined()) {
    const at::Tensor padding = padding_of_keys(attention_mask, embeds, span);
    return {finish(kind, at::bitwise_and(span_mask(span, queries, options.sliding_window), padding), embeds)};
  }
  if (!options.span && options.position_ids.defined()) {
    return {finish(kind, packed_mask(options.position_ids, options.sliding_window), embeds)};
  }
  if (!options.always_made && span.starts_empty() && !span.fixed_length && !options.sliding_window &&
      kind == AttentionKind::kSdpa) {
    return {{}, /*is_causal=*/true};
  }
  return {finish(kind, span_mask(span, queries, options.sliding_window), embeds)};
}

at::Tensor add_bias(const at::Tensor& mask, const at::Tensor& bias) {
  if (!mask.defined()) {
    return bias;
  }
  if (mask.scalar_type() != c10::ScalarType::Bool) {
    return bias + mask;
  }
  return at::where(mask, bias, scalar(lowest_number(bias.scalar_type()), bias));
}

}  // namespace exporters::models
