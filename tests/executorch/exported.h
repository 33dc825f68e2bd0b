#pragma once

#include "exporters/executorch/exporter.h"
#include "exporters/framework/exported_model.h"
#include "tests/support/tensor_forward.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace exporters::executorch::testing {

using exporters::testing::named;
using exporters::testing::TensorForward;
using exporters::testing::Tensors;

struct ExportedOptions {
  std::string backend = "xnnpack";
  std::map<std::string, at::Tensor> parameters = {};  ///< what the forward uses by name: weights
  int64_t largest = 16;                               ///< the bound of every axis
  bool dynamic = true;
  std::set<std::string> static_axes = {};  ///< "x0.1"
  std::optional<std::string> quantize_linear = {};
};

/// A forward exported by ExecutorchExporter, all stages included: saved, read back and run on ExecuTorch's runtime.
class Exported {
 public:
  /// Inputs are "x0", "x1", …; every axis is dynamic up to a bound.
  Exported(TensorForward forward, const Tensors& samples, const ExportedOptions& options = {});

  Tensors run(const Tensors& inputs) const;
  /// Runs it on each of the inputs and compares with the forward: dtypes, shapes and values. The last call is kept for
  /// the check with executorch's Python.
  void expect_as_eager(const std::vector<Tensors>& inputs, double tolerance = 1e-5) const;

  const Program& program() const { return *program_; }
  const Method& method() const { return program_->methods.at(0); }
  ProgramFacts facts() const { return *facts_of(*program_); }
  /// How often the kernel is called ("aten::add.out"), or the delegate ("XnnpackBackend").
  int64_t count(const std::string& op) const;
  std::filesystem::path file() const { return folder_ / "model.pte"; }

 private:
  TensorForward forward_;
  std::filesystem::path folder_;
  std::shared_ptr<const ExportedModel> loaded_;
  std::shared_ptr<const Program> program_;
};

/// `largest` for every named axis of the inputs, but for those whose largest size the model says itself and is less.
std::map<std::string, int64_t> largest_sizes(const ExportSource& source, const NamedInputs& inputs, int64_t largest);

/// Registers the format, once.
void use_executorch();

/// The forward as something to export.
ExportSource source_of(const TensorForward& forward, const std::map<std::string, at::Tensor>& parameters = {});

}  // namespace exporters::executorch::testing
