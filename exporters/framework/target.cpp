#include "exporters/framework/target.h"

#include "exporters/framework/exported_model.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/framework/registry.h"
#include "exporters/graph/dtype.h"
#include "exporters/models/pretrained.h"
#include "exporters/support/error.h"

#include <algorithm>
#include <map>

namespace exporters {

namespace fs = std::filesystem;

namespace {

Runnable open_checkpoint(const fs::path& folder, const TargetOptions& options) {
  ensure(options.component.empty(), "{} is a checkpoint: it has no components", folder.string());
  models::LoadOptions load;
  load.task = options.task;
  std::shared_ptr<const models::PreTrainedModel> model = models::load(folder, load);
  const auto run = [model, flags = options.flags](const NamedInputs& inputs) {
    models::ForwardArgs args;
    const NamedInputs whole = with_caches(*model, inputs);
    for (const auto* list : {&whole, &flags}) {
      for (const auto& [name, value] : *list) {
        args.set(name, value);
      }
    }
    return (*model)(args);
  };
  return {run, [](const std::string&) { return std::nullopt; }};
}

InputDtype declared_dtypes(const std::shared_ptr<ExportedModel>& model, const ExportedComponent& component) {
  auto dtypes = std::make_shared<std::optional<std::map<std::string, std::string>>>();
  return [model, &component, dtypes](const std::string& name) -> std::optional<c10::ScalarType> {
    if (!*dtypes) {
      dtypes->emplace();
      for (const ValueDescription& input :
           exporter_for(model->export_format()).describe_program(*component.program).inputs) {
        (*dtypes)->emplace(input.name, input.dtype);
      }
    }
    const auto found = (*dtypes)->find(name);
    return found == (*dtypes)->end() ? std::nullopt : dtype_from_name(found->second);
  };
}

void refuse_checkpoint_options(const fs::path& target, const TargetOptions& options) {
  if (!options.task.empty() || !options.flags.empty()) {
    throw Error(target.string() + " is exported already: its task and forward arguments are part of it", {},
                "Export the checkpoint again with --task or --forward.");
  }
}

}  // namespace

bool holds_checkpoint(const fs::path& folder) {
  if (!fs::is_directory(folder) || !fs::exists(folder / "config.json")) {
    return false;
  }
  return std::any_of(fs::directory_iterator(folder), fs::directory_iterator(), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
  });
}

TargetKind target_kind(const fs::path& target) {
  if (fs::is_directory(target)) {
    if (fs::exists(target / "export.json")) {
      return TargetKind::kExportFolder;
    }
    if (fs::exists(target / "config.json")) {
      return TargetKind::kCheckpoint;
    }
    throw Error(target.string() + " holds neither an export.json nor a config.json", {},
                "Give an export folder, a checkpoint folder or a program file.");
  }
  if (fs::is_regular_file(target)) {
    return TargetKind::kProgramFile;
  }
  throw Error(target.string() + (fs::exists(target) ? " is neither a file nor a folder" : " does not exist"));
}

Runnable open_target(const fs::path& target, const TargetOptions& options) {
  const TargetKind kind = target_kind(target);
  if (kind == TargetKind::kCheckpoint) {
    return open_checkpoint(target, options);
  }
  refuse_checkpoint_options(target, options);
  std::shared_ptr<ExportedModel> model;
  if (kind == TargetKind::kExportFolder) {
    model = std::make_shared<ExportedModel>(ExportedModel::from_pretrained(target));
  } else {
    const HfExporter& exporter = exporter_for_file(target);
    ExportedModel::Components components;
    components.emplace_back("model", exporter.open_program(target));
    model = std::make_shared<ExportedModel>(exporter.export_format(), std::move(components));
  }
  if (options.component.empty()) {
    return {[model](const NamedInputs& inputs) { return (*model)(inputs); },
            declared_dtypes(model, model->component())};
  }
  return {[model, name = options.component](const NamedInputs& inputs) { return model->run(name, inputs); },
          declared_dtypes(model, model->component(options.component))};
}

Generator open_generator(const fs::path& target, const GenerationSettings& settings, const std::string& task) {
  switch (target_kind(target)) {
    case TargetKind::kCheckpoint: {
      const GenerationConfig config = load_generation_config(target, settings);
      models::LoadOptions load;
      load.task = task;
      return {eager_stages(models::load(target, load), config), config};
    }
    case TargetKind::kExportFolder:
      refuse_checkpoint_options(target, {.task = task});
      return ExportedModel::from_pretrained(target).generator(settings);
    default:
      throw Error(target.string() + " is one program, and generation needs several", {},
                  "Give the export folder that hfx export --generation wrote, or a checkpoint.");
  }
}

}  // namespace exporters
