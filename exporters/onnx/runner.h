#pragma once

#include "exporters/onnx/emit/model.h"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exporters::onnx {

struct OnnxRunnerOptions {
  /// Execution providers in order of preference, by ONNX Runtime's names ("CUDAExecutionProvider" or "CUDA"), each with
  /// its options. Empty: the CPU.
  std::vector<std::pair<std::string, std::map<std::string, std::string>>> providers;
  /// ONNX Runtime's session configuration entries, for example {"session.disable_prepacking", "1"}.
  std::map<std::string, std::string> session_config;
  /// Keep weights, and what ONNX Runtime packs of them, once for all sessions of this process whose models lie in one
  /// folder: components of one export have the same. For the CPU.
  bool share_weights = false;
  /// A folder that keeps the model as ONNX Runtime runs it on this machine, with its weights packed: made at the first
  /// load, mapped by later ones, also of other processes, which then need neither time nor memory of their own for
  /// that. Made anew when the model, ONNX Runtime, the processor or other options change. One folder for each model; as
  /// large as the weights and their packed form together. For the CPU; share_weights has no effect beside it.
  std::filesystem::path packed_weights;
  /// Threads of one operator; 0: as many as the CPUs that this process may use.
  int threads = 0;
  /// 0 none, 1 basic, 2 extended, 99 all.
  int graph_optimization = 99;
  /// ONNX Runtime's own messages: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.
  int log_severity = 4;
};

/// Runs an .onnx file with ONNX Runtime. Inputs and outputs are bound in place, nothing is copied for contiguous CPU
/// tensors. `run` may be called from several threads at once.
class OnnxRunner {
 public:
  using Inputs = std::map<std::string, at::Tensor>;
  using Outputs = std::vector<std::pair<std::string, at::Tensor>>;

  /// Loads a model. External data is checked before ONNX Runtime sees the file.
  /// Throws Error for a damaged or foreign file, for external data that is missing, too short or outside the folder,
  /// and for what ONNX Runtime refuses (an operator or opset it does not have).
  explicit OnnxRunner(const std::filesystem::path& path, const OnnxRunnerOptions& options = {});
  ~OnnxRunner();
  OnnxRunner(OnnxRunner&&) noexcept;
  OnnxRunner& operator=(OnnxRunner&&) noexcept;

  /// In the model's order, with dtypes and dims (numbers, names, or unknown). All-digit names come as numbers.
  const std::vector<OnnxValueInfo>& inputs() const;
  const std::vector<OnnxValueInfo>& outputs() const;
  /// The model's metadata entries.
  const OnnxMetadata& metadata() const;

  /// Runs once. `inputs` holds a tensor for each input of the model, of its dtype and rank, with the sizes that the
  /// model fixes; other entries are an error. Tensors in `outputs` are written in place: an exact shape and dtype,
  /// contiguous. Gives every output in the model's order; those not given are allocated.
  /// Throws Error that names the input, what was expected and what came.
  Outputs run(const Inputs& inputs, const Inputs& outputs = {}) const;

  /// As `run`, for a caller that has no more use for the caches among its inputs. An output that is an input with some
  /// elements replaced is written where the input is. A cache that GroupQueryAttention appends to lies in a buffer with
  /// room behind it: an output is the first places of the buffer, and a call that gets it as input writes the new ones
  /// behind, in the same memory, as long as there is room and no other tensor shares it. For that on the CPU, another
  /// input has to have an axis of the cache's new length, such as a mask over all tokens.
  Outputs run_in_place(Inputs inputs) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// ONNX Runtime's version, "1.32.0".
std::string onnxruntime_version();

}  // namespace exporters::onnx
