#pragma once

#include "exporters/framework/exporter.h"
#include "exporters/generation/generator.h"
#include "exporters/models/config.h"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace exporters {

/// An export as a folder holds it: components, the model's config and how to run them. The folder is the one that the
/// reference writes and reads.
class ExportedModel {
 public:
  using Components = std::vector<std::pair<std::string, ExportedComponent>>;

  ExportedModel(std::string export_format, Components components, std::string config_json = {},
                std::string generation_config_json = {});

  const std::string& export_format() const { return export_format_; }
  const Components& components() const { return components_; }
  const std::string& config_json() const { return config_json_; }  ///< empty where there is none
  const std::string& generation_config_json() const { return generation_config_json_; }
  /// The model's config; nothing where the export has none.
  std::optional<models::ModelConfig> config() const;
  /// What the first component was traced with. Throws Error where the export does not say.
  c10::ScalarType dtype() const;
  c10::Device device() const;
  /// The only component. Throws Error when there are several: name one.
  const ExportedComponent& component() const;
  const ExportedComponent& component(std::string_view name) const;

  /// Writes `<component><suffix>` for each, export.json, config.json and generation_config.json, all or nothing: a save
  /// that fails or is killed leaves what was there before. Files of an earlier export go, others stay. A folder that
  /// holds a checkpoint is refused, unless the programs point into it (BackendProgram::lies_beside_source) and the
  /// configs say the same as its own, which stay. Throws Error.
  void save_pretrained(const std::filesystem::path& folder) const;
  /// Reads a folder that this class or the reference wrote. Throws Error naming the file and field that is wrong; a
  /// component whose file lies outside the folder is refused.
  static ExportedModel from_pretrained(const std::filesystem::path& folder);

  /// Runs the only component. Inputs that it was not traced with are dropped with one warning. Throws Error that lists
  /// missing ones, for constants with another value than the traced one, for dtypes and sizes that the program does not
  /// take, with those that it takes, and when the format has no runner.
  PyTree operator()(const NamedInputs& inputs) const;
  PyTree run(std::string_view component, const NamedInputs& inputs) const;
  /// ModelRunner::run_in_place of a component, which has to take all of the inputs.
  PyTree run_in_place(std::string_view component, NamedInputs inputs) const;

  /// Generation by the components "prefill" and "decode", or by "decode" alone, and "encoder" where the model has one:
  /// those of export_for_generation here and in the reference. `settings` go over generation_config.json. Throws Error
  /// for settings as read_generation_config says, and when a component is missing.
  Generator generator(const GenerationSettings& settings = {}) const;
  /// generator(settings).generate(inputs, on_tokens)
  at::Tensor generate(const NamedInputs& inputs, const GenerationSettings& settings = {},
                      const TokenCallback& on_tokens = {}) const;

 private:
  size_t index_of(std::string_view component) const;
  PyTree run(size_t index, const NamedInputs& inputs) const;
  ModelRunner& runner(size_t index) const;

  struct Runners {
    std::mutex mutex;
    std::map<size_t, std::unique_ptr<ModelRunner>> by_component;
  };

  std::string export_format_;
  Components components_;
  std::string config_json_;
  std::string generation_config_json_;
  std::shared_ptr<Runners> runners_ = std::make_shared<Runners>();
};

}  // namespace exporters
