#pragma once

#include "exporters/dynamo/exporter.h"
#include "exporters/executorch/emit/memory_plan.h"
#include "exporters/executorch/emit/program.h"
#include "exporters/executorch/program_facts.h"
#include "exporters/executorch/recipe.h"
#include "exporters/executorch/runner.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace exporters::executorch {

/// Fields and defaults of the reference's ExecutorchConfig, and what it has no field for.
class ExecutorchConfig : public exporters::ExecutorchConfig {
 public:
  /// Largest sizes by axis name ("batch"), symbol ("s0"), or input and axis ("input_ids.0"): where the model's config
  /// does not say, memory cannot be planned without.
  std::map<std::string, int64_t> max_dims;
  /// An export of several components is one file, in which each is a method of its name: weights are there once, also
  /// while they run. The reference reads folders with a file for each.
  bool combined = false;
  /// Generation with a static cache: the cache is state of the program, written in place, instead of an input and an
  /// output. Needs `combined`, since prefill and decode have it in common.
  bool keeps_cache = false;
  /// "int8": weights of linear layers rounded with a scale for each output channel, their inputs at run time with a
  /// scale for each row. Nothing: as the model has them.
  std::optional<std::string> quantize_linear;
  /// Not a field: what axes of the other components of an export are called. max_dims may name them.
  std::set<std::string> axes_elsewhere;

  std::vector<ConfigField> fields() override;
  /// Throws Error for a backend that is not registered, with those that are, and for a cache that is kept in several
  /// files.
  void validate() const override;
};

/// The runner of a file, opened when it is first asked for: components of one file have one.
class SharedRunner {
 public:
  std::shared_ptr<ExecutorchRunner> of(const std::filesystem::path& file);

 private:
  std::mutex mutex_;
  std::shared_ptr<ExecutorchRunner> runner_;
};

/// A program in memory, whose weights may still lie in the checkpoint's files, or one that lies in a file.
class ExecutorchProgram : public BackendProgram {
 public:
  /// `memory`: what planning its memory anew takes; nothing where it was lowered elsewhere.
  explicit ExecutorchProgram(Program program, std::optional<MethodMemory> memory = {});
  explicit ExecutorchProgram(std::filesystem::path file) : file_(std::move(file)) {}
  /// A method of a program that other components have in common.
  ExecutorchProgram(std::shared_ptr<const Program> program, std::string method)
      : program_(std::move(program)), method_(std::move(method)) {}
  ExecutorchProgram(std::filesystem::path file, std::string method, std::shared_ptr<SharedRunner> runner)
      : file_(std::move(file)), method_(std::move(method)), runner_(std::move(runner)) {}

  /// The program in memory, or else as it is read from the file.
  std::shared_ptr<const Program> program() const;
  const std::filesystem::path& file() const { return file_; }  ///< of a program that is not in memory; else empty
  const std::string& method() const { return method_; }        ///< of several; empty: the only one
  const std::optional<MethodMemory>& memory() const { return memory_; }
  /// Runs the file. Throws Error for a program that is not in one.
  std::shared_ptr<ExecutorchRunner> runner() const;

 private:
  std::shared_ptr<const Program> program_;
  std::filesystem::path file_;
  std::string method_;
  std::optional<MethodMemory> memory_;
  std::shared_ptr<SharedRunner> runner_ = std::make_shared<SharedRunner>();
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
  void save_programs(const std::vector<std::pair<std::string, const BackendProgram*>>& programs,
                     const std::filesystem::path& folder, const std::filesystem::path& target) const override;
  std::shared_ptr<BackendProgram> load_program(const std::filesystem::path& file) const override;
  std::vector<std::shared_ptr<BackendProgram>> load_programs(
      const std::vector<std::pair<std::string, std::filesystem::path>>& files) const override;
  std::string program_file(const std::string& component, const BackendProgram& program) const override;
  ExportedComponent open_program(const std::filesystem::path& file) const override;
  ProgramDescription describe_program(const BackendProgram& program) const override;
  bool keeps_cache(const ExportMetadata& metadata) const override;
  std::vector<Stage> stages() const override;

 protected:
  void prepare_components(std::vector<ComponentExport>& components) const override;
  void join_components(std::vector<std::pair<std::string, ExportedComponent>>& components) const override;
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

  std::shared_ptr<ExecutorchRunner> runner_;
  std::string method_;
  std::optional<ProgramFacts> facts_;
  std::vector<Input> inputs_;
  TreeSpec out_spec_;
};

/// What the program says of itself, or of one of its methods; nothing for one that another exporter made.
std::optional<ProgramFacts> facts_of(const Program& program, std::string_view method = {});

/// The table by which ops are taken apart: the point "exporters.executorch.edge_decompositions", for patches.
DecompositionTable patched_decompositions();

/// Registers the format "executorch" and what its stages consist of. A second call registers the format anew, the
/// stages not.
void register_executorch_format();

}  // namespace exporters::executorch
