#pragma once

#include "exporters/framework/exporter.h"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace exporters {

/// An export as a folder holds it: components, the model's config and how to run them. The folder is the one that the
/// reference writes and reads.
class ExportedModel {
 public:
  using Components = std::vector<std::pair<std::string, ExportedComponent>>;

  ExportedModel(std::string export_format, Components components, std::string config_json = {});

  const std::string& export_format() const { return export_format_; }
  const Components& components() const { return components_; }
  const std::string& config_json() const { return config_json_; }
  /// The only component. Throws Error when there are several: name one.
  const ExportedComponent& component() const;
  const ExportedComponent& component(std::string_view name) const;

  /// Writes `<component><suffix>` for each, export.json and config.json, all or nothing: a failed save leaves what was
  /// there before. Throws Error.
  void save_pretrained(const std::filesystem::path& folder) const;
  /// Reads a folder that this class or the reference wrote. Throws Error naming the file and field that is wrong; a
  /// component whose file lies outside the folder is refused.
  static ExportedModel from_pretrained(const std::filesystem::path& folder);

  /// Runs the only component. Inputs it was not traced with are dropped with one warning; missing ones are an Error
  /// that lists them. Throws Error when the format has no runner.
  PyTree operator()(const NamedInputs& inputs) const;
  PyTree run(std::string_view component, const NamedInputs& inputs) const;

 private:
  PyTree run(size_t index, const NamedInputs& inputs) const;
  ModelRunner& runner(size_t index) const;

  struct Runners {
    std::mutex mutex;
    std::map<size_t, std::unique_ptr<ModelRunner>> by_component;
  };

  std::string export_format_;
  Components components_;
  std::string config_json_;
  std::shared_ptr<Runners> runners_ = std::make_shared<Runners>();
};

}  // namespace exporters
