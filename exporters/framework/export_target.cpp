#include "exporters/framework/export_target.h"

#include "exporters/framework/generation_export.h"
#include "exporters/framework/prepare_export.h"
#include "exporters/framework/pretrained_source.h"
#include "exporters/framework/registry.h"
#include "exporters/framework/target.h"
#include "exporters/framework/traced_program.h"
#include "exporters/models/loading.h"
#include "exporters/passes/training_mode.h"
#include "exporters/support/error.h"
#include "exporters/support/log.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace exporters {

namespace fs = std::filesystem;

namespace {

// Every axis that carries the label becomes the one named Dim.
DynamicShapes named_axes(const AxisLabels& labels, const std::map<std::string, Range>& wanted) {
  DynamicShapes shapes;
  std::set<std::string> used;
  std::set<std::string> known;
  for (const auto& [input, axes] : labels) {
    for (const auto& [axis, label] : axes) {
      if (label.name.empty()) {
        continue;
      }
      known.insert(label.name);
      const auto range = wanted.find(label.name);
      if (range != wanted.end()) {
        used.insert(label.name);
        shapes[input].insert_or_assign(axis, Dim::named(label.name, range->second.min, range->second.max));
      }
    }
  }
  for (const auto& [name, range] : wanted) {
    if (!used.contains(name)) {
      std::string names;
      for (const std::string& each : known) {
        names += (names.empty() ? "" : ", ") + each;
      }
      throw Error("no input of this model has an axis '" + name + "'", {}, "Axes are: " + names + ".");
    }
  }
  return shapes;
}

// The usual sample, moved into the ranges that were asked for.
models::SampleSize sample_size(const std::map<std::string, Range>& axes) {
  models::SampleSize size;
  for (const auto& [name, slot] : {std::pair("batch", &size.batch), std::pair("sequence", &size.sequence)}) {
    if (const auto range = axes.find(name); range != axes.end()) {
      *slot = std::clamp(*slot, range->second.min, range->second.max);
    }
  }
  return size;
}

// Labels of inputs that are not among the samples say nothing about this export.
AxisLabels labels_of(const ExportSource& source, const NamedInputs& inputs) {
  AxisLabels labels;
  for (const auto& [name, value] : inputs) {
    for (const auto& [path, tensor] : value.tensors()) {
      const auto found = source.axis_labels.find(path.empty() ? name : name + "." + path);
      if (found != source.axis_labels.end()) {
        labels.insert(*found);
      }
    }
  }
  return labels;
}

bool has_cache(const NamedInputs& inputs) {
  const PyTree* cache = find_input(inputs, "cache");
  return cache != nullptr && !cache->tensors().empty();
}

std::unique_ptr<ExportConfig> config_of(const HfExporter& exporter, const ExportRequest& request, bool dynamic) {
  std::unique_ptr<ExportConfig> config = exporter.make_config();
  if (auto* dynamo = dynamic_cast<DynamoConfig*>(config.get())) {
    dynamo->dynamic = dynamic;
  }
  for (const auto& [field, value] : request.settings) {
    if (!request.generation || !is_generation_field(field)) {
      config->set(field, value);
    }
  }
  return config;
}

void add_axes(ExportConfig& config, const AxisLabels& labels, const std::map<std::string, Range>& wanted) {
  auto* dynamo = dynamic_cast<DynamoConfig*>(&config);
  if (dynamo == nullptr || wanted.empty()) {
    return;
  }
  for (auto& [input, axes] : named_axes(labels, wanted)) {
    for (auto& [axis, dim] : axes) {
      dynamo->dynamic_shapes[input].emplace(axis, dim);
    }
  }
}

// ── From a checkpoint ──

std::shared_ptr<const models::PreTrainedModel> load(const ExportRequest& request) {
  models::LoadOptions options;
  options.task = request.task;
  options.dtype = request.dtype;
  return models::load_for_export(request.source, options);
}

models::ForwardArgs flags_of(const ExportRequest& request) {
  models::ForwardArgs flags;
  for (const auto& [name, value] : request.flags) {
    flags.set(name, value);
  }
  return flags;
}

// The inputs that were given, or else the usual ones.
NamedInputs sample_of(const models::PreTrainedModel& model, const ExportRequest& request, NamedInputs given) {
  if (given.empty()) {
    for (const auto& [name, value] : model.sample_inputs(sample_size(request.axes))) {
      given.emplace_back(name, value);
    }
  }
  return given;
}

ExportedModel export_checkpoint(const HfExporter& exporter, const ExportRequest& request) {
  const std::unique_ptr<ExportConfig> config = config_of(exporter, request, request.dynamic);
  const std::shared_ptr<const models::PreTrainedModel> model = load(request);
  const NamedInputs inputs = sample_of(*model, request, with_caches(*model, request.sample_inputs));
  for (const auto& [name, value] : request.flags) {
    if (find_input(inputs, name) != nullptr) {
      throw Error("'" + name + "' is an input of the program and no forward argument that an export fixes", {},
                  "Give its sample with --sample.");
    }
  }
  const ExportSource source = export_source(model, flags_of(request), has_cache(inputs));
  add_axes(*config, labels_of(source, inputs), request.axes);
  return exporter.export_model(source, inputs, *config);
}

// ── For generation ──

GenerationSettings generation_settings(const ExportRequest& request) {
  GenerationSettings settings;
  for (const auto& [field, value] : request.settings) {
    if (is_generation_field(field)) {
      settings.emplace_back(field, value);
    }
  }
  return settings;
}

// A range of the sequence is one of the prompt, and after it of the tokens in the cache, which may be empty.
std::map<std::string, Range> axes_of(const GenerationComponent& part, std::map<std::string, Range> axes) {
  if (const auto sequence = axes.find("sequence"); part.with_cache && sequence != axes.end()) {
    const int64_t max = sequence->second.max;
    axes.erase(sequence);
    axes["past"] = {0, max};
  }
  return axes;
}

ExportedModel export_generation(const HfExporter& exporter, const ExportRequest& request) {
  const std::shared_ptr<const models::PreTrainedModel> model = load(request);
  const GenerationConfig generation = load_generation_config(request.source, generation_settings(request));
  const bool merged = merges(exporter, config_of(exporter, request, request.dynamic).get(), *model, request.merged);
  std::vector<ComponentExport> components;
  std::vector<std::unique_ptr<ExportConfig>> configs;
  for (const GenerationComponent& part :
       decompose_for_generation(model, sample_of(*model, request, request.sample_inputs), generation,
                                {.dynamic = request.dynamic, .merged = merged})) {
    configs.push_back(config_of(exporter, request, request.dynamic));
    ComponentExport& component = components.emplace_back();
    component = {part.name, export_source(part, flags_of(request)), part.inputs, configs.back().get()};
    add_axes(*component.config, labels_of(component.source, part.inputs), axes_of(part, request.axes));
  }
  return exporter.export_components(components, model->config().json().dump(), generation.json);
}

// ── From a traced program ──

void refuse_trace_settings(const ExportRequest& request) {
  const std::pair<bool, const char*> given[] = {
      {!request.task.empty(), "a task"},
      {request.dtype.has_value(), "a dtype"},
      {!request.dynamic, "static sizes"},
      {!request.axes.empty(), "ranges of sizes"},
      {!request.sample_inputs.empty(), "sample inputs"},
      {!request.flags.empty(), "forward arguments"},
      {request.generation || request.merged.has_value(), "an export for generation"},
  };
  for (const auto& [is_given, what] : given) {
    if (is_given) {
      throw Error(request.source.string() + " is traced already, and " + what + " would need another trace", {},
                  "Export the checkpoint that it was made from, or leave the option out.");
    }
  }
  for (const auto& [field, value] : request.settings) {
    ensure(field != "dynamic" && field != "dynamic_shapes", "{} is traced already: '{}' would need another trace",
           request.source.string(), field);
  }
}

TracedModel traced_of(const BackendProgram& program, const ExportRequest& request) {
  const std::shared_ptr<ExportedProgram> traced = program.traced();
  if (traced == nullptr) {
    throw Error(request.source.string() + " holds no traced program, which is what other formats are made from", {},
                "Give a checkpoint folder, a .pt2 file, or an export folder of the format 'dynamo'.");
  }
  if (request.evaluation) {
    if (const size_t switched = switch_to_evaluation(*traced); switched > 0) {
      log_warning("{} calls of {} that were traced in training mode are switched to evaluation", switched,
                  request.source.string());
    }
  }
  return traced_model(traced);
}

ExportedComponent lower(const HfExporter& exporter, const ExportRequest& request, TracedModel traced) {
  const auto config = config_of(exporter, request, !traced.program->range_constraints.empty());
  return exporter.export_model(std::move(traced), *config).component();
}

ExportedModel export_program_file(const HfExporter& exporter, const ExportRequest& request) {
  const auto program = exporter_for_file(request.source).load_program(request.source);
  ExportedModel::Components components;
  components.emplace_back("model", lower(exporter, request, traced_of(*program, request)));
  return ExportedModel(exporter.export_format(), std::move(components));
}

ExportedModel export_folder(const HfExporter& exporter, const ExportRequest& request) {
  const auto source = ExportedModel::from_pretrained(request.source);
  ExportedModel::Components components;
  for (const auto& [name, component] : source.components()) {
    TracedModel traced = traced_of(*component.program, request);
    traced.metadata.architecture = component.metadata.architecture;
    components.emplace_back(name, lower(exporter, request, std::move(traced)));
  }
  return ExportedModel(exporter.export_format(), std::move(components), source.config_json(),
                       source.generation_config_json());
}

// A checkpoint is one also where an export lies beside it.
TargetKind source_kind(const fs::path& source) {
  return holds_checkpoint(source) ? TargetKind::kCheckpoint : target_kind(source);
}

}  // namespace

void refuse_own_source(const fs::path& source, const fs::path& folder) {
  const TargetKind kind = source_kind(source);
  const fs::path holder = kind == TargetKind::kProgramFile ? source.parent_path() : source;
  std::error_code missing;
  const bool is_same = fs::equivalent(holder.empty() ? fs::path(".") : holder, folder, missing);
  if (is_same && !missing && kind != TargetKind::kCheckpoint) {
    throw Error("an export to " + folder.string() + " would take the place of its own source, " + source.string(), {},
                "Write the export to a folder of its own.");
  }
}

ExportedModel export_target(const ExportRequest& request) {
  const HfExporter& exporter = exporter_for(request.format);
  const TargetKind kind = source_kind(request.source);
  ensure(request.generation || !request.merged.has_value(), "only an export for generation has components to merge");
  if (kind == TargetKind::kCheckpoint) {
    ensure(!request.evaluation, "{} is a checkpoint, which is always traced in evaluation mode",
           request.source.string());
    return request.generation ? export_generation(exporter, request) : export_checkpoint(exporter, request);
  }
  refuse_trace_settings(request);
  return kind == TargetKind::kProgramFile ? export_program_file(exporter, request) : export_folder(exporter, request);
}

}  // namespace exporters
