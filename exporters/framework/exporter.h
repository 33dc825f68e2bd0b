#pragma once

#include "exporters/framework/export_config.h"
#include "exporters/framework/metadata.h"
#include "exporters/framework/quantization_summary.h"
#include "exporters/framework/stages.h"
#include "exporters/graph/exported_program.h"
#include "exporters/graph/index_limits.h"
#include "exporters/patching/effects.h"
#include "exporters/trace/trace.h"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// What an axis of an input is called ("batch"; nothing: the model fixes its size) and its largest size.
struct AxisLabel {
  std::string name;
  int64_t max = Range::kMax;
};
/// Input path → axis → label.
using AxisLabels = std::map<std::string, std::map<int64_t, AxisLabel>>;

/// A forward of a model, called with its inputs by name.
using Forward = std::function<PyTree(const NamedInputs& inputs)>;

/// An attribute of a module in which a forward keeps something from one call to the next.
struct ModuleAttribute {
  std::string name;  ///< full: "layers.0.cached_rotary_positional_embedding"
  at::Tensor* tensor = nullptr;
};

/// A model to export, whatever it was before: a forward with its state.
struct ExportSource {
  std::string architecture;  ///< class name: "BertModel"
  std::vector<TracedState> state;
  Forward forward;
  std::string config_json;  ///< the model's config.json; empty if it has none
  AxisLabels axis_labels;
  IndexLimits index_limits;  ///< of inputs that hold indices; runners check them as the model itself would
  /// The forward with these output flags (output_attentions, use_cache, …) in place of what the config says; flags that
  /// the model does not have are passed over, as in the reference. The model itself does not change. Empty where the
  /// model has no config.
  std::function<Forward(const NamedInputs& output_flags)> with_output_flags = {};
  /// Attributes that may hold what an earlier forward left behind; those whose names are registered are cleared for the
  /// trace and restored after it. They have to live as long as the source.
  std::vector<ModuleAttribute> attributes = {};
};

/// A program in a backend's own form.
class BackendProgram {
 public:
  virtual ~BackendProgram() = default;
  /// The traced program, where this form is one: what other formats can be made from. It may be changed. Else null.
  virtual std::shared_ptr<ExportedProgram> traced() const { return nullptr; }
  /// Once it is saved, it points into the files that it was made from: their folder, or one above it, is where it goes,
  /// and what is there stays as it is.
  virtual bool lies_beside_source() const { return false; }
};

/// Runs one component. Inputs come by name as in the forward; the result is what the forward returned.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  virtual PyTree run(const NamedInputs& inputs) = 0;
  /// As run, for a loop that has no more use for the cache it passes: where the format writes a cache in place, that of
  /// the result lies in the same memory.
  virtual PyTree run_in_place(NamedInputs inputs) { return run(inputs); }
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
  std::optional<QuantizationSummary> quantization;         ///< of an export that rounded weights
};

/// A traced forward on its way into a format.
struct TracedModel {
  std::shared_ptr<ExportedProgram> program;
  ExportMetadata metadata;   ///< what export.json says of it, but for the packages and constants of a backend
  AxisLabels axis_labels;    ///< names for axes that have no Dim; empty for a loaded program
  IndexLimits index_limits;  ///< what the model says of inputs that hold indices; empty for a loaded program
};

class ExportedModel;
struct GenerationExport;

/// One program on its way into an export of several.
struct ComponentExport {
  std::string name;  ///< "prefill"
  ExportSource source;
  NamedInputs sample_inputs;
  ExportConfig* config = nullptr;
};

/// A backend: exports a model into programs of one format. Derive, and register with register_backend.
class HfExporter {
 public:
  virtual ~HfExporter() = default;

