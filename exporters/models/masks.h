#pragma once

#include "exporters/models/cache.h"
#include "exporters/models/layers/attention.h"

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>
#include <optional>

namespace exporters::models {

// Attention masks as transformers computes them when it exports: whether a mask is needed is never decided by its
// values, so the same graph serves padded and unpadded batches.
//
// For AttentionKind::kSdpa a mask is bool, true where a query may look; for kEager it is added to the scores, in the
// embeddings' dtype: 0 where a query may look, the lowest finite number elsewhere. A row that masks every key therefore
// yields zeros with kSdpa and the mean of all values with kEager, as in the reference; nothing is defined there.
//
// A given mask has one number per key, [batch, keys], 0 for padding; one of four dimensions is taken as it is (already
// of the right kind). Throws Error for other ranks and for extents that do not fit.

/// The lowest finite number of a floating-point dtype.
double lowest_number(c10::ScalarType dtype);

/// Throws Error unless `mask` is [batch of embeds, keys].
void check_padding_mask(const at::Tensor& mask, const at::Tensor& embeds, const c10::SymInt& keys);

/// Every query sees every key that is not padding: [batch, 1, 1, keys], or undefined when `attention_mask` is.
/// @param embeds [batch, queries, hidden]: gives batch and dtype
/// @param keys the number of keys: of the encoder in cross-attention, else of `embeds`
at::Tensor create_bidirectional_mask(AttentionKind kind, const at::Tensor& embeds, const at::Tensor& attention_mask,
                                     const c10::SymInt& keys);

/// Every query sees the keys that are not padding and at most `reach` positions away, before or after it:
/// [batch or 1, 1, queries, queries].
at::Tensor create_bidirectional_sliding_mask(AttentionKind kind, const at::Tensor& embeds,
                                             const at::Tensor& attention_mask, int64_t reach);

struct CausalMask {
  at::Tensor mask;         ///< [batch or 1, 1, queries, keys]; may be undefined
  bool is_causal = false;  ///< to be passed to attention(): causality without a mask
};

/// What a causal mask follows from, besides the inputs.
struct CausalMaskOptions {
  /// Where queries and keys lie; nothing: the queries are all keys there are.
  std::optional<CacheSpan> span = {};
  /// [batch or 1, queries]; with neither span nor attention_mask, a jump in them starts a new packed sequence that does
  /// not see the ones before it. Undefined: one sequence.
  at::Tensor position_ids = {};
  /// A query sees itself and the `sliding_window` - 1 positions before it.
  std::optional<int64_t> sliding_window = {};
  /// The mask is made also where causality alone would do.
  bool always_made = false;
};

/// A query sees the keys up to its own position.
/// @param attention_mask covers all positions from the first on, also those that a cache no longer holds; for a cache
///        of fixed length, those that are taken after this forward, or all
CausalMask create_causal_mask(AttentionKind kind, const at::Tensor& embeds, const at::Tensor& attention_mask,
                              const CausalMaskOptions& options = {});

/// A mask that is added to the scores, with a bias for each pair of positions: `bias` where a query may look, the
/// lowest finite number elsewhere.
/// @param mask undefined, or as made for kSdpa; one that is not bool is added to `bias`
/// @param bias [1, heads, queries, keys]
at::Tensor add_bias(const at::Tensor& mask, const at::Tensor& bias);

}  // namespace exporters::models
