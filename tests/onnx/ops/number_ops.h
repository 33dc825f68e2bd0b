#pragma once

#include "exporters/graph/exported_program.h"

#include <functional>
#include <map>
#include <string>

namespace exporters::onnx::testing {

/// An op on numbers, as a program over the 0-d float64 inputs x0 and x1 and the float64 vector x2 of n elements: what
/// it gives of their values, as a vector of two elements.
struct NumberOpProgram {
  ExportedProgram program;
  bool gives_bool = false;
  std::function<double(double a, double b, int64_t n)> expected;
};

/// By the op's name in the table of translations.
const std::map<std::string, NumberOpProgram>& number_op_programs();

}  // namespace exporters::onnx::testing
