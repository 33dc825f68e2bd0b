#include "exporters/framework/exported_model.h"

#include "exporters/framework/registry.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/log.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace exporters {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr int64_t kSchemaVersion = 1;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text;
}

void check_component_name(const std::string& name) {
  ensure(!name.empty() && name.find('/') == std::string::npos && name.front() != '.',
         "'{}' is no name for a component: it becomes a file's name", name);
}

// The reference follows any path; ours stays in the folder, since an export folder may come from a stranger.
fs::path file_inside(const fs::path& folder, const std::string& file) {
  const fs::path relative(file);
  bool inside = !relative.empty() && relative.is_relative() && file.find('\0') == std::string::npos;
  for (const fs::path& part : relative) {
    inside &= part != "..";
  }
  ensure(inside, "export.json in {} names the file '{}', which is not in the folder", folder.string(), file);
  return folder / relative;
}

std::string text_of(const fs::path& file) { return read_json(file).dump(); }

ExportedComponent read_component(const HfExporter& exporter, const fs::path& folder, const JsonField& entry) {
  const std::string file = entry.at("file").as_string();
  ExportedComponent component;
  component.metadata = ExportMetadata::from_json(entry.at("metadata").value(), (folder / "export.json").string());
  for (const std::string& each : exporter.program_files(file)) {
    ensure(fs::exists(file_inside(folder, each)), "{} has no file named {}", folder.string(), each);
  }
  component.program = exporter.load_program(file_inside(folder, file));
  return component;
}

}  // namespace

ExportedModel::ExportedModel(std::string export_format, Components components, std::string config_json)
    : export_format_(std::move(export_format)),
      components_(std::move(components)),
      config_json_(std::move(config_json)) {}

const ExportedComponent& ExportedModel::component() const {
  if (components_.size() != 1) {
    std::vector<std::string> names;
    for (const auto& [name, component] : components_) {
      names.push_back(name);
    }
    throw Error("this export has " + std::to_string(components_.size()) + " components", {},
                names.empty() ? "" : "Name one: " + listed(names) + ".");
  }
  return components_.front().second;
}

const ExportedComponent& ExportedModel::component(std::string_view name) const {
  for (const auto& [each, component] : components_) {
    if (each == name) {
      return component;
    }
  }
  std::vector<std::string> names;
  for (const auto& [each, component] : components_) {
    names.push_back(each);
  }
  throw Error("this export has no component '" + std::string(name) + "'", {}, "There are: " + listed(names) + ".");
}

void ExportedModel::save_pretrained(const fs::path& folder) const {
  const HfExporter& exporter = exporter_for(export_format_);
  if (fs::exists(folder / "config.json") && !fs::exists(folder / "export.json")) {
    throw Error(folder.string() + " is a checkpoint: an export there would replace its config.json", {},
                "Write the export to a folder of its own.");
  }
  AtomicFolder target(folder);
  ordered_json components = ordered_json::object();
  for (const auto& [name, component] : components_) {
    check_component_name(name);
    const std::string file = name + exporter.program_suffix();
    exporter.save_program(*component.program, target.path() / file);
    components[name] = {{"file", file}, {"metadata", component.metadata.to_json()}};
  }
  const ordered_json document = {
      {"schema_version", kSchemaVersion}, {"export_format", export_format_}, {"components", std::move(components)}};
  write_file(target.path() / "export.json", document.dump(2, ' ', /*ensure_ascii=*/true) + "\n");
  if (!config_json_.empty()) {
    write_file(target.path() / "config.json", ordered_json::parse(config_json_).dump(2, ' ', true) + "\n");
  }
  target.commit();
}

ExportedModel ExportedModel::from_pretrained(const fs::path& folder) {
  ensure(fs::is_directory(folder), "{} is no folder", folder.string());
  ensure(fs::exists(folder / "export.json"), "{} has no export.json: it is no export folder", folder.string());
  const auto document = read_json(folder / "export.json");
  const JsonField root(document, (folder / "export.json").string());
  const std::string format = root.at("export_format").as_string();
  const HfExporter& exporter = exporter_for(format);
  if (root.get_int("schema_version", kSchemaVersion) > kSchemaVersion) {
    log_warning("{} is of a newer schema ({}); what it adds is not read", root.file(),
                root.get_int("schema_version", kSchemaVersion));
  }
  Components components;
  const JsonField entries = root.at("components");
  for (const std::string& name : entries.keys()) {
    components.emplace_back(name, read_component(exporter, folder, entries.at(name)));
  }
  const fs::path config = folder / "config.json";
  return ExportedModel(format, std::move(components), fs::exists(config) ? text_of(config) : std::string());
}

PyTree ExportedModel::operator()(const NamedInputs& inputs) const {
  component();
  return run(size_t{0}, inputs);
}

PyTree ExportedModel::run(std::string_view name, const NamedInputs& inputs) const {
  const ExportedComponent& wanted = component(name);
  const auto it =
      std::find_if(components_.begin(), components_.end(), [&](const auto& each) { return &each.second == &wanted; });
  return run(static_cast<size_t>(it - components_.begin()), inputs);
}

PyTree ExportedModel::run(size_t index, const NamedInputs& inputs) const {
  const ExportMetadata& metadata = components_[index].second.metadata;
  NamedInputs taken;
  std::vector<std::string> dropped;
  for (const auto& [name, value] : inputs) {
    if (metadata.takes(name)) {
      taken.emplace_back(name, value);
    } else {
      dropped.push_back(name);
    }
  }
  if (!dropped.empty()) {
    warn_once("inputs that the model was not exported with are ignored: " + listed(dropped));
  }
  return runner(index).run(taken);
}

ModelRunner& ExportedModel::runner(size_t index) const {
  const std::lock_guard lock(runners_->mutex);
  std::unique_ptr<ModelRunner>& slot = runners_->by_component[index];
  if (slot == nullptr) {
    slot = make_runner(export_format_, components_[index].second);
  }
  return *slot;
}

ExportedComponent HfExporter::open_program(const fs::path& file) const {
  throw Error("a program of the format '" + export_format() + "' cannot be run without its export folder",
              file.string(), "Give the folder that holds export.json.");
}

ProgramDescription HfExporter::describe_program(const BackendProgram&) const {
  throw Error("the backend of the format '" + export_format() + "' does not describe its programs");
}

ExportedComponent HfExporter::export_component(const ExportSource& model, const NamedInputs& sample_inputs,
                                               ExportConfig& config) const {
  EffectLog log;
  const EffectLog::Scope logging(log);
  ExportedComponent component = export_program(model, sample_inputs, config);
  component.effects = log.effects();
  return component;
}

ExportedModel HfExporter::export_model(const ExportSource& model, const NamedInputs& sample_inputs,
                                       ExportConfig& config) const {
  config.validate();
  ExportedModel::Components components;
  components.emplace_back("model", export_component(model, sample_inputs, config));
  return ExportedModel(export_format(), std::move(components), model.config_json);
}

}  // namespace exporters
