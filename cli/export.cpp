#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/effects.h"
#include "cli/settings.h"
#include "cli/table.h"

#include "exporters/framework/dynamic_shapes.h"
#include "exporters/framework/export_target.h"
#include "exporters/framework/registry.h"
#include "exporters/framework/tensor_files.h"
#include "exporters/models/config.h"
#include "exporters/support/error.h"
#include "exporters/support/progress.h"
#include "exporters/support/quote.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

namespace hfx {
namespace {

namespace fs = std::filesystem;
using exporters::ExportRequest;

struct Options {
  std::string source;
  std::string format;
  std::string output;
  std::string task;
  std::string dtype;
  std::string weights;
  bool is_static = false;
  bool evaluation = false;
  bool generation = false;
  std::optional<bool> merged;
  bool json = false;
  bool explain = false;
  std::optional<std::string> batch;
  std::optional<std::string> sequence;
  std::vector<std::string> sample;
  std::vector<std::string> forward;
  std::vector<std::string> max_dims;
  std::vector<std::string> set;
};

// "batch=8" and the like as the config field max_dims, which only formats with planned memory have.
std::string max_dims_json(const std::vector<std::string>& words) {
  nlohmann::json sizes = nlohmann::json::object();
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    const std::string number = equals == std::string::npos ? "" : word.substr(equals + 1);
    const bool is_number =
        !number.empty() && number.find_first_not_of("0123456789") == std::string::npos && number.size() < 10;
    exporters::ensure(equals != 0 && is_number, "'{}' is no largest size: write --max-dim batch=8", word);
    const std::string axis = word.substr(0, equals);
    exporters::ensure(!sizes.contains(axis), "--max-dim gives '{}' twice", axis);
    sizes[axis] = std::stoll(number);
  }
  return sizes.dump();
}

bool has_field(const std::string& format, std::string_view name) {
  const auto config = exporters::exporter_for(format).make_config();
  const auto fields = config->fields();
  return std::any_of(fields.begin(), fields.end(), [&](const auto& field) { return field.name == name; });
}

// An option that is short for a config field, which not every format has.
void add_setting(ExportRequest& request, const char* option, const char* field, const std::string& value) {
  if (!has_field(request.format, field)) {
    std::string formats;
    for (const std::string& format : exporters::registered_formats()) {
      formats += has_field(format, field) ? (formats.empty() ? "" : ", ") + format : "";
    }
    exporters::fail("{} is no option of the format {}: it is for {}", option, request.format, formats);
  }
  request.settings.emplace_back(field, value);
}

ExportRequest request(const Options& options) {
  ExportRequest result;
  result.source = options.source;
  result.format = options.format;
  result.task = options.task;
  result.dynamic = !options.is_static;
  result.evaluation = options.evaluation;
  if (!options.dtype.empty()) {
    result.dtype = exporters::models::parse_dtype(options.dtype);
  }
  for (const auto& [name, text] : {std::pair("batch", &options.batch), std::pair("sequence", &options.sequence)}) {
    if (text->has_value()) {
      exporters::ensure(!options.is_static, "--{} asks for a dynamic axis and --static for none", name);
      exporters::ensure(
          text->value().empty() || text->value().find(':') != std::string::npos,
          "--{0} takes a range of sizes, for example --{0} 1:{1}. For one size only, give a --sample of it "
          "and --static",
          name, **text);
      result.axes[name] = exporters::parse_range(**text);
    }
  }
  result.sample_inputs = exporters::read_tensors(options.sample);
  result.flags = exporters::read_flags(options.forward);
  result.settings = settings_of(options.set);
  for (const auto& [field, value] : result.settings) {
    exporters::ensure(!options.is_static || field != "dynamic",
                      "--static and --set dynamic={} say the same thing twice", value);
  }
  if (!options.weights.empty()) {
    add_setting(result, "--weights", "weights", options.weights);
  }
  if (!options.max_dims.empty()) {
    add_setting(result, "--max-dim", "max_dims", max_dims_json(options.max_dims));
  }
  result.generation = options.generation;
  result.merged = options.merged;
  return result;
}

struct FileSize {
  std::string name;
  uint64_t bytes = 0;
};

std::vector<FileSize> files_of(const exporters::ExportedModel& model, const fs::path& folder) {
  const exporters::HfExporter& exporter = exporters::exporter_for(model.export_format());
  std::vector<std::string> names = {"config.json", "export.json", "generation_config.json"};
  for (const auto& [name, component] : model.components()) {
    for (const std::string& file : exporter.saved_files(folder / exporter.program_file(name, *component.program))) {
      if (std::find(names.begin(), names.end(), file) == names.end()) {  // components may share them
        names.push_back(file);
      }
    }
  }
  std::vector<FileSize> files;
  for (const std::string& name : names) {
    if (fs::exists(folder / name)) {
      files.push_back({name, fs::file_size(folder / name)});
    }
  }
  return files;
}

// `folder` as the user named it.
void print(const exporters::ExportedModel& model, const fs::path& folder, double seconds, bool json, bool explain) {
  const exporters::HfExporter& exporter = exporters::exporter_for(model.export_format());
  const std::vector<FileSize> files = files_of(model, folder);
  if (json) {
    nlohmann::ordered_json document = {
        {"format", model.export_format()}, {"folder", folder.string()}, {"seconds", seconds}};
    for (const FileSize& file : files) {
      document["files"][file.name] = file.bytes;
    }
    for (const auto& [name, component] : model.components()) {
      document["components"][name] = description_json(exporter.describe_program(*component.program));
      if (explain) {
        document["effects"][name] = effects_json(component.effects);
      }
    }
    std::cout << document.dump(2) << "\n";
    return;
  }
  for (const auto& [name, component] : model.components()) {
    if (model.components().size() > 1) {
      std::cout << name << "\n\n";
    }
    const exporters::ProgramDescription description = exporter.describe_program(*component.program);
    std::cout << description_text(description) << "\n";
    if (description.quantization) {
      std::cout << quantization_text(*description.quantization) << "\n";
    }
  }
  std::vector<std::vector<std::string>> sizes;
  for (const FileSize& file : files) {
    sizes.push_back({file.name, exporters::short_bytes_text(file.bytes)});
  }
  std::cout << table({"file", "size"}, sizes);
  for (const auto& [name, component] : model.components()) {
    if (explain) {
      std::cout << "\n" << name << ": " << effects_text(component.effects);
    }
  }
  std::cout << fmt::format("\nExported to {} in {:.2f} s.\n", folder.string(), seconds);
}

void run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const exporters::Progress progress("Exporting " + options.source);
  exporters::ensure(!options.source.empty(), "SOURCE is empty");
  exporters::ensure(!options.output.empty(), "--output names no folder");
  // Links are followed before "..", as the system does.
  const fs::path folder = fs::weakly_canonical(options.output);
  exporters::refuse_own_source(options.source, folder);
  const exporters::ExportedModel model = exporters::export_target(request(options));
  model.save_pretrained(folder);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print(model, options.output, seconds.count(), options.json, options.explain);
}

}  // namespace

