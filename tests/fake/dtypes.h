#pragma once

#include <c10/core/ScalarType.h>

namespace exporters::oracle {

inline constexpr auto kHalf = c10::ScalarType::Half;
inline constexpr auto kBFloat16 = c10::ScalarType::BFloat16;
inline constexpr auto kFloat = c10::ScalarType::Float;
inline constexpr auto kDouble = c10::ScalarType::Double;
inline constexpr auto kLong = c10::ScalarType::Long;
inline constexpr auto kInt = c10::ScalarType::Int;
inline constexpr auto kByte = c10::ScalarType::Byte;
inline constexpr auto kBool = c10::ScalarType::Bool;
inline constexpr auto kComplex = c10::ScalarType::ComplexFloat;

}  // namespace exporters::oracle
