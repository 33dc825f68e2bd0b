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

/// Whether a bool mask [batch or 1, 1, queries, keys] is known to hide from each query the keys behind its own, which
/// is the one at `past` + its index: one of the conditions that it is made of compares the places of keys and queries.
bool hides_later_keys(const Value& mask, const Expr& past);

}  // namespace exporters::onnx
