#pragma once

#include "exporters/framework/exporter.h"

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace exporters {

/// Makes a runner of one component of an export.
using RunnerFactory = std::function<std::unique_ptr<ModelRunner>(const ExportedComponent&)>;

/// Adds a backend; a second one of the same format replaces the first, with a warning.
void register_backend(std::shared_ptr<const HfExporter> exporter, RunnerFactory make_runner = {});

template <typename Exporter>
void register_backend() {
  static_assert(std::is_base_of_v<HfExporter, Exporter>, "a backend derives from HfExporter");
  register_backend(std::make_shared<const Exporter>());
}

/// `Runner` is constructed from the component that it runs.
template <typename Exporter, typename Runner>
void register_backend() {
  static_assert(std::is_base_of_v<HfExporter, Exporter>, "a backend derives from HfExporter");
  static_assert(std::is_base_of_v<ModelRunner, Runner>, "a runner derives from ModelRunner");
  static_assert(std::is_constructible_v<Runner, const ExportedComponent&>, "a runner is made of an ExportedComponent");
  register_backend(std::make_shared<const Exporter>(),
                   [](const ExportedComponent& component) { return std::make_unique<Runner>(component); });
}

/// Throws Error that lists the registered formats.
const HfExporter& exporter_for(std::string_view format);
/// The exporter whose program suffix the file has. Throws Error that lists the known suffixes.
const HfExporter& exporter_for_file(const std::filesystem::path& file);
/// Throws Error when the format is unknown or has no runner.
std::unique_ptr<ModelRunner> make_runner(std::string_view format, const ExportedComponent& component);
std::vector<std::string> registered_formats();

namespace AutoExportConfig {
/// The config of the format that "export_format" names, with the other fields set. Throws Error.
std::unique_ptr<ExportConfig> from_dict(const nlohmann::json& values);
}  // namespace AutoExportConfig

namespace AutoHfExporter {
const HfExporter& from_config(const ExportConfig& config);
}  // namespace AutoHfExporter

}  // namespace exporters