void add_export_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "Export a checkpoint to a program that runs without Python");
  command
      ->add_option(
          "SOURCE", options->source,
          "Checkpoint folder (config.json and safetensors), a .pt2, also Python's, or an export folder with one")
      ->required();
  command->add_option("--to", options->format, "Format of the program: onnx, executorch (.pte) or dynamo (.pt2)")
      ->required();
  command->add_option("-o,--output", options->output, "Export folder to write, all or nothing; other files in it stay")
      ->required();
  command->add_option("--task", options->task,
                      "What the model is for (fill-mask, text-classification, …); default: the config's architecture");
  command->add_option("--dtype", options->dtype, "float32, float16 or bfloat16; default: the checkpoint's");
  command->add_option(
      "--weights", options->weights,
      "onnx: where the weights are. copy (default): in a copy, the folder stands alone. link: in hard links to the "
      "checkpoint's files, at once; onnx.checker refuses them, and who writes into the checkpoint's files changes the "
      "export. reference: in the checkpoint itself, which has to be in the export folder or below it and stay there. "
      "inline: in the .onnx, up to 2 GB");
  command->add_flag("--static", options->is_static, "Fix every size to the sample's; default: all sizes stay dynamic");
  command->add_option("--batch", options->batch,
                      "Range of the batch, for example 1:64; the export fails if it can't hold");
  command->add_option("--sequence", options->sequence, "Range of the sequence length, for example 1:512");
  command->add_option("--max-dim", options->max_dims,
                      "executorch: largest size of a dynamic axis, for example batch=8; memory is planned for it");
  command->add_option("--sample", options->sample,
                      "Sample inputs: .safetensors, .npz, or name=value; default: made from the config");
  command->add_option("--forward", options->forward,
                      "Forward argument that is no tensor, for example output_hidden_states=true");
  command->add_option("--set", options->set,
                      "Field of the export config, for example opset_version=20; with --generation also of the "
                      "generation config, for example cache_implementation=static max_cache_len=256");
  command->add_flag("--generation", options->generation,
                    "Export what hfx generate needs: prefill and decode with a cache, sharing their weights");
  // A flag of an optional would set it to false where it is not given.
  CLI::Option* merged = command->add_flag_callback(
      "--merged", [options] { options->merged = true; },
      "With --generation: one component, decode, that also takes a whole prompt with an empty cache; the default with "
      "--set ort_fusions=cpu (or cuda, webgpu, dml), unless --separate");
  CLI::Option* separate = command->add_flag_callback(
      "--separate", [options] { options->merged = false; },
      "With --generation: prefill and decode as components of their own");
  merged->excludes(separate);
  command->add_flag("--eval", options->evaluation,
                    "Switch a .pt2 that was traced in training mode to evaluation, instead of refusing it");
  command->add_flag("--explain", options->explain, "Show which patches and fixes took effect, how often and where");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([options] { run(*options); });
}

}  // namespace hfx
