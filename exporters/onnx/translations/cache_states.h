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
