#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/onnx/convert.h"
#include "exporters/symbolic/dim.h"
#include "tests/support/tensor_forward.h"

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace exporters::onnx::testing {

using exporters::testing::Tensors;
using Forward = exporters::testing::TensorForward;

/// What the comparison allows. float32 sums of a few hundred terms in another order differ by some 1e-6.
struct Tolerance {
  double rtol = 1e-5;
  double atol = 1e-6;
};

/// Traces `forward` on `samples` (inputs "x0", "x1", …) with every axis dynamic, except those listed as static.
ExportedProgram traced(const Forward& forward, const Tensors& samples, const DynamicShapes& shapes = {},
                       const std::map<std::string, at::Tensor>& parameters = {});

/// Exports `forward` once, traced on `samples`, and runs it in ONNX Runtime on the samples and on each of `more`:
/// every output has eager's dtype, shape and values, also after the optimizer's passes, with all of them and with one
/// left out. The models are kept for the reference checker.
void expect_same(const Forward& forward, const Tensors& samples, const std::vector<Tensors>& more = {},
                 OnnxOptions options = {}, Tolerance tolerance = {}, const DynamicShapes& shapes = {});
void expect_same(const ExportedProgram& program, const Forward& forward, const std::vector<Tensors>& inputs,
                 OnnxOptions options = {}, Tolerance tolerance = {});

/// One-input, one-output form.
inline void expect_same_unary(const std::function<at::Tensor(const at::Tensor&)>& forward, const at::Tensor& sample,
                              const Tensors& more = {}, OnnxOptions options = {}, Tolerance tolerance = {}) {
  std::vector<Tensors> others;
  for (const at::Tensor& tensor : more) {
    others.push_back({tensor});
  }
  expect_same([&](const Tensors& x) { return Tensors{forward(x[0])}; }, {sample}, others, options, tolerance);
}

inline OnnxOptions at_opset(int64_t opset) {
  OnnxOptions options;
  options.opset = opset;
  return options;
}

/// Operators of the model in order.
std::vector<std::string> op_types(const OnnxModel& model);
size_t count_ops(const OnnxModel& model, std::string_view op);

}  // namespace exporters::onnx::testing
