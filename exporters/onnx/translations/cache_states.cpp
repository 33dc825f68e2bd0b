// What decoders pass to attention: caches with new states behind, and causal masks.
#include "exporters/onnx/translations/cache_states.h"

#include <algorithm>
#include <array>

namespace exporters::onnx {
namespace {

constexpr int64_t kRank = 4;
constexpr int64_t kLengthAxis = 2;

/// Whole numbers that count up by one along one axis, and are the same along others.
struct Steps {
  Expr start;
  int64_t axis_from_end = 1;
};

const Value* value_of(const Node& node, size_t i) {
  return i < node.arg_count() && node.arg(i).is_value() ? node.arg(i).value() : nullptr;
}

bool is_one_of(const Node& node, std::initializer_list<std::string_view> targets) {
  return std::any_of(targets.begin(), targets.end(), [&](std::string_view target) { return node.is_call(target); });
}

std::optional<Steps> steps_of_range(const Node& node) {
  if (node.is_call("aten.arange.default")) {
    return Steps{0};
  }
  const bool by_one =
      node.is_call("aten.arange.start") ||
      (node.is_call("aten.arange.start_step") && (node.arg_count() < 3 || node.arg(2) == Argument(int64_t{1})));
  return by_one ? std::optional(Steps{to_expr(node.arg(0))}) : std::nullopt;
}

std::optional<Steps> steps_of(const Value& value) {
  const Node& node = *value.node();
  if (!value.is_tensor() || !c10::isIntegralType(value.meta().dtype, /*includeBool=*/false)) {
    return std::nullopt;
  }
  if (node.is_call("aten.unsqueeze.default")) {
    const Value* source = value_of(node, 0);
    auto steps = source == nullptr ? std::nullopt : steps_of(*source);
    if (!steps) {
      return std::nullopt;
    }
    const int64_t rank = value.meta().dim();
    const int64_t added = wrap_axis(*to_expr(node.arg(1)).as_int(), rank);
    const int64_t place = rank - 1 - steps->axis_from_end;
    steps->axis_from_end += added > place ? 1 : 0;
    return steps;
  }
  return steps_of_range(node);
}

bool is_key_before_query(const Value* key, const Value* query, const Expr& past) {
  const auto keys = key == nullptr ? std::nullopt : steps_of(*key);
  const auto queries = query == nullptr ? std::nullopt : steps_of(*query);
  return keys && queries && keys->axis_from_end == 1 && queries->axis_from_end == 2 &&
         queries->start - keys->start == past;
}

/// States of a cache, an input, and new ones.
struct Appended {
  const Value* past;
  const Value* fresh;
};

// What states are a concatenation of, where they are one along the length.
std::optional<Appended> appended(const TranslationContext& context, const Value& whole) {
  if (!whole.is_tensor() || whole.meta().dim() != kRank || !whole.node()->is_call("aten.cat.default")) {
    return std::nullopt;
  }
  const Node& cat = *whole.node();
  const auto* parts = cat.arg(0).get_if<Argument::List>();
  const int64_t axis = cat.arg_count() > 1 ? wrap_axis(*to_expr(cat.arg(1)).as_int(), kRank) : 0;
  if (parts == nullptr || parts->size() != 2 || axis != kLengthAxis || !(*parts)[0].is_value() ||
      !(*parts)[1].is_value()) {
    return std::nullopt;
  }
  const Value* past = (*parts)[0].value();
  const Value* fresh = (*parts)[1].value();
  const InputSpec* input = context.input_spec(*past);
  // cat leaves out an empty vector, and converts.
  const bool plain = input != nullptr && input->kind == InputSpec::Kind::kUserInput && past->meta().dim() == kRank &&
                     fresh->meta().dim() == kRank && past->meta().dtype == whole.meta().dtype &&
                     fresh->meta().dtype == whole.meta().dtype;
  return plain ? std::optional(Appended{past, fresh}) : std::nullopt;
}

}  // namespace

std::optional<AppendedStates> appended_to_cache(TranslationContext& context, const OpCall& call,
                                                std::string_view argument) {
  const Argument& given = call.arg(argument);
  const Value* whole = given.is_value() ? given.value() : nullptr;
  const auto parts = whole == nullptr ? std::nullopt : appended(context, *whole);
  if (!parts) {
    return std::nullopt;
  }
  return AppendedStates{whole, context.value(parts->past), context.value(parts->fresh), parts->past->meta().sizes,
                        parts->fresh->meta().sizes};
}

void free_lengths_of_caches(TranslationContext& context) {
  for (const Node& node : *context.program().graph) {
    const auto parts = node.is_call("aten.cat.default") ? appended(context, *node.output()) : std::nullopt;
    if (parts) {
      context.avoid_axis(context.value(parts->past), kLengthAxis);
    }
  }
}

CausalMask causal_mask(const Value& mask, const Expr& past) {
  const Node& node = *mask.node();
  const Value* first = value_of(node, 0);
  const Value* second = value_of(node, 1);
  const auto known = [&](const Value* part) {
    return part == nullptr ? CausalMask::kUnknown : causal_mask(*part, past);
  };
  if (is_one_of(node, {"aten.bitwise_and.Tensor", "aten.logical_and.default", "aten.__and__.Tensor"})) {
    const bool hides = known(first) != CausalMask::kUnknown || known(second) != CausalMask::kUnknown;
    return hides ? CausalMask::kWithMore : CausalMask::kUnknown;
  }
  if (is_one_of(node, {"aten.expand.default", "aten.alias.default", "aten.clone.default"})) {
    return known(first);
  }
  const bool compares = (node.is_call("aten.le.Tensor") && is_key_before_query(first, second, past)) ||
                        (node.is_call("aten.ge.Tensor") && is_key_before_query(second, first, past));
  return compares ? CausalMask::kAlone : CausalMask::kUnknown;
}

}  // namespace exporters::onnx
