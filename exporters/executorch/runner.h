#pragma once

#include "exporters/executorch/emit/program.h"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace exporters::executorch {

/// Runs a `.pte` file on ExecuTorch's C++ runtime, which lives in a library of its own with a name space of its own:
/// libtorch and ExecuTorch in one process neither see nor slow each other.
///
/// A runner keeps activations and state, so it takes one call at a time; several runners of one file run at once and
/// share nothing but the file's pages (each has its own state). Methods of one runner share the state that the program
/// says they share.
class ExecutorchRunner {
 public:
  using Value = std::variant<std::monostate, at::Tensor, int64_t, double, bool>;

  /// Reads and checks the file; methods load with their first run. Throws Error as read_program(), when the program
  /// needs a kernel or delegate that this runtime does not have (all are named), and when the runtime's library cannot
  /// be opened.
  explicit ExecutorchRunner(const std::filesystem::path& path);
  ~ExecutorchRunner();
  ExecutorchRunner(ExecutorchRunner&&) noexcept;
  ExecutorchRunner& operator=(ExecutorchRunner&&) noexcept;

  const Program& program() const;

  /// One call. Tensors are taken from any device and layout; sizes may be anything up to the program's bounds. Numbers
  /// among the inputs are fixed in the program: the runtime takes no others.
  /// Outputs are new tensors. Throws Error that names the input, the axis, the size and the bound, or says what the
  /// runtime complained about.
  std::vector<Value> run(std::span<const Value> inputs, std::string_view method = "forward");
  /// For methods whose inputs and outputs are tensors.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs, std::string_view method = "forward");

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Every kernel of the runtime, sorted: "aten::add.out". Throws Error when its library cannot be opened.
const std::vector<std::string>& runtime_kernels();

}  // namespace exporters::executorch
