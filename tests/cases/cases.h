#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/onnx/emit/model.h"
#include "exporters/symbolic/dim.h"
#include "tests/support/error_of.h"
#include "tests/support/tensor_forward.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace exporters::cases {

using testing::Tensors;

/// A forward, the inputs it is traced with ("x0", "x1", …; every axis dynamic), and other inputs for the same program.
struct Case {
  testing::TensorForward forward;
  Tensors sample;
  std::vector<Tensors> others = {};
  std::map<std::string, at::Tensor> parameters = {};
  DynamicShapes dynamic_shapes = {};
  /// Relative and absolute: sums of a few hundred float32 terms in another order differ by some 1e-6.
  double tolerance = 1e-5;
};

/// Traced and verified.
ExportedProgram traced(const Case& example);
/// Traced, made functional, as an ONNX model.
onnx::OnnxModel to_onnx(const Case& example);

/// What the interpreter gives for the traced program has eager's dtypes, shapes and values, for the sample and for all
/// the others; inputs that the forward writes to are written to alike. The same of the program out of a .pt2 file.
void expect_as_eager_in_interpreter(const Case& example);
/// The same of the functional program as ONNX in ONNX Runtime.
void expect_as_eager_in_onnx(const Case& example);
/// Both.
void expect_as_eager(const Case& example);

/// What the program says when it is run on `inputs` by the interpreter and by ONNX Runtime; "no error" if nothing.
std::string interpreter_error(const Case& example, const Tensors& inputs);
std::string onnx_error(const Case& example, const Tensors& inputs);
using testing::error_of;

/// "x0 axis 1 = 4", in order: the axes that the trace made static.
std::vector<std::string> static_axes(const ExportedProgram& program);

}  // namespace exporters::cases
