#include "exporters/onnx/exporter.h"

#include "exporters/framework/call_inputs.h"
#include "exporters/framework/registry.h"
#include "exporters/graph/calls.h"
#include "exporters/graph/dtype.h"
#include "exporters/graph/op_name.h"
#include "exporters/onnx/convert.h"
#include "exporters/onnx/emit/reader.h"
#include "exporters/onnx/emit/save.h"
#include "exporters/onnx/ir_fixes.h"
#include "exporters/onnx/optimize/ort_fusions.h"
#include "exporters/onnx/optimize/passes.h"
#include "exporters/onnx/quantize/quantize.h"
#include "exporters/onnx/stages.h"
#include "exporters/onnx/translations/table.h"
#include "exporters/passes/dead_code.h"
#include "exporters/passes/decompose.h"
#include "exporters/passes/fixes.h"
#include "exporters/passes/functionalize.h"
#include "exporters/passes/retrace.h"
#include "exporters/passes/training_mode.h"
#include "exporters/patching/op_patch.h"
#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/support/version.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>

namespace exporters::onnx {

namespace fs = std::filesystem;

namespace {

const OnnxProgram& as_onnx(const BackendProgram& program) {
  const auto* onnx = dynamic_cast<const OnnxProgram*>(&program);
  ensure(onnx != nullptr, "the program was not made by the ONNX exporter");
  return *onnx;
}

std::map<std::string, std::map<int64_t, std::string>> axis_names(const AxisLabels& labels) {
  std::map<std::string, std::map<int64_t, std::string>> names;
  for (const auto& [input, axes] : labels) {
    for (const auto& [axis, label] : axes) {
      if (!label.name.empty()) {
        names[input][axis] = label.name;
      }
    }
  }
  return names;
}

void functional_form(ExportedProgram& program, const OnnxConfig& config) {
  functionalize(program);
  eliminate_dead_code(*program.graph);
  if (config.optimize) {
    optimize_program(program, config.disabled_passes);
  }
}

// Which ops of the program have an ONNX form, how others are taken apart, and whether there are such.
bool has_untranslated(const Graph& graph, int64_t opset, DecompositionTable& translated) {
  bool found = false;
  for_each_call(graph, [&](const Node& node) {
    if (!is_dispatcher_target(node.target())) {
      return;
    }
    if (find_onnx_translation(node.target(), opset) != nullptr) {
      translated.keep(node.target());
      return;
    }
    if (active_replacement(lookup_operator(node.target())) != nullptr) {
      translated.add(node.target(), Decomposition());
    } else if (const Decomposition* known = core_aten_decompositions().find(node.target())) {
      translated.add(node.target(), *known);
    }
    found = found || translated.decomposes(node.target());
  });
  return found;
}

// A program that was traced elsewhere has met no torch patches, and any program may have ops that consist of others.
// One without an ONNX form is taken apart: by the patch of it, as the trace would have done, by the decomposition into
// core ATen, or by its own composite kernel. What comes of it may have to be taken apart in its turn.
void take_apart_untranslated(ExportedProgram& program, int64_t opset, const OnnxConfig& config) {
  constexpr int kMostRounds = 8;
  for (int round = 0; round < kMostRounds; ++round) {
    DecompositionTable table;
    if (!has_untranslated(*program.graph, opset, table)) {
      return;
    }
    program = retrace(program, table);
    make_functional()(program, config);
  }
}

// A range that the user gave is not narrowed without a word: ONNX Runtime's attention refuses empty tensors.
void warn_of_narrower_ranges(const OnnxModel& model, const DynamicShapes& asked) {
  std::set<std::string> seen;
  const SizeConditions sizes = SizeConditions::of(model.metadata);
  const std::vector<BoolExpr>& conditions = sizes.conditions();
  for (const auto& [input, axes] : asked) {
    for (const auto& [axis, dim] : axes) {
      const bool from_zero = dim.kind() == Dim::Kind::kNamed && dim.range().min <= 0 && seen.insert(dim.name()).second;
      const BoolExpr not_empty = from_zero ? ge(Expr(Symbol(dim.name())), 1) : BoolExpr(true);
      if (from_zero && std::find(conditions.begin(), conditions.end(), not_empty) != conditions.end()) {
        log_warning(
            "the ONNX model takes {} only, and the range that was asked for begins at {}: operators of ONNX "
            "Runtime in it refuse empty tensors",
            not_empty.str(), dim.range().min);
      }
    }
  }
}

std::string dtype_text(OnnxType type) {
  const auto dtype = scalar_type(type);
  return dtype ? std::string(dtype_name(*dtype)) : type_name(type);
}

std::vector<ValueDescription> describe_values(const std::vector<OnnxValueInfo>& infos) {
  std::vector<ValueDescription> result;
  for (const OnnxValueInfo& info : infos) {
    ValueDescription value{info.name, dtype_text(info.dtype), {}};
    for (const OnnxDim& dim : info.dims.value_or(std::vector<OnnxDim>{})) {
      value.dims.push_back(dim_text(dim));
    }
    result.push_back(std::move(value));
  }
  return result;
}

// A name that is on both sides of the graph carries a prefix there.
std::string argument_name(const std::string& input) { return input.starts_with("input.") ? input.substr(6) : input; }

constexpr std::array<std::pair<std::string_view, WeightsMode>, 4> kWeightsModes = {
    {{"copy", WeightsMode::kCopy},
     {"link", WeightsMode::kLink},
     {"reference", WeightsMode::kReference},
     {"inline", WeightsMode::kInline}}};

std::vector<std::string> choices_of_weights() {
  std::vector<std::string> names;
  for (const auto& [name, mode] : kWeightsModes) {
    names.emplace_back(name);
  }
  return names;
}

WeightsMode weights_mode(const std::string& name) {
  const auto* found =
      std::find_if(kWeightsModes.begin(), kWeightsModes.end(), [&](const auto& mode) { return mode.first == name; });
  ensure(found != kWeightsModes.end(), "weights = \"{}\" is none of {}", name, fmt::join(choices_of_weights(), ", "));
  return found->second;
}

}  // namespace

std::vector<ConfigField> OnnxConfig::fields() {
  std::vector<ConfigField> result = DynamoConfig::fields();
  result.push_back(optional_int_field("opset_version", "version of the standard operators", opset_version, 18, 24));
  result.push_back(bool_field("optimize", "run the optimizer's passes, which hfx stages onnx lists", optimize));
  result.push_back(pass_names_field("disabled_passes", "passes of the optimizer to leave out", disabled_passes));
  result.push_back(choice_field("ort_fusions", "operators of ONNX Runtime for one execution provider", ort_fusions,
                                {"cpu", "cuda", "webgpu", "dml"}));
  result.push_back(
      choice_field("weights",
                   "where weights are: copy, a folder that stands alone; link, hard links to the "
                   "checkpoint's files; reference, in the checkpoint, which has to be in the export folder "
                   "or below it; inline, in the .onnx, up to 2 GB",
                   weights, choices_of_weights()));
  result.push_back(choice_field("quantization",
                                "round the weights of products, for MatMulNBits of com.microsoft; activations stay",
                                quantization, {"int8", "int4"}));
  result.push_back(optional_int_field("quantization_block_size",
                                      "neighbours in a row that share a scale: 16, 32, 64, 128 or 256; null: 32",
                                      quantization_block_size, 16, 256));
  result.push_back(bool_field("quantization_symmetric",
                              "a fixed zero point; otherwise each block stores one, and uses its whole range",
                              quantization_symmetric));
  result.push_back(optional_int_field(
      "quantization_accuracy_level",
      "what activations may be rounded to inside a product: 0 nothing, 1 float32, 2 float16, 3 bfloat16, 4 int8, "
      "which is several times faster on the CPU; null: 4",
      quantization_accuracy_level, 0, 4));
  return result;
}

void OnnxConfig::validate() const {
  DynamoConfig::validate();
  const int64_t block = quantization_block_size.value_or(32);
  ensure((block & (block - 1)) == 0, "quantization_block_size is {}; allowed are 16, 32, 64, 128 and 256", block);
  ensure(quantization || (!quantization_block_size && quantization_symmetric && !quantization_accuracy_level),
         "quantization_block_size, quantization_symmetric and quantization_accuracy_level say how to quantize: set "
         "quantization to int8 or int4, too");
  ensure(!ort_fusions || optimize, "ort_fusions = \"{}\" contradicts optimize = false: the fusions are optimizations",
         ort_fusions.value_or(""));
  ensure(!ort_fusions || opset_version.value_or(kDefaultOpset) >= 23,
         "ort_fusions = \"{}\" needs opset 23 or newer: it goes on from the Attention operator",
         ort_fusions.value_or(""));
}

QuantizationOptions OnnxConfig::quantization_options() const {
  QuantizationOptions options;
  options.format.bits = quantization == "int8" ? 8 : 4;
  options.format.block_size = quantization_block_size.value_or(options.format.block_size);
  options.format.symmetric = quantization_symmetric;
  options.accuracy_level = quantization_accuracy_level.value_or(options.accuracy_level);
  return options;
}

const MakeFunctional& make_functional() {
  static const MakeFunctional point("exporters.onnx.make_functional", functional_form);
  return point;
}

std::shared_ptr<const OnnxModel> OnnxProgram::model(const ReadOptions& options) const {
  return model_ ? model_ : std::make_shared<const OnnxModel>(read_model(file_, options));
}

ExportedComponent OnnxExporter::export_traced(TracedModel traced, ExportConfig& config) const {
  auto* onnx_config = dynamic_cast<OnnxConfig*>(&config);
  ensure(onnx_config != nullptr, "the ONNX exporter takes an OnnxConfig, not one for '{}'", config.export_format());
  ExportedProgram& program = *traced.program;
  refuse_training_mode(program);
  ExportedComponent component;
  component.metadata = std::move(traced.metadata);
  apply_fx_node_fixes("onnx", program);
  make_functional()(program, *onnx_config);
  OnnxOptions options;
  options.opset = onnx_config->opset_version.value_or(kDefaultOpset);
  take_apart_untranslated(program, options.opset, *onnx_config);
  component.metadata.out_constants = constant_outputs(program);

  options.axis_names = axis_names(traced.axis_labels);
  options.index_limits = traced.index_limits;
  options.producer_version = std::string(version());
  options.describe_values = onnx_config->optimize;
  options.ort_fusions = onnx_config->ort_fusions;
  OnnxModel converted = to_onnx(program, options);
  warn_of_narrower_ranges(converted, onnx_config->dynamic_shapes);
  if (onnx_config->optimize) {
    optimize_model(converted, onnx_config->disabled_passes);
    if (onnx_config->ort_fusions) {
      fuse_for_onnxruntime(converted);
    }
    for_each_graph(converted.graph, [](OnnxGraph& graph) { graph.value_info.clear(); });
  }
  apply_ir_fixes(converted);
  converted.metadata.emplace_back("export_config", config.to_dict().dump());
  std::optional<QuantizationSummary> quantization;
  if (onnx_config->quantization) {
    quantization = quantize(converted, program, onnx_config->quantization_options());
  }
  component.program =
      std::make_shared<OnnxProgram>(std::move(converted), weights_mode(onnx_config->weights), std::move(quantization));
  return component;
}

namespace {

// Ready to be saved: what is stored beside a loaded model is referred to.
OnnxModel model_to_save(const BackendProgram& program) {
  const OnnxProgram& onnx = as_onnx(program);
  OnnxModel model = *onnx.model();
  if (!onnx.file().empty()) {
    check_external_data(model, onnx.file().parent_path());
    refer_to_external_data(model, onnx.file().parent_path());
  }
  return model;
}

}  // namespace

void OnnxExporter::save_program(const BackendProgram& program, const fs::path& file) const {
  save_model(model_to_save(program), file, {.weights = as_onnx(program).weights()});
}

void OnnxExporter::save_programs(const std::vector<std::pair<std::string, const BackendProgram*>>& programs,
                                 const fs::path& folder, const fs::path& target) const {
  SaveOptions options;
  options.target = target;
  std::vector<std::pair<std::string, OnnxModel>> models;
  for (const auto& [file, program] : programs) {
    const WeightsMode weights = as_onnx(*program).weights();
    ensure(models.empty() || weights == options.weights, "the components of one export have their weights in one way");
    options.weights = weights;
    models.emplace_back(file, model_to_save(*program));
  }
  save_models(std::move(models), folder, options);
}

std::vector<std::string> OnnxExporter::saved_files(const fs::path& file) const {
  std::vector<std::string> files = program_files(file.filename().string());
  const OnnxModel model = read_model(file, {.keep_inline_bytes = 0});
  for_each_tensor(std::as_const(model.graph), [&](const OnnxTensor& tensor) {
    const auto* stored = std::get_if<StoredBytes>(&tensor.data);
    if (stored != nullptr && std::find(files.begin(), files.end(), stored->location) == files.end()) {
      files.push_back(stored->location);
    }
  });
  return files;
}

std::shared_ptr<BackendProgram> OnnxExporter::load_program(const fs::path& file) const {
  return std::make_shared<OnnxProgram>(file);
}

ExportedComponent OnnxExporter::open_program(const fs::path& file) const {
  ExportedComponent component;
  component.program = load_program(file);
  const auto model = as_onnx(*component.program).model({.keep_inline_bytes = 0});
  for (const OnnxValueInfo& input : model->graph.inputs) {
    component.metadata.kwargs.push_back({argument_name(input.name), {}, "{}"});
  }
  std::vector<std::string> names;
  for (const OnnxValueInfo& output : model->graph.outputs) {
    names.push_back(output.name);
  }
  const size_t count = names.size();
  component.metadata.out_spec = TreeSpec::dict(names, std::vector<TreeSpec>(count));
  return component;
}

ProgramDescription OnnxExporter::describe_program(const BackendProgram& program) const {
  const OnnxProgram& onnx = as_onnx(program);
  const auto shared = onnx.model({.keep_inline_bytes = 0});
  const OnnxModel& model = *shared;
  if (!onnx.file().empty()) {
    check_external_data(model, onnx.file().parent_path());
  }
  ProgramDescription description;
  description.inputs = describe_values(model.graph.inputs);
  description.outputs = describe_values(model.graph.outputs);
  for (const OnnxNode& node : model.graph.nodes) {
    ++description.ops[node.domain.empty() ? node.op_type : node.domain + "." + node.op_type];
  }
  const SizeConditions conditions = SizeConditions::of(model.metadata);
  for (const BoolExpr& condition : conditions.conditions()) {
    description.conditions.push_back(condition.str());
  }
  for (const auto& [domain, version] : model.opsets) {
    description.facts.emplace_back(domain.empty() ? "opset" : "opset " + domain, std::to_string(version));
  }
  description.facts.emplace_back("IR version", std::to_string(model.ir_version));
  description.facts.emplace_back("producer", model.producer_name + " " + model.producer_version);
  description.quantization = onnx.quantization();
  return description;
}

// ── Running ──

namespace {

// Components of an export share their weights.
bool has_sibling(const fs::path& file) {
  const fs::path folder = file.parent_path().empty() ? fs::path(".") : file.parent_path();
  return std::any_of(fs::directory_iterator(folder), fs::directory_iterator(), [&](const fs::directory_entry& entry) {
    return entry.path().extension() == ".onnx" && entry.path().filename() != file.filename();
  });
}

const fs::path& saved_file(const ExportedComponent& component) {
  const fs::path& file = as_onnx(*component.program).file();
  if (file.empty()) {
    throw Error("this export is not saved yet, and ONNX Runtime reads the weights from its folder", {},
                "Call save_pretrained, then from_pretrained.");
  }
  return file;
}

OnnxRunnerOptions default_options(const ExportedComponent& component) {
  OnnxRunnerOptions options;
  options.share_weights = has_sibling(saved_file(component));
  return options;
}

}  // namespace

OnnxComponentRunner::OnnxComponentRunner(const ExportedComponent& component)
    : OnnxComponentRunner(component, default_options(component)) {}

OnnxComponentRunner::OnnxComponentRunner(const ExportedComponent& component, const OnnxRunnerOptions& options)
    : runner_(saved_file(component), options),
      conditions_(SizeConditions::of(runner_.metadata())),
      index_limits_(index_limits_of(runner_.metadata())),
      out_spec_(component.metadata.out_spec),
      out_constants_(component.metadata.out_constants) {}

PyTree OnnxComponentRunner::run(const NamedInputs& inputs) { return result(runner_.run(bind(inputs))); }

PyTree OnnxComponentRunner::run_in_place(NamedInputs inputs) {
  OnnxRunner::Inputs bound = bind(inputs);
  inputs.clear();
  return result(runner_.run_in_place(std::move(bound)));
}

OnnxRunner::Inputs OnnxComponentRunner::bind(const NamedInputs& inputs) const {
  LeavesByPath given(inputs);
  OnnxRunner::Inputs bound;
  for (const OnnxValueInfo& input : runner_.inputs()) {
    const std::string path = argument_name(input.name);
    const bool by_own_name = path != input.name && given.has(input.name);
    bound.emplace(input.name, given.take_tensor(by_own_name ? input.name : path));
  }
  given.check();
  conditions_.check(runner_.inputs(), bound);
  for (const auto& [name, limit] : index_limits_) {
    if (const auto input = bound.find(name); input != bound.end()) {
      check_indices(argument_name(name), input->second, limit);
    }
  }
  return bound;
}

PyTree OnnxComponentRunner::result(const OnnxRunner::Outputs& outputs) const {
  // The last outputs are the leaves of out_spec, but for its constants (export-format: how a runner rebuilds outputs).
  const size_t leaf_count = out_spec_.leaf_count();
  const size_t wanted = leaf_count - out_constants_.size();
  ensure(outputs.size() >= wanted, "the program has {} outputs, out_spec asks for {}", outputs.size(), wanted);
  std::vector<PyTree::Leaf> leaves(leaf_count);
  std::vector<bool> is_constant(leaf_count, false);
  for (const auto& [index, value] : out_constants_) {
    leaves[index] = value;
    is_constant[index] = true;
  }
  size_t next = outputs.size() - wanted;
  for (size_t i = 0; i < leaf_count; ++i) {
    if (!is_constant[i]) {
      leaves[i] = outputs[next++].second;
    }
  }
  return PyTree::unflatten(out_spec_, std::move(leaves));
}

std::vector<Stage> OnnxExporter::stages() const {
  return {torch_patches_stage(), onnx_patches_stage(), node_fixes_stage(), translations_stage(), ir_fixes_stage()};
}

// GroupQueryAttention serves both, and a runtime that opens one graph keeps the weights once.
bool OnnxExporter::merges_generation(const ExportConfig& config) const {
  const auto* onnx = dynamic_cast<const OnnxConfig*>(&config);
  return onnx != nullptr && onnx->ort_fusions.has_value();
}

void register_onnx_backend() {
  register_backend<OnnxExporter, OnnxComponentRunner>();
  static std::once_flag stages;  // a patch that is registered twice is applied twice
  std::call_once(stages, [] {
    make_functional();
    register_torch_patches();
    register_onnx_patches();
    register_node_fixes();
    register_ir_fixes();
  });
}

}  // namespace exporters::onnx
