#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace exporters {

/// "float32", "int64", "bool": PyTorch's names without "torch.". Throws Error for types that have none.
std::string_view dtype_name(c10::ScalarType dtype);
/// "f32", "i64", "b8": as FX prints them. Throws Error for types that have none.
std::string_view dtype_abbreviation(c10::ScalarType dtype);
/// The type of that name, nothing for an unknown one.
std::optional<c10::ScalarType> dtype_from_name(std::string_view name);

}  // namespace exporters
