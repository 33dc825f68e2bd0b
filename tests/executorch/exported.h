#pragma once

#include "exporters/executorch/exporter.h"
#include "tests/support/exported_forward.h"

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
using exporters::testing::source_of;
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

/// A forward exported by ExecutorchExporter and run on ExecuTorch's runtime.
class Exported : public exporters::testing::ExportedForward {
 public:
  /// Every axis is dynamic up to a bound.
  Exported(TensorForward forward, const Tensors& samples, const ExportedOptions& options = {});

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
  std::filesystem::path folder_;
  std::shared_ptr<const Program> program_;
};

/// `largest` for every named axis of the inputs, but for those whose largest size the model says itself and is less.
std::map<std::string, int64_t> largest_sizes(const ExportSource& source, const NamedInputs& inputs, int64_t largest);

/// The size that every named axis has in these inputs.
std::map<std::string, int64_t> named_sizes(const ExportSource& source, const NamedInputs& inputs);

/// Registers the format, once.
void use_executorch();

}  // namespace exporters::executorch::testing
