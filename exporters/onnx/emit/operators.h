#pragma once

#include "exporters/onnx/emit/model.h"

#include <string>
#include <string_view>

namespace exporters::onnx {

// Facts of operators, by their names in the ONNX specification.

/// Its results are truth values, whatever its inputs are.
bool gives_bool(std::string_view op);
/// Equal nodes of it may give different results: two draws are two.
bool is_random(std::string_view op);

/// Appends an attribute's name and value to a key by which nodes are compared. False for tensors, graphs and lists of
/// other things than integers, which are not compared.
bool append_to_key(std::string& key, const OnnxAttribute& attribute);

}  // namespace exporters::onnx