  virtual std::string export_format() const = 0;                  ///< "onnx"
  virtual std::string program_suffix() const = 0;                 ///< ".onnx"
  virtual std::unique_ptr<ExportConfig> make_config() const = 0;  ///< with default values
  /// Whose patches are in force during an export: the format, or the format and a target ("executorch.xnnpack"). Empty:
  /// none but those of the trace.
  virtual std::string patch_backend(const ExportConfig&) const { return export_format(); }
  /// Writes the program and its side files. `file` lies in a folder that is being built.
  virtual void save_program(const BackendProgram& program, const std::filesystem::path& file) const = 0;
  /// Writes the programs of one export, by file name, into a folder that is being built and will be `target`. By
  /// default one after the other; a format may keep once what they have in common.
  virtual void save_programs(const std::vector<std::pair<std::string, const BackendProgram*>>& programs,
                             const std::filesystem::path& folder, const std::filesystem::path& target) const;
  virtual std::shared_ptr<BackendProgram> load_program(const std::filesystem::path& file) const = 0;
  /// Opens the programs of one export, by component, each with its file. By default one by one; components of one file
  /// may share what they open.
  virtual std::vector<std::shared_ptr<BackendProgram>> load_programs(
      const std::vector<std::pair<std::string, std::filesystem::path>>& files) const;
  /// The name of a component's file. Several components may have one in common, which save_programs then gets for each.
  virtual std::string program_file(const std::string& component, const BackendProgram& program) const;
  /// The files that make up a program saved as `file`, the file itself first.
  virtual std::vector<std::string> program_files(const std::string& file) const { return {file}; }
  /// All files that a saved program is made of, by names relative to its folder: program_files, and what a format has
  /// beyond them. Of those, the next export to the folder replaces the ones that are named after a program file
  /// ("model.onnx.data.2"); others are the user's. Throws Error for a program that cannot be read.
  virtual std::vector<std::string> saved_files(const std::filesystem::path& file) const;

  /// A lone program file with metadata made from what it says of itself: outputs are a dict by name.
  virtual ExportedComponent open_program(const std::filesystem::path& file) const;
  virtual ProgramDescription describe_program(const BackendProgram& program) const;

  /// Whether generation with this config is one component for prompts and single tokens, unless the
  /// request says.
  virtual bool merges_generation(const ExportConfig&) const { return false; }
  /// Whether the component's program holds the cache of a generation itself: it neither takes nor gives one.
  virtual bool keeps_cache(const ExportMetadata&) const { return false; }

  /// The stages of an export, with what is registered in each: made from the registries.
  virtual std::vector<Stage> stages() const { return {}; }

  /// One forward in the format, and which patches and fixes took effect. The backend's patches are in force meanwhile,
  /// on this thread.
  ExportedComponent export_component(const ExportSource& model, const NamedInputs& sample_inputs,
                                     ExportConfig& config) const;
  /// The same for a program that was traced elsewhere, such as a .pt2 of Python; it may be changed.
  ExportedComponent export_component(TracedModel traced, ExportConfig& config) const;

  /// One forward as the single component "model".
  ExportedModel export_model(const ExportSource& model, const NamedInputs& sample_inputs, ExportConfig& config) const;
  ExportedModel export_model(TracedModel traced, ExportConfig& config) const;
  /// Several components, with the model's configs as JSON texts. An Error of one names it.
  ExportedModel export_components(const std::vector<ComponentExport>& components, const std::string& config_json,
                                  const std::string& generation_config_json) const;
  /// Every program that generation by a model needs (framework/generation_export.h).
  ExportedModel export_for_generation(const GenerationExport& request) const;

 protected:
  // For exports of several components: changes what is exported before any of it is, and gives the components what they
  // have in common once all are there. By default neither does anything.
  virtual void prepare_components(std::vector<ComponentExport>& components) const;
  virtual void join_components(std::vector<std::pair<std::string, ExportedComponent>>& components) const;

  // What a backend gives: called by export_component, which puts the patches in force.
  virtual ExportedComponent export_program(const ExportSource& model, const NamedInputs& sample_inputs,
                                           ExportConfig& config) const = 0;
  /// By default an Error: the backend takes models only.
  virtual ExportedComponent export_traced(TracedModel traced, ExportConfig& config) const;

 private:
  ExportedComponent export_with_patches(ExportConfig& config, const std::function<ExportedComponent()>& exported) const;
};

}  // namespace exporters
