#pragma once

#include "exporters/onnx/emit/model.h"
#include "exporters/onnx/runner.h"

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace exporters::onnx::testing {

/// A small model, made node by node.
class ModelBuilder {
 public:
  explicit ModelBuilder(int64_t opset = 23);

  std::string input(const std::string& name, std::vector<OnnxDim> dims, OnnxType dtype = OnnxType::kFloat);
  /// Gives the name of the node's first output.
  std::string node(const std::string& op, std::vector<std::string> inputs, std::vector<OnnxAttribute> attributes = {},
                   size_t outputs = 1);
  std::string constant(const at::Tensor& tensor);
  std::string ints(const std::vector<int64_t>& values);
  /// Says what an inner value is, as the converter does.
  void describe(const std::string& value, std::vector<OnnxDim> dims, OnnxType dtype = OnnxType::kFloat);
  void output(const std::string& value, std::vector<OnnxDim> dims, OnnxType dtype = OnnxType::kFloat);

  const OnnxModel& model() const { return model_; }

 private:
  OnnxModel model_;
  int count_ = 0;
};

/// Runs one pass alone, once with every input in ONNX Runtime on both models: outputs have to be equal, bit for bit
/// unless a tolerance is given. Gives the operators that are left, in order.
std::vector<std::string> optimized_by(const std::string& pass, const OnnxModel& model,
                                      const std::vector<OnnxRunner::Inputs>& inputs, double tolerance = 0.0);

}  // namespace exporters::onnx::testing
