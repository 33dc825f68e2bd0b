#include "tests/pt2/recorded.h"

#include "exporters/interpreter/interpreter.h"
#include "exporters/support/error.h"
#include "exporters/weights/safetensors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace exporters::testing {
namespace {

double difference(const at::Tensor& given, const at::Tensor& wanted) {
  if (wanted.numel() == 0) {
    return 0;
  }
  const at::ScalarType wide = wanted.is_complex() ? at::kComplexDouble : at::kDouble;
  const at::Tensor a = given.to(wide);
  const at::Tensor b = wanted.to(wide);
  const at::Tensor finite = at::isfinite(b);
  EXPECT_TRUE(at::equal(at::isfinite(a), finite));
  const at::Tensor error = (a - b).abs() / b.abs().clamp_min(1);
  return at::where(finite, error, at::zeros_like(error)).max().item<double>();
}

}  // namespace

std::vector<at::Tensor> numbered(const std::filesystem::path& file, const std::string& prefix) {
  const auto tensors = SafetensorsFile::open(file);
  std::vector<at::Tensor> found;
  while (tensors->find(prefix + std::to_string(found.size())) != nullptr) {
    found.push_back(tensors->tensor(prefix + std::to_string(found.size())).clone());
  }
  return found;
}

double difference(const std::shared_ptr<const ExportedProgram>& program, const std::filesystem::path& file) {
  std::vector<at::Tensor> outputs;
  for (const PyTree::Leaf& leaf : Interpreter(program).run(numbered(file, "in"))) {
    if (const auto* tensor = std::get_if<at::Tensor>(&leaf)) {
      outputs.push_back(*tensor);
    }
  }
  const std::vector<at::Tensor> wanted = numbered(file, "out");
  EXPECT_EQ(outputs.size(), wanted.size()) << file;
  double largest = 0;
  for (size_t i = 0; i < std::min(outputs.size(), wanted.size()); ++i) {
    EXPECT_EQ(outputs[i].scalar_type(), wanted[i].scalar_type()) << file << " out" << i;
    EXPECT_EQ(outputs[i].sizes(), wanted[i].sizes()) << file << " out" << i;
    if (outputs[i].sizes() == wanted[i].sizes()) {
      largest = std::max(largest, difference(outputs[i], wanted[i]));
    }
  }
  return largest;
}

}  // namespace exporters::testing
