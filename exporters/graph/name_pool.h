#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace exporters {

/// "add_3" is base "add" and number 3; a name without a number has -1.
struct NumberedName {
  std::string_view base;
  int64_t number = -1;
};
NumberedName split_number(std::string_view name);

/// The hint with every character that a Python identifier may not have replaced by '_'.
std::string to_identifier(std::string_view hint);
bool is_identifier(std::string_view name);

/// The name hint of a call: "add" for "aten.add.Tensor", "sym_size_int" for "aten.sym_size.int".
std::string name_hint_of(std::string_view target);
/// A Python keyword or builtin, which FX never uses as the name of a call.
bool is_python_name(std::string_view name);

}  // namespace exporters
