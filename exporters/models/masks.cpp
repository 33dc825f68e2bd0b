#include "exporters/models/masks.h"

#include "exporters/models/module.h"
#include "exporters/models/operators.h"
#include "exporters/support/error.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/le.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <c10/util/StringUtil.h>

#include <limits>

namespace exporters::models {
namespace {

double lowest(c10::ScalarType dtype) {
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

at::Tensor scalar(double value, const at::Tensor& like) { return at::scalar_tensor(value, like.options()); }

/// The bool mask in the form that `kind` takes.
at::Tensor finish(AttentionKind kind, const at::Tensor& visible, const at::Tensor& embeds) {
  if (kind == AttentionKind::kSdpa) {
    return visible;
  }
  return at::where(visible, scalar(0.0, embeds), scalar(lowest(embeds.scalar_type()), embeds));
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

/// [batch, keys] → bool [batch, 1, 1, keys]
at::Tensor padding_mask(const at::Tensor& attention_mask) {
  return attention_mask.to(c10::ScalarType::Bool).unsqueeze(1).unsqueeze(1);
}

at::Tensor positions(const c10::SymInt& start, const c10::SymInt& end) {
  return at::arange(start, end, at::TensorOptions().dtype(c10::ScalarType::Long));
}

/// Bool [batch or 1, 1, queries, queries]: causal within each packed sequence. Sequences are told apart where
/// consecutive positions do not differ by 1; that the first one begins at any position changes nothing.
at::Tensor packed_mask(const at::Tensor& position_ids) {
  const at::Tensor before_first = position_ids.slice(1, 0, 1) - 1;
  const at::Tensor sequence = at::cumsum(at::ne(at::diff(position_ids, 1, -1, before_first), 1), -1);
  const auto as_queries = [](const at::Tensor& t) { return t.unsqueeze(1).unsqueeze(3); };
  const auto as_keys = [](const at::Tensor& t) { return t.unsqueeze(1).unsqueeze(2); };
  return at::bitwise_and(at::le(as_keys(position_ids), as_queries(position_ids)),
                         at::eq(as_keys(sequence), as_queries(sequence)));
}

/// Bool [1, 1, queries, keys]
at::Tensor lower_triangle(const c10::SymInt& past, const c10::SymInt& keys) {
  const at::Tensor key_positions = positions(0, keys).unsqueeze(0);
  const at::Tensor query_positions = positions(past, keys).unsqueeze(1);
  return at::le(key_positions, query_positions).unsqueeze(0).unsqueeze(0);
}

bool is_prepared(const at::Tensor& mask) { return mask.defined() && mask.dim() == 4; }

}  // namespace

at::Tensor create_bidirectional_mask(AttentionKind kind, const at::Tensor& embeds, const at::Tensor& attention_mask,
                                     const c10::SymInt& keys) {
  if (!attention_mask.defined() || is_prepared(attention_mask)) {
    return attention_mask;
  }
  check_padding_mask(attention_mask, embeds, keys);
  return finish(kind, padding_mask(attention_mask), embeds);
}

CausalMask create_causal_mask(AttentionKind kind, const at::Tensor& embeds, const at::Tensor& attention_mask,
                              const c10::SymInt& past, const at::Tensor& position_ids) {
  if (is_prepared(attention_mask)) {
    return {attention_mask};
  }
  const bool no_past = past.maybe_as_int() == 0;
  const c10::SymInt keys = no_past ? embeds.sym_size(1) : past + embeds.sym_size(1);
  if (attention_mask.defined()) {
    check_padding_mask(attention_mask, embeds, keys);
    return {finish(kind, at::bitwise_and(lower_triangle(past, keys), padding_mask(attention_mask)), embeds)};
  }
  if (no_past && position_ids.defined()) {
    return {finish(kind, packed_mask(position_ids), embeds)};
  }
  if (no_past && kind == AttentionKind::kSdpa) {
    return {{}, /*is_causal=*/true};
  }
  return {finish(kind, lower_triangle(past, keys), embeds)};
}

}  // namespace exporters::models
