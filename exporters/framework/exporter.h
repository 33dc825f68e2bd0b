#pragma once

#include "exporters/framework/export_config.h"
#include "exporters/framework/metadata.h"
#include "exporters/framework/stages.h"
#include "exporters/graph/exported_program.h"
#include "exporters/patching/effects.h"
#include "exporters/trace/trace.h"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// What an axis of an input is called ("batch", "sequence") and its largest size.
struct AxisLabel {
  std::string name;
  int64_t max = Range::kMax;
};
/// Input path → axis → label.
using AxisLabels = std::map<std::string, std::map<int64_t, AxisLabel>>;

/// A model to export, whatever it was before: a forward with its state.
struct ExportSource {
  std::string architecture;  ///< class name: "BertModel"
  std::vector<TracedState> state;
  std::function<PyTree(const NamedInputs&)> forward;
  std::string config_json;  ///< the model's config.json; empty if it has none
  AxisLabels axis_labels;
};

/// A program in a backend's own form.
class BackendProgram {
 public:
  virtual ~BackendProgram() = default;
};

/// Runs one component. Inputs come by name as in the forward; the result is what the forward returned.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual PyTree run(const NamedInputs& inputs) = 0;
};

/// A component of an export: its program and what export.json says of it.
struct ExportedComponent {
  std::shared_ptr<BackendProgram> program;
  ExportMetadata metadata;
  std::vector<Effect> effects;  ///< patches and fixes that took effect; empty for a loaded export
};

/// An input or output of a program as a person reads it.
struct ValueDescription {
  std::string name;
  std::string dtype;              ///< "int64"
  std::vector<std::string> dims;  ///< "batch", "8", "?"
};

/// What `hfx inspect` shows of a program.
struct ProgramDescription {
  std::vector<ValueDescription> inputs;
  std::vector<ValueDescription> outputs;
  std::vector<std::string> conditions;                     ///< on sizes: "sequence <= 512"
  std::map<std::string, int64_t> ops;                      ///< operator → how often
  std::vector<std::pair<std::string, std::string>> facts;  ///< "opset" → "23"
};

class ExportedModel;

/// A backend: exports a model into programs of one format. Derive, and register with register_backend.
class HfExporter {
 public:
  virtual ~HfExporter() = default;

  virtual std::string export_format() const = 0;                  ///< "onnx"
  virtual std::string program_suffix() const = 0;                 ///< ".onnx"
  virtual std::unique_ptr<ExportConfig> make_config() const = 0;  ///< with default values
  virtual ExportedComponent export_program(const ExportSource& model, const NamedInputs& sample_inputs,
                                           ExportConfig& config) const = 0;
  /// Writes the program and its side files. `file` lies in a folder that is being built.
  virtual void save_program(const BackendProgram& program, const std::filesystem::path& file) const = 0;
  virtual std::shared_ptr<BackendProgram> load_program(const std::filesystem::path& file) const = 0;
  /// The files that make up a program saved as `file`, the file itself first.
  virtual std::vector<std::string> program_files(const std::string& file) const { return {file}; }

  /// A lone program file with metadata made from what it says of itself: outputs are a dict by name.
  virtual ExportedComponent open_program(const std::filesystem::path& file) const;
  virtual ProgramDescription describe_program(const BackendProgram& program) const;

  /// The stages of an export, with what is registered in each: made from the registries.
  virtual std::vector<Stage> stages() const { return {}; }

  /// One forward as the single component "model".
  ExportedModel export_model(const ExportSource& model, const NamedInputs& sample_inputs, ExportConfig& config) const;

 protected:
  /// `export_program`, with the patches and fixes that took effect in the component.
  ExportedComponent export_component(const ExportSource& model, const NamedInputs& sample_inputs,
                                     ExportConfig& config) const;
};

}  // namespace exporters
