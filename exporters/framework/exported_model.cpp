#include "exporters/framework/exported_model.h"

#include "exporters/framework/call_inputs.h"
#include "exporters/framework/registry.h"
#include "exporters/framework/target.h"
#include "exporters/graph/dtype.h"
#include "exporters/patching/scope.h"
#include "exporters/support/atomic_file.h"
#include "exporters/support/error.h"
#include "exporters/support/json.h"
#include "exporters/support/log.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <set>

namespace exporters {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr int64_t kSchemaVersion = 1;

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
  ensure(relative.has_filename() && relative.filename() != ".",
         "export.json in {} gives '{}' as a component's file: that is a folder", folder.string(), file);
  return folder / relative;
}

void write_config(const fs::path& file, const std::string& text) {
  if (!text.empty()) {
    write_file(file, ordered_json::parse(text).dump(2, ' ', true) + "\n");
  }
}

// Beside a checkpoint, its own configs stay. Other ones have no place there: the checkpoint would be another model.
void check_config(const fs::path& file, const std::string& text) {
  if (fs::exists(file) && !text.empty() && read_json(file) != nlohmann::json::parse(text)) {
    throw Error("the export has another " + file.filename().string() + " than the checkpoint in " +
                    file.parent_path().string() + ", beside which it is to lie",
                {}, "Leave out the settings that change it, or export to the folder above the checkpoint.");
  }
}

// Whether the export may be written to the folder of a checkpoint.
bool goes_beside_checkpoint(const fs::path& folder, const ExportedModel::Components& components) {
  const bool is_checkpoint =
      holds_checkpoint(folder) || (fs::exists(folder / "config.json") && !fs::exists(folder / "export.json"));
  const bool lies_beside = std::any_of(components.begin(), components.end(), [](const auto& each) {
    return each.second.program != nullptr && each.second.program->lies_beside_source();
  });
  if (is_checkpoint && !lies_beside) {
    throw Error(folder.string() + " is a checkpoint: an export there would replace its config.json", {},
                "Write the export to a folder of its own.");
  }
  return is_checkpoint;
}

std::string read_config(const fs::path& file) { return fs::exists(file) ? read_json(file).dump() : std::string(); }

// What an earlier export to this folder wrote: none of it belongs to the next one. A manifest that cannot be read, or
// of a format that is not registered, names nothing.
std::set<fs::path> files_of_earlier_export(const fs::path& folder, bool beside_checkpoint) {
  if (!fs::exists(folder / "export.json")) {
    return {};
  }
  std::set<fs::path> files = {"export.json"};
  if (!beside_checkpoint) {
    files.insert({"config.json", "generation_config.json"});
  }
  try {
    const auto document = read_json(folder / "export.json");
    const JsonField root(document, (folder / "export.json").string());
    const HfExporter& exporter = exporter_for(root.at("export_format").as_string());
    const JsonField components = root.at("components");
    for (const std::string& name : components.keys()) {
      const std::string program = components.at(name).at("file").as_string();
      const std::vector<std::string> own = exporter.program_files(program);
      files.insert(own.begin(), own.end());
      for (const std::string& file : exporter.saved_files(file_inside(folder, program))) {
        if (std::any_of(own.begin(), own.end(),
                        [&](const std::string& each) { return file.starts_with(each + "."); })) {
          files.insert(file);
        }
      }
    }
  } catch (const Error& error) {
    log_debug("{}", error.what());
  }
  return files;
}

const ExportMetadata& first_metadata(const ExportedModel::Components& components) {
  ensure(!components.empty(), "this export has no components");
  return components.front().second.metadata;
}

// The file of a component, which has to be there.
fs::path component_file(const HfExporter& exporter, const fs::path& folder, const JsonField& entry) {
  const std::string file = entry.at("file").as_string();
  for (const std::string& each : exporter.program_files(file)) {
    ensure(fs::is_regular_file(file_inside(folder, each)), "{} has no file named {}", folder.string(), each);
  }
  return file_inside(folder, file);
}

}  // namespace

ExportedModel::ExportedModel(std::string export_format, Components components, std::string config_json,
                             std::string generation_config_json)
    : export_format_(std::move(export_format)),
      components_(std::move(components)),
      config_json_(std::move(config_json)),
      generation_config_json_(std::move(generation_config_json)) {}

