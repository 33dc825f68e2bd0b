#pragma once

#include "exporters/framework/exporter.h"
#include "exporters/interpreter/interpreter.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace exporters {

/// A traced program as a backend's own form.
class DynamoProgram : public BackendProgram {
 public:
  /// One that comes from a file can be looked at whatever it calls; it is run only if refuse_unknown_ops lets it pass,
  /// and lowered only if refuse_false_metadata does too.
  enum class Origin { kTrace, kFile };

  explicit DynamoProgram(std::shared_ptr<ExportedProgram> program, Origin origin = Origin::kTrace)
      : program_(std::move(program)), origin_(origin) {}

  const std::shared_ptr<ExportedProgram>& program() const { return program_; }
  /// To be lowered. Throws Error for a program from a file that calls unknown ops or says what is not so of its values.
  std::shared_ptr<ExportedProgram> traced() const override;
  /// To be run. Throws Error for a program from a file that calls unknown ops.
  std::shared_ptr<const ExportedProgram> runnable() const;

 private:
  std::shared_ptr<ExportedProgram> program_;
  Origin origin_;
};

/// Traces a model into an ExportedProgram, which is saved as .pt2. The base of every exporter that starts from a traced
/// program: such a one overrides export_traced.
///
/// A trace goes through the stages of exporters/dynamo/stage1_….cpp to stage5_….cpp.
class DynamoExporter : public HfExporter {
 public:
  DynamoExporter();

  std::string export_format() const override { return "dynamo"; }
  std::string program_suffix() const override { return ".pt2"; }
  std::unique_ptr<ExportConfig> make_config() const override { return std::make_unique<DynamoConfig>(); }
  std::string patch_backend(const ExportConfig& config) const override;
  void save_program(const BackendProgram& program, const std::filesystem::path& file) const override;
  std::shared_ptr<BackendProgram> load_program(const std::filesystem::path& file) const override;
  ExportedComponent open_program(const std::filesystem::path& file) const override;
  ProgramDescription describe_program(const BackendProgram& program) const override;
  std::vector<Stage> stages() const override;

 protected:
  /// Prepares the inputs, traces, and hands the program to export_traced. Throws Error for what cannot be traced, and
  /// for a config that is no DynamoConfig.
  ExportedComponent export_program(const ExportSource& model, const NamedInputs& sample_inputs,
                                   ExportConfig& config) const override;
  /// Throws Error for a program that was traced in training mode.
  ExportedComponent export_traced(TracedModel traced, ExportConfig& config) const override;
};

/// Runs a component with the interpreter. Inputs are bound by their dotted paths, so that a container's structure is
/// all that matters of it.
class DynamoRunner : public ModelRunner {
 public:
  explicit DynamoRunner(const ExportedComponent& component);
  PyTree run(const NamedInputs& inputs) override;

 private:
  struct Input {
    std::string path;
    bool is_integer = false;  ///< a number, not a tensor
    Argument constant;        ///< of a leaf that is a constant
    bool is_constant = false;
  };

  Interpreter interpreter_;
  std::vector<Input> inputs_;
};

/// Registers the format "dynamo". Called once by a program that uses it.
void register_dynamo_backend();

}  // namespace exporters
