#include "exporters/executorch/exporter.h"

#include "exporters/executorch/cache_state.h"
#include "exporters/executorch/edge/decompositions.h"
#include "exporters/executorch/edge/lower.h"
#include "exporters/executorch/emit/emit_method.h"
#include "exporters/executorch/emit/reader.h"
#include "exporters/executorch/emit/writer.h"
#include "exporters/executorch/join.h"
#include "exporters/executorch/report.h"
#include "exporters/executorch/stages.h"
#include "exporters/framework/registry.h"
#include "exporters/framework/traced_program.h"
#include "exporters/graph/op_name.h"
#include "exporters/passes/fixes.h"
#include "exporters/passes/training_mode.h"
#include "exporters/patching/patch_point.h"
#include "exporters/patching/scope.h"
#include "exporters/support/error.h"
#include "exporters/support/mapped_file.h"

#include <nlohmann/json.hpp>

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace exporters::executorch {

namespace fs = std::filesystem;

namespace {

// Of the file that holds several components.
constexpr const char* kCombinedName = "model";

const ExecutorchProgram& as_executorch(const BackendProgram& program) {
  const auto* executorch = dynamic_cast<const ExecutorchProgram*>(&program);
  ensure(executorch != nullptr, "the program was not made by the ExecuTorch exporter");
  return *executorch;
}

ExecutorchConfig& as_config(ExportConfig& config) {
  auto* executorch = dynamic_cast<ExecutorchConfig*>(&config);
  ensure(executorch != nullptr, "the ExecuTorch exporter takes an ExecutorchConfig, not one for '{}'",
         config.export_format());
  return *executorch;
}

// Of the config that export.json records.
bool is_set(const ExportMetadata& metadata, const char* field) {
  const auto config = nlohmann::json::parse(metadata.export_config, nullptr, /*allow_exceptions=*/false);
  return config.is_object() && config.contains(field) && config.at(field) == nlohmann::json(true);
}

using EdgeDecompositions = PatchPoint<DecompositionTable()>;

const EdgeDecompositions& edge_decompositions_point() {
  static const EdgeDecompositions point("exporters.executorch.edge_decompositions", edge_decompositions);
  return point;
}

// What conditions and names the traced program has, before it is taken apart.
ProgramFacts facts_before(const ExportedProgram& program, const IndexLimits& limits) {
  const ProgramDescription description = describe_traced_program(program);
  ProgramFacts facts;
  facts.inputs = description.inputs;
  facts.outputs = description.outputs;
  facts.conditions = description.conditions;
  facts.index_limits = embedding_limits(program);
  for (const auto& [input, limit] : limits) {
    facts.index_limits[input] = limit;
  }
  return facts;
}

// A program that was traced elsewhere has met no torch patches: its calls meet them when they are taken apart, and so
// do the calls that others are taken apart into.
void add_torch_patches(DecompositionTable& table) {
  for (const c10::OperatorHandle& op : patched_ops()) {
    table.add(target_from_op(op.operator_name()), Decomposition());
  }
}

std::shared_ptr<const Partitioner> partitioner_of(const ExecutorchRecipe& recipe, const ExecutorchConfig& config) {
  if (!config.quantize_linear) {
    return recipe.partitioner;
  }
  auto quantizing = recipe.partitioner == nullptr ? nullptr : recipe.partitioner->with_int8_linear();
  if (quantizing == nullptr) {
    throw Error("the backend '" + config.backend + "' has no linear layers in int8", "quantize_linear",
                "Leave it out, or take the backend xnnpack.");
  }
  return quantizing;
}

ExecutorchProgram lower(const ExportedProgram& program, const ExecutorchRecipe& recipe, const ExecutorchConfig& config,
                        const std::string& backend, ProgramFacts facts) {
  DecompositionTable table = patched_decompositions();
  add_torch_patches(table);
  if (recipe.decompositions) {
    recipe.decompositions(table);
  }
  const std::shared_ptr<const Partitioner> chosen = partitioner_of(recipe, config);
  const Partitioner* partitioner = chosen.get();
  const EdgeProgram edge = lower_to_edge(program, std::move(table), partitioner,
                                         [&](ExportedProgram& each) { apply_fx_node_fixes(backend, each); });
  refuse_shared_state(edge.program());
  const Delegation delegation = partition(edge, partitioner);
  check_kernels(delegation);
  EmitOptions options;
  options.plan_inputs = config.alloc_graph_input;
  options.plan_outputs = config.alloc_graph_output;
  options.plan_state = config.alloc_mutable_buffers;
  Program result;
  MethodMemory memory = emit_method(edge, delegation, partitioner, options, result);
  plan_memory(result, {&memory, 1});
  facts.backend = config.backend;
  facts.outside = outside_of(delegation);
  facts.delegated_calls = delegated_calls(delegation);
  result.add_named_data({std::string(kFactsKey), facts.to_json(), 1});
  return ExecutorchProgram(std::move(result), memory);
}

}  // namespace

// ── Config ──

std::vector<ConfigField> ExecutorchConfig::fields() {
  std::vector<ConfigField> result = exporters::ExecutorchConfig::fields();
  for (ConfigField& field : result) {
    if (field.name == "backend") {  // targets can be registered
      field.allowed = "the name of a backend of ExecuTorch";
      field.set = [this](const nlohmann::json& given) {
        if (!given.is_string()) {
          return false;
        }
        backend = given.get<std::string>();
        return true;
      };
    }
  }
  result.push_back(bool_field("combined", "one file for all components, each a method of its name", combined));
  result.push_back(bool_field("keeps_cache", "the static cache of a generation is state of the program; needs combined",
                              keeps_cache));
  result.push_back(
      choice_field("quantize_linear", "in what linear layers of delegates compute", quantize_linear, {"int8"}));
  result.push_back({"max_dims", "largest sizes of dynamic axes, for which memory is planned",
                    "an object such as {\"batch\": 8, \"input_ids.1\": 512}",
                    [this] { return nlohmann::json(max_dims); },
                    [this](const nlohmann::json& given) {
                      std::map<std::string, int64_t> sizes;
                      if (!given.is_object()) {
                        return false;
                      }
                      for (const auto& [name, size] : given.items()) {
                        if (!size.is_number_integer() || size.get<int64_t>() < 1) {
                          return false;
                        }
                        sizes.emplace(name, size.get<int64_t>());
                      }
                      max_dims = std::move(sizes);
                      return true;
                    }});
  return result;
}

void ExecutorchConfig::validate() const {
  exporters::ExecutorchConfig::validate();
  executorch_recipe(backend);
  if (keeps_cache && !combined) {
    throw Error("a program keeps the cache for prefill and decode, which are in files of their own", "keeps_cache",
                "Set combined, too.");
  }
}

// ── Exporting ──

DecompositionTable patched_decompositions() { return edge_decompositions_point()(); }

ExecutorchProgram::ExecutorchProgram(Program program, std::optional<MethodMemory> memory)
    : program_(std::make_shared<const Program>(std::move(program))), memory_(std::move(memory)) {}

std::shared_ptr<ExecutorchRunner> SharedRunner::of(const fs::path& file) {
  const std::lock_guard lock(mutex_);
  if (runner_ == nullptr) {
    runner_ = std::make_shared<ExecutorchRunner>(file);
  }
  return runner_;
}

std::shared_ptr<ExecutorchRunner> ExecutorchProgram::runner() const {
  if (file_.empty()) {
    throw Error("this export is not saved yet, and ExecuTorch reads the program from its file", {},
                "Call save_pretrained, then from_pretrained.");
  }
  return runner_->of(file_);
}

std::shared_ptr<const Program> ExecutorchProgram::program() const {
  return program_ ? program_ : std::make_shared<const Program>(read_program(file_));
}

std::string ExecutorchExporter::patch_backend(const ExportConfig& config) const {
  const auto* executorch = dynamic_cast<const ExecutorchConfig*>(&config);
  return executorch == nullptr ? export_format() : export_format() + "." + executorch->backend;
}

ExportedComponent ExecutorchExporter::export_program(const ExportSource& model, const NamedInputs& sample_inputs,
                                                     ExportConfig& config) const {
  const ExecutorchRecipe recipe = executorch_recipe(as_config(config).backend);
  ExportSource prepared = model;
  prepared.axis_labels = with_positions(std::move(prepared.axis_labels), model.config_json);
  NamedInputs inputs = sample_inputs;
  if (recipe.prepare) {
    recipe.prepare(prepared, inputs);
  }
  if (as_config(config).keeps_cache) {
    fix_batch(prepared.axis_labels, as_config(config));
  }
  return DynamoExporter::export_program(prepared, inputs, config);
}

ExportedComponent ExecutorchExporter::export_traced(TracedModel traced, ExportConfig& config) const {
  const ExecutorchConfig& executorch = as_config(config);
  const ExecutorchRecipe recipe = executorch_recipe(executorch.backend);
  const std::string backend = patch_backend(config);
  ExportedProgram& program = *traced.program;
  refuse_training_mode(program);
  apply_fx_program_fixes(backend, program);  // stage 4
  apply_fx_node_fixes(backend, program);     // stage 5
  ExportedComponent component;
  component.metadata = std::move(traced.metadata);
  if (recipe.lower) {
    component.program = std::make_shared<ExecutorchProgram>(recipe.lower(std::move(program)));
    return component;
  }
  fix_unbounded_ranges(program, traced.axis_labels, executorch.max_dims, executorch.axes_elsewhere);
  if (executorch.dynamic_shapes.empty()) {
    warn_of_bounds_of_code(program, traced.axis_labels, executorch.max_dims);
  }
  ProgramFacts facts = facts_before(program, traced.index_limits);
  component.program =
      std::make_shared<ExecutorchProgram>(lower(program, recipe, executorch, backend, std::move(facts)));
  return component;
}

// ── Files ──

void ExecutorchExporter::save_program(const BackendProgram& program, const fs::path& file) const {
  executorch::save_program(*as_executorch(program).program(), file);
}

void ExecutorchExporter::save_programs(const std::vector<std::pair<std::string, const BackendProgram*>>& programs,
                                       const fs::path& folder, const fs::path&) const {
  std::set<std::string> written;  // methods of one file come with it
  for (const auto& [file, program] : programs) {
    if (written.insert(file).second) {
      save_program(*program, folder / file);
    }
  }
}

std::shared_ptr<BackendProgram> ExecutorchExporter::load_program(const fs::path& file) const {
  return std::make_shared<ExecutorchProgram>(file);
}

std::vector<std::shared_ptr<BackendProgram>> ExecutorchExporter::load_programs(
    const std::vector<std::pair<std::string, fs::path>>& files) const {
  std::map<fs::path, size_t> components;
  for (const auto& [component, file] : files) {
    ++components[file];
  }
  std::map<fs::path, std::shared_ptr<SharedRunner>> runners;
  std::vector<std::shared_ptr<BackendProgram>> programs;
  for (const auto& [component, file] : files) {
    if (components.at(file) == 1) {
      programs.push_back(load_program(file));
      continue;
    }
    auto& runner = runners[file];
    if (runner == nullptr) {
      runner = std::make_shared<SharedRunner>();
    }
    programs.push_back(std::make_shared<ExecutorchProgram>(file, component, runner));
  }
  return programs;
}

std::string ExecutorchExporter::program_file(const std::string& component, const BackendProgram& program) const {
  return (as_executorch(program).method().empty() ? component : kCombinedName) + program_suffix();
}

// ── Components ──

namespace {

void let_max_dims_name_axes_of_all(const std::vector<ComponentExport>& components) {
  std::set<std::string> names;
  for (const ComponentExport& component : components) {
    for (const auto& [input, axes] : component.source.axis_labels) {
      for (const auto& [axis, label] : axes) {
        names.insert({label.name, fmt::format("{}.{}", input, axis)});
      }
    }
  }
  for (const ComponentExport& component : components) {
    if (auto* config = dynamic_cast<ExecutorchConfig*>(component.config)) {
      config->axes_elsewhere = names;
    }
  }
}

}  // namespace

void ExecutorchExporter::prepare_components(std::vector<ComponentExport>& components) const {
  let_max_dims_name_axes_of_all(components);
  const bool keeps_cache = std::any_of(components.begin(), components.end(), [](const ComponentExport& each) {
    const auto* config = dynamic_cast<const ExecutorchConfig*>(each.config);
    return config != nullptr && config->keeps_cache;
  });
  if (keeps_cache) {
    keep_cache_in_program(components);
  }
}

void ExecutorchExporter::join_components(std::vector<std::pair<std::string, ExportedComponent>>& components) const {
  std::vector<MethodPart> parts;
  for (const auto& [name, component] : components) {
    if (!is_set(component.metadata, "combined")) {
      return;
    }
    const ExecutorchProgram& program = as_executorch(*component.program);
    ensure(program.memory().has_value(), "'{}' was lowered outside of this exporter and cannot be combined", name);
    parts.push_back({name, program.program().get(), *program.memory()});
  }
  if (parts.size() < 2) {
    return;
  }
  const auto joined = std::make_shared<const Program>(join_programs(parts));
  for (auto& [name, component] : components) {
    component.program = std::make_shared<ExecutorchProgram>(joined, name);
  }
}

std::optional<ProgramFacts> facts_of(const Program& program, std::string_view method) {
  const std::string key = facts_key(method);
  for (const NamedData& data : program.named_data) {
    if (data.key != kFactsKey && (method.empty() || data.key != key)) {
      continue;
    }
    if (const auto* text = std::get_if<std::string>(&data.bytes)) {
      return ProgramFacts::from_json(*text);
    }
    if (const auto* source = std::get_if<WeightSource>(&data.bytes)) {
      const auto file = MappedFile::open(source->file);
      const auto bytes = file->bytes(source->offset, source->nbytes);
      return ProgramFacts::from_json(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
  }
  return std::nullopt;
}

ExportedComponent ExecutorchExporter::open_program(const fs::path& file) const {
  ExportedComponent component;
  component.program = load_program(file);
  const ProgramDescription description = describe(*as_executorch(*component.program).program());
  for (const ValueDescription& input : description.inputs) {
    component.metadata.kwargs.push_back({input.name, {}, "{}"});
  }
  std::vector<std::string> names;
  for (const ValueDescription& output : description.outputs) {
    names.push_back(output.name);
  }
  const size_t count = names.size();
  component.metadata.out_spec = TreeSpec::dict(names, std::vector<TreeSpec>(count));
  return component;
}

ProgramDescription ExecutorchExporter::describe_program(const BackendProgram& program) const {
  return describe(*as_executorch(program).program(), as_executorch(program).method());
}

bool ExecutorchExporter::keeps_cache(const ExportMetadata& metadata) const { return is_set(metadata, "keeps_cache"); }

std::vector<Stage> ExecutorchExporter::stages() const {
  return {backend_preparation_stage(), torch_patches_stage(), executorch_patches_stage(), program_fixes_stage(),
          node_fixes_stage()};
}

void register_executorch_format() {
  register_backend<ExecutorchExporter, ExecutorchComponentRunner>();
  static std::once_flag stages;  // a patch that is registered twice is applied twice
  std::call_once(stages, [] {
    edge_decompositions_point();
    register_backend_recipes();
    register_torch_patches();
    register_executorch_patches();
    register_program_fixes();
    register_node_fixes();
  });
}

}  // namespace exporters::executorch