std::optional<models::ModelConfig> ExportedModel::config() const {
  return config_json_.empty() ? std::nullopt : std::optional(models::ModelConfig::parse(config_json_));
}

c10::ScalarType ExportedModel::dtype() const {
  const std::string& name = first_metadata(components_).export_dtype;
  ensure(!name.empty(), "this export does not say with which dtype it was traced");
  const auto dtype = dtype_from_name(name);
  ensure(dtype.has_value(), "'{}' is no dtype (export_dtype)", name);
  return *dtype;
}

c10::Device ExportedModel::device() const {
  const std::string& name = first_metadata(components_).export_device;
  ensure(!name.empty(), "this export does not say on which device it was traced");
  try {
    return c10::Device(name);
  } catch (const c10::Error&) {
    fail("'{}' is no device (export_device)", name);
  }
}

const ExportedComponent& ExportedModel::component() const {
  if (components_.size() != 1) {
    std::vector<std::string> names;
    for (const auto& [name, component] : components_) {
      names.push_back(name);
    }
    throw Error("this export has " + std::to_string(components_.size()) + " components", {},
                names.empty() ? "" : "Name one: " + quoted_names(names) + ".");
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
  throw Error("this export has no component '" + std::string(name) + "'", {},
              "There are: " + quoted_names(names) + ".");
}

void ExportedModel::save_pretrained(const fs::path& folder) const {
  const HfExporter& exporter = exporter_for(export_format_);
  const bool beside_checkpoint = goes_beside_checkpoint(folder, components_);
  AtomicFolder::Options options;
  options.keep = [files = files_of_earlier_export(folder, beside_checkpoint)](const fs::path& file) {
    return !files.contains(file);
  };
  AtomicFolder target(folder, std::move(options));
  ordered_json components = ordered_json::object();
  std::vector<std::pair<std::string, const BackendProgram*>> programs;
  for (const auto& [name, component] : components_) {
    check_component_name(name);
    const std::string file = exporter.program_file(name, *component.program);
    programs.emplace_back(file, component.program.get());
    components[name] = {{"file", file}, {"metadata", component.metadata.to_json()}};
  }
  exporter.save_programs(programs, target.path(), target.target());
  const ordered_json document = {
      {"schema_version", kSchemaVersion}, {"export_format", export_format_}, {"components", std::move(components)}};
  write_file(target.path() / "export.json", document.dump(2, ' ', /*ensure_ascii=*/true) + "\n");
  const auto add_config = [&](const char* name, const std::string& text) {
    if (beside_checkpoint) {
      check_config(folder / name, text);
    }
    if (!beside_checkpoint || !fs::exists(folder / name)) {
      write_config(target.path() / name, text);
    }
  };
  add_config("config.json", config_json_);
  add_config("generation_config.json", generation_config_json_);
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
  std::vector<std::pair<std::string, fs::path>> files;
  const JsonField entries = root.at("components");
  for (const std::string& name : entries.keys()) {
    const JsonField entry = entries.at(name);
    ExportedComponent component;
    component.metadata = ExportMetadata::from_json(entry.at("metadata").value(), (folder / "export.json").string());
    files.emplace_back(name, component_file(exporter, folder, entry));
    components.emplace_back(name, std::move(component));
  }
  const std::vector<std::shared_ptr<BackendProgram>> programs = exporter.load_programs(files);
  for (size_t i = 0; i < components.size(); ++i) {
    components[i].second.program = programs.at(i);
  }
  return ExportedModel(format, std::move(components), read_config(folder / "config.json"),
                       read_config(folder / "generation_config.json"));
}

PyTree ExportedModel::operator()(const NamedInputs& inputs) const {
  component();
  return run(size_t{0}, inputs);
}

size_t ExportedModel::index_of(std::string_view name) const {
  const ExportedComponent& wanted = component(name);
  const auto it =
      std::find_if(components_.begin(), components_.end(), [&](const auto& each) { return &each.second == &wanted; });
  return static_cast<size_t>(it - components_.begin());
}

PyTree ExportedModel::run(std::string_view name, const NamedInputs& inputs) const {
  return run(index_of(name), inputs);
}

PyTree ExportedModel::run_in_place(std::string_view name, NamedInputs inputs) const {
  return runner(index_of(name)).run_in_place(std::move(inputs));
}

PyTree ExportedModel::run(size_t index, const NamedInputs& inputs) const {
  return runner(index).run(traced_inputs(components_[index].second.metadata, inputs));
}

ModelRunner& ExportedModel::runner(size_t index) const {
  const std::lock_guard lock(runners_->mutex);
  std::unique_ptr<ModelRunner>& slot = runners_->by_component[index];
  if (slot == nullptr) {
    slot = make_runner(export_format_, components_[index].second);
  }
  return *slot;
}

void HfExporter::save_programs(const std::vector<std::pair<std::string, const BackendProgram*>>& programs,
                               const fs::path& folder, const fs::path&) const {
  for (const auto& [file, program] : programs) {
    save_program(*program, folder / file);
  }
}

std::vector<std::string> HfExporter::saved_files(const fs::path& file) const {
  return program_files(file.filename().string());
}

std::vector<std::shared_ptr<BackendProgram>> HfExporter::load_programs(
    const std::vector<std::pair<std::string, fs::path>>& files) const {
  std::vector<std::shared_ptr<BackendProgram>> programs;
  for (const auto& [component, file] : files) {
    programs.push_back(load_program(file));
  }
  return programs;
}

std::string HfExporter::program_file(const std::string& component, const BackendProgram&) const {
  return component + program_suffix();
}

void HfExporter::prepare_components(std::vector<ComponentExport>&) const {}

void HfExporter::join_components(std::vector<std::pair<std::string, ExportedComponent>>&) const {}

ExportedComponent HfExporter::open_program(const fs::path& file) const {
  throw Error("a program of the format '" + export_format() + "' cannot be run without its export folder",
              file.string(), "Give the folder that holds export.json.");
}

ProgramDescription HfExporter::describe_program(const BackendProgram&) const {
  throw Error("the backend of the format '" + export_format() + "' does not describe its programs");
}

ExportedComponent HfExporter::export_traced(TracedModel, ExportConfig&) const {
  throw Error("the backend of the format '" + export_format() + "' takes models, not traced programs", {},
              "Export the checkpoint instead.");
}

// The one place where a backend's patches come into force.
ExportedComponent HfExporter::export_with_patches(ExportConfig& config,
                                                  const std::function<ExportedComponent()>& exported) const {
  EffectLog log;
  const EffectLog::Scope logging(log);
  std::optional<PatchScope> patches;
  if (const std::string backend = patch_backend(config); !backend.empty()) {
    patches.emplace(backend);
  }
  ExportedComponent component = exported();
  component.effects = log.effects();
  return component;
}

ExportedComponent HfExporter::export_component(const ExportSource& model, const NamedInputs& sample_inputs,
                                               ExportConfig& config) const {
  return export_with_patches(config, [&] { return export_program(model, sample_inputs, config); });
}

ExportedComponent HfExporter::export_component(TracedModel traced, ExportConfig& config) const {
  traced.metadata.export_config = config.to_dict().dump();
  return export_with_patches(config, [&] { return export_traced(std::move(traced), config); });
}

ExportedModel HfExporter::export_model(const ExportSource& model, const NamedInputs& sample_inputs,
                                       ExportConfig& config) const {
  config.validate();
  ExportedModel::Components components;
  components.emplace_back("model", export_component(model, sample_inputs, config));
  return ExportedModel(export_format(), std::move(components), model.config_json);
}

ExportedModel HfExporter::export_components(const std::vector<ComponentExport>& exports, const std::string& config_json,
                                            const std::string& generation_config_json) const {
  std::vector<ComponentExport> prepared = exports;
  prepare_components(prepared);
  ExportedModel::Components components;
  for (const ComponentExport& each : prepared) {
    try {
      each.config->validate();
      components.emplace_back(each.name, export_component(each.source, each.sample_inputs, *each.config));
    } catch (const Error& error) {
      throw error.with_context("component '" + each.name + "'");
    }
  }
  join_components(components);
  return ExportedModel(export_format(), std::move(components), config_json, generation_config_json);
}

ExportedModel HfExporter::export_model(TracedModel traced, ExportConfig& config) const {
  config.validate();
  ExportedModel::Components components;
  components.emplace_back("model", export_component(std::move(traced), config));
  return ExportedModel(export_format(), std::move(components));
}

}  // namespace exporters
