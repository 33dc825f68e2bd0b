#pragma once

#include "exporters/onnx/translations/context.h"
#include "exporters/onnx/translations/op_call.h"

#include <optional>
#include <string_view>

namespace exporters::onnx {

/// Keys or values of a cache that is an input of the program, with new ones behind them; all [batch, heads, length,
/// features].
struct AppendedStates {
  const Value* whole;  ///< their concatenation
  OnnxValue past;
  OnnxValue fresh;
  Sizes past_sizes;
  Sizes fresh_sizes;
};

/// What an argument of attention is made of, where it is such states.
std::optional<AppendedStates> appended_to_cache(TranslationContext& context, const OpCall& call,
                                                std::string_view argument);

/// Note [Room behind a cache]
/// GroupQueryAttention is told how many tokens there are, and takes a cache that is longer: what lies behind the tokens
/// is not read, and new ones are written there where past and present are one buffer. A runner may so keep a cache
/// where it is (see in_place.h), as long as nothing else in the model goes by the length of that input. Hence the
/// lengths of caches are computed from other inputs where these tell them, as a mask over all tokens does.
void free_lengths_of_caches(TranslationContext& context);

/// What is known of a bool mask [batch or 1, 1, queries, keys] of a decode step.
enum class CausalMask {
  kUnknown,   ///< nothing
  kAlone,     ///< it hides from each query the keys behind its own, and nothing else
  kWithMore,  ///< it hides these, and others
};
/// By the conditions that the mask is made of, one of which has to compare the places of keys and queries. Query i is
/// the key at `past` + i.
CausalMask causal_mask(const Value& mask, const Expr& past);

}  // namespace exporters::onnx
