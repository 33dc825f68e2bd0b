#pragma once

#include "exporters/graph/argument.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

namespace exporters {

/// How a run-time value becomes what its argument position takes.
enum class Conversion : uint8_t {
  kNone,
  kNumberToTensor,    ///< a number where the op takes a tensor: a 0-d tensor that type promotion ranks as a number
  kNumberToDouble,    ///< an integer where the op takes a float
  kTensorsToOptional  ///< a list of tensors where the op takes a list of optional ones
};

/// What the elements of a list argument are.
enum class ListKind : uint8_t { kInt, kFloat, kBool, kString, kNumber, kTensor, kOptionalTensor };

c10::IValue convert(c10::IValue value, Conversion conversion);
/// The conversion that values of this kind need at a position of this type.
Conversion conversion_for(const Value& value, const c10::Type& type);

/// Throws Error for element types that no ATen op has.
ListKind list_kind_of(const c10::Type& element);
c10::IValue pack_list(ListKind kind, std::vector<c10::IValue> items);

/// A constant as an op takes it at a position of this type: numbers for tensors become 0-d tensors, integers for floats
/// become floats. Throws Error for values of a graph, subgraphs and lists.
c10::IValue constant_to_ivalue(const Argument& argument, const c10::Type& type);

/// The type without Optional around it.
const c10::Type& unwrap_optional(const c10::Type& type);

}  // namespace exporters
