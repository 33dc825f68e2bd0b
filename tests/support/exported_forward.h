#pragma once

#include "exporters/framework/exported_model.h"
#include "tests/support/tensor_forward.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace exporters::testing {

/// The forward as something to export; `parameters` are what it uses by name.
inline ExportSource source_of(const TensorForward& forward, const std::map<std::string, at::Tensor>& parameters = {}) {
  ExportSource result;
  result.architecture = "Test";
  for (const auto& [name, tensor] : parameters) {
    result.state.push_back({name, tensor});
  }
  result.forward = on_named_inputs(forward);
  return result;
}

/// `actual` has the dtypes, the shapes and the values of `expected`, what is no floating number exactly.
inline void expect_tensors(const Tensors& actual, const Tensors& expected, const Tensors& inputs, double rtol,
                           double atol) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    std::ostringstream what;
    what << "output " << i << " of inputs like " << inputs[0] << "\nis " << actual[i] << "\nnot " << expected[i];
    ASSERT_EQ(actual[i].scalar_type(), expected[i].scalar_type()) << what.str();
    ASSERT_EQ(actual[i].sizes(), expected[i].sizes()) << what.str();
    const bool exact = !c10::isFloatingType(expected[i].scalar_type());
    EXPECT_TRUE(exact ? at::equal(actual[i], expected[i])
                      : at::allclose(actual[i], expected[i], rtol, atol, /*equal_nan=*/true))
        << what.str();
  }
}

/// A forward that an exporter exported, all stages included: saved, read back and run by the format's runtime. Its
/// inputs are "x0", "x1", …
class ExportedForward {
 public:
  /// What the runtime gives; any sizes.
  Tensors run(const Tensors& inputs) const {
    Tensors outputs;
    for (const auto& [path, tensor] : (*loaded_)(named(inputs)).tensors()) {
      outputs.push_back(tensor);
    }
    return outputs;
  }

 protected:
  explicit ExportedForward(TensorForward forward) : forward_(std::move(forward)) {}

  /// Runs it on each of the inputs and compares with the forward, which may write to what it gets.
  void expect_as_forward(const std::vector<Tensors>& inputs, double rtol, double atol) const {
    for (const Tensors& each : inputs) {
      Tensors copies;
      for (const at::Tensor& tensor : each) {
        copies.push_back(tensor.clone());
      }
      expect_tensors(run(each), forward_(copies), each, rtol, atol);
    }
  }

  TensorForward forward_;
  std::shared_ptr<const ExportedModel> loaded_;
};

}  // namespace exporters::testing
