#pragma once

#include "exporters/dynamo/exporter.h"
#include "exporters/onnx/emit/model.h"
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/index_limits.h"
#include "exporters/onnx/quantize/quantize_weights.h"
#include "exporters/onnx/runner.h"
#include "exporters/onnx/size_conditions.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exporters::onnx {

/// Fields and defaults of the reference's OnnxConfig.
class OnnxConfig : public DynamoConfig {
 public:
  std::optional<int64_t> opset_version;  ///< null: 23
  bool optimize = true;
  std::vector<std::string> disabled_passes;  ///< of the optimizer's, by name
  std::optional<std::string> ort_fusions;
  std::string weights = "copy";  ///< "copy", "link", "reference" or "inline": see WeightsMode
  /// "int8" or "int4": weights of products are rounded, see quantize_weights.
  std::optional<std::string> quantization;
  std::optional<int64_t> quantization_block_size;      ///< null: 32
  bool quantization_symmetric = true;                  ///< without zero points
  std::optional<int64_t> quantization_accuracy_level;  ///< of MatMulNBits; null: 4

  std::string export_format() const override { return "onnx"; }
  std::vector<ConfigField> fields() override;
  void validate() const override;
  /// Of the fields above, with their defaults.
  QuantizationOptions quantization_options() const;
};

/// A model in memory, or one that lies in a file.
class OnnxProgram : public BackendProgram {
 public:
  explicit OnnxProgram(OnnxModel model, WeightsMode weights = WeightsMode::kCopy,
                       std::optional<QuantizationSummary> quantization = std::nullopt)
      : model_(std::make_shared<const OnnxModel>(std::move(model))),
        weights_(weights),
        quantization_(std::move(quantization)) {}
  explicit OnnxProgram(std::filesystem::path file) : file_(std::move(file)) {}

  /// The model in memory, or else as it is read from the file.
  std::shared_ptr<const OnnxModel> model(const ReadOptions& options = {}) const;
  const std::filesystem::path& file() const { return file_; }  ///< of a model that is not in memory; else empty
  /// Where its weights are once it is saved. One that was loaded stands alone where it is saved again.
  WeightsMode weights() const { return weights_; }
  /// What was rounded, of a program that was exported; nothing for one that was loaded.
  const std::optional<QuantizationSummary>& quantization() const { return quantization_; }
  bool lies_beside_source() const override { return weights_ == WeightsMode::kReference; }

 private:
  std::shared_ptr<const OnnxModel> model_;
  std::filesystem::path file_;
  WeightsMode weights_ = WeightsMode::kCopy;
  std::optional<QuantizationSummary> quantization_;
};

/// Exports to .onnx with external data beside it.
class OnnxExporter : public DynamoExporter {
 public:
  std::string export_format() const override { return "onnx"; }
  std::string program_suffix() const override { return ".onnx"; }
  std::unique_ptr<ExportConfig> make_config() const override { return std::make_unique<OnnxConfig>(); }
  void save_program(const BackendProgram& program, const std::filesystem::path& file) const override;
  /// Weights that several programs have are written once.
  void save_programs(const std::vector<std::pair<std::string, const BackendProgram*>>& programs,
                     const std::filesystem::path& folder, const std::filesystem::path& target) const override;
  std::shared_ptr<BackendProgram> load_program(const std::filesystem::path& file) const override;
  std::vector<std::string> program_files(const std::string& file) const override { return {file, file + ".data"}; }
  /// Also the other files that hold weights of the model.
  std::vector<std::string> saved_files(const std::filesystem::path& file) const override;
  ExportedComponent open_program(const std::filesystem::path& file) const override;
  ProgramDescription describe_program(const BackendProgram& program) const override;
  std::vector<Stage> stages() const override;
  bool merges_generation(const ExportConfig& config) const override;

 protected:
  ExportedComponent export_traced(TracedModel traced, ExportConfig& config) const override;
};

/// Runs a component with ONNX Runtime. Inputs are bound by their dotted paths.
class OnnxComponentRunner : public ModelRunner {
 public:
  /// Throws Error when the export was not saved yet: ONNX Runtime reads weights from the folder.
  explicit OnnxComponentRunner(const ExportedComponent& component);
  /// The same with options of one's own. By default components that lie beside others share weights.
  OnnxComponentRunner(const ExportedComponent& component, const OnnxRunnerOptions& options);
  PyTree run(const NamedInputs& inputs) override;
  /// Caches of fixed length are written where they are, and those of GroupQueryAttention, which grow, stay in one
  /// buffer from call to call (OnnxRunner::run_in_place).
  PyTree run_in_place(NamedInputs inputs) override;

 private:
  OnnxRunner::Inputs bind(const NamedInputs& inputs) const;
  PyTree result(const OnnxRunner::Outputs& outputs) const;

  OnnxRunner runner_;
  SizeConditions conditions_;
  IndexLimits index_limits_;  ///< by the model's input names
  TreeSpec out_spec_;
  std::vector<std::pair<size_t, PyTree::Leaf>> out_constants_;
};

/// Registers the format "onnx" and what its stages consist of. A second call registers the format anew, the stages not.
void register_onnx_backend();

}  // namespace exporters::onnx
