#pragma once

#include "exporters/dynamo/exporter.h"
#include "exporters/executorch/emit/program.h"
#include "exporters/executorch/program_facts.h"
#include "exporters/executorch/recipe.h"
#include "exporters/executorch/runner.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exporters::executorch {

/// Fields and defaults of the reference's ExecutorchConfig, and what it has no field for.
class ExecutorchConfig : public exporters::ExecutorchConfig {
 public:
  /// Largest sizes by axis name ("batch"), symbol ("s0"), or input and axis ("input_ids.0"): where the model's config
  /// does not say, memory cannot be planned without.
  std::map<std::string, int64_t> max_dims;

  std::vector<ConfigField> fields() override;
  /// Throws Error for a backend that is not registered, with those that are.
  void validate() const override;
};

/// A program in memory, whose weights may still lie in the checkpoint's files, or one that lies in a file.
class ExecutorchProgram : public BackendProgram {
 public:
  explicit ExecutorchProgram(Program program) : program_(std::make_shared<const Program>(std::move(program))) {}
  explicit ExecutorchProgram(std::filesystem::path file) : file_(std::move(file)) {}

  /// The program in memory, or else as it is read from the file.
  std::shared_ptr<const Program> program() const;
  const std::filesystem::path& file() const { return file_; }  ///< of a program that is not in memory; else empty

 private:
  std::shared_ptr<const Program> program_;
  std::filesystem::path file_;
};

/// Exports to .pte, in five stages: exporters/executorch/stage1_….cpp to stage5_….cpp.
class ExecutorchExporter : public DynamoExporter {
 public:
  std::string export_format() const override { return "executorch"; }
  std::string program_suffix() const override { return ".pte"; }
  std::unique_ptr<ExportConfig> make_config() const override { return std::make_unique<ExecutorchConfig>(); }
  std::string patch_backend(const ExportConfig& config) const override;
  ExportedComponent export_program(const ExportSource& model, const NamedInputs& sample_inputs,
                                   ExportConfig& config) const override;
  ExportedComponent export_traced(TracedModel traced, ExportConfig& config) const override;
  void save_program(const BackendProgram& program, const std::filesystem::path& file) const override;
  std::shared_ptr<BackendProgram> load_program(const std::filesystem::path& file) const override;
  ExportedComponent open_program(const std::filesystem::path& file) const override;
  ProgramDescription describe_program(const BackendProgram& program) const override;
  std::vector<Stage> stages() const override;
};

/// Runs a component on ExecuTorch's runtime. Inputs are bound by their dotted paths; sizes and indices are checked
/// against what the export says before anything runs.
class ExecutorchComponentRunner : public ModelRunner {
 public:
  /// Throws Error when the export was not saved yet: the runtime reads the file.
  explicit ExecutorchComponentRunner(const ExportedComponent& component);
  PyTree run(const NamedInputs& inputs) override;

 private:
  struct Input {
    std::string path;
    std::optional<ExecutorchRunner::Value> constant;  ///< of a slot that is no tensor: what the program was made for
  };

  ExecutorchRunner runner_;
  std::optional<ProgramFacts> facts_;
  std::vector<Input> inputs_;
  TreeSpec out_spec_;
};

/// What the program says of itself; nothing for one that another exporter made.
std::optional<ProgramFacts> facts_of(const Program& program);

/// The table by which ops are taken apart: the point "exporters.executorch.edge_decompositions", for patches.
DecompositionTable patched_decompositions();

/// Registers the format "executorch" and what its stages consist of. A second call registers the format anew, the
/// stages not.
void register_executorch_format();

}  // namespace exporters::executorch
