#include "exporters/framework/registry.h"

#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

namespace exporters {
namespace {

struct Backend {
  std::shared_ptr<const HfExporter> exporter;
  RunnerFactory make_runner;
};

struct Backends {
  std::shared_mutex mutex;
  std::map<std::string, Backend, std::less<>> by_format;
  std::vector<std::shared_ptr<const HfExporter>> replaced;  // references given out stay valid
};

Backends& backends() {
  static Backends instance;
  return instance;
}

Backend find(std::string_view format) {
  Backends& all = backends();
  const std::shared_lock lock(all.mutex);
  if (const auto it = all.by_format.find(format); it != all.by_format.end()) {
    return it->second;
  }
  std::vector<std::string> known;
  for (const auto& [name, backend] : all.by_format) {
    known.push_back(name);
  }
  const std::string near = did_you_mean(format, known);
  throw Error(fmt::format("no export format {}", quote(format)), {},
              fmt::format("{}{}Registered formats: {}.", near, near.empty() ? "" : " ",
                          known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
}

}  // namespace

void register_backend(std::shared_ptr<const HfExporter> exporter, RunnerFactory make_runner) {
  Backends& all = backends();
  const std::unique_lock lock(all.mutex);
  Backend& slot = all.by_format[exporter->export_format()];
  if (slot.exporter != nullptr) {
    log_warning("the backend of the format '{}' is replaced", exporter->export_format());
    all.replaced.push_back(slot.exporter);
  }
  slot = {std::move(exporter), std::move(make_runner)};
}

const HfExporter& exporter_for(std::string_view format) { return *find(format).exporter; }

const HfExporter& exporter_for_file(const std::filesystem::path& file) {
  Backends& all = backends();
  const std::shared_lock lock(all.mutex);
  std::string known;
  for (const auto& [name, backend] : all.by_format) {
    if (file.extension() == backend.exporter->program_suffix()) {
      return *backend.exporter;
    }
    known += (known.empty() ? "" : ", ") + backend.exporter->program_suffix();
  }
  throw Error(file.string() + " is no program of a known format", {},
              "Known suffixes: " + (known.empty() ? "none" : known) + ".");
}

std::unique_ptr<ModelRunner> make_runner(std::string_view format, const ExportedComponent& component) {
  const Backend backend = find(format);
  if (!backend.make_runner) {
    throw Error("exports of the format '" + std::string(format) + "' cannot be run here: no runner is registered", {},
                "Register the backend with one: register_backend<Exporter, Runner>().");
  }
  return backend.make_runner(component);
}

std::vector<std::string> registered_formats() {
  Backends& all = backends();
  const std::shared_lock lock(all.mutex);
  std::vector<std::string> formats;
  for (const auto& [name, backend] : all.by_format) {
    formats.push_back(name);
  }
  return formats;
}

std::unique_ptr<ExportConfig> AutoExportConfig::from_dict(const nlohmann::json& values) {
  ensure(values.is_object() && values.contains("export_format") && values.at("export_format").is_string(),
         "an export config names its 'export_format'");
  auto config = exporter_for(values.at("export_format").get<std::string>()).make_config();
  config->from_dict(values);
  return config;
}

const HfExporter& AutoHfExporter::from_config(const ExportConfig& config) {
  return exporter_for(config.export_format());
}

}  // namespace exporters
