#include "cli/commands.h"
#include "cli/table.h"

#include "exporters/framework/exported_model.h"
#include "exporters/framework/registry.h"
#include "exporters/framework/target.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"
#include "exporters/weights/checkpoint.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <charconv>
#include <filesystem>
#include <iostream>
#include <memory>

namespace hfx {
namespace {

namespace fs = std::filesystem;
using exporters::ProgramDescription;
using exporters::ValueDescription;
using nlohmann::ordered_json;

struct Options {
  std::string target;
  bool json = false;
};

struct Program {
  std::string name;
  ProgramDescription description;
  std::vector<std::pair<std::string, uint64_t>> files;
};

std::vector<std::pair<std::string, uint64_t>> sizes_of(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, uint64_t>> sizes;
  for (const std::string& name : names) {
    if (fs::exists(folder / name)) {
      sizes.emplace_back(name, fs::file_size(folder / name));
    }
  }
  return sizes;
}

std::vector<Program> open_programs(const fs::path& target) {
  std::vector<Program> programs;
  if (exporters::target_kind(target) == exporters::TargetKind::kProgramFile) {
    const exporters::HfExporter& exporter = exporters::exporter_for_file(target);
    programs.push_back({target.filename().string(), exporter.describe_program(*exporter.load_program(target)),
                        sizes_of(target.parent_path(), exporter.program_files(target.filename().string()))});
    return programs;
  }
  const auto model = exporters::ExportedModel::from_pretrained(target);
  const exporters::HfExporter& exporter = exporters::exporter_for(model.export_format());
  for (const auto& [name, component] : model.components()) {
    programs.push_back({name, exporter.describe_program(*component.program),
                        sizes_of(target, exporter.program_files(name + exporter.program_suffix()))});
  }
  return programs;
}

// Sizes as numbers, symbols as text.
ordered_json dims_json(const std::vector<std::string>& dims) {
  ordered_json result = ordered_json::array();
  for (const std::string& dim : dims) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), size);
    const bool is_number = error == std::errc() && end == dim.data() + dim.size();
    result.push_back(is_number ? ordered_json(size) : ordered_json(dim));
  }
  return result;
}

ordered_json values_json(const std::vector<ValueDescription>& values) {
  ordered_json result = ordered_json::object();
  for (const ValueDescription& value : values) {
    result[value.name] = {{"dtype", value.dtype}, {"shape", dims_json(value.dims)}};
  }
  return result;
}

ordered_json to_json(const Program& program) {
  ordered_json result = {{"inputs", values_json(program.description.inputs)},
                         {"outputs", values_json(program.description.outputs)},
                         {"conditions", program.description.conditions},
                         {"ops", program.description.ops}};
  for (const auto& [name, value] : program.description.facts) {
    result["facts"][name] = value;
  }
  for (const auto& [name, bytes] : program.files) {
    result["files"][name] = bytes;
  }
  return result;
}

void print(const Program& program) {
  std::vector<std::vector<std::string>> values;
  for (const ValueDescription& input : program.description.inputs) {
    values.push_back({"input", input.name, input.dtype, shape_text(input.dims)});
  }
  for (const ValueDescription& output : program.description.outputs) {
    values.push_back({"output", output.name, output.dtype, shape_text(output.dims)});
  }
  std::vector<std::vector<std::string>> ops;
  for (const auto& [op, count] : program.description.ops) {
    ops.push_back({op, std::to_string(count)});
  }
  std::vector<std::vector<std::string>> facts;
  for (const auto& [name, value] : program.description.facts) {
    facts.push_back({name, value});
  }
  for (const auto& [name, bytes] : program.files) {
    facts.push_back({name, exporters::short_bytes_text(bytes)});
  }
  std::cout << program.name << "\n\n"
            << table({"", "name", "dtype", "shape"}, values) << conditions_text(program.description.conditions) << "\n"
            << table({"operator", "count"}, ops) << "\n"
            << table({"fact", "value"}, facts);
}

void inspect_checkpoint(const fs::path& folder, bool json) {
  const auto checkpoint = exporters::Checkpoint::open(folder);
  ordered_json document = ordered_json::object();
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : checkpoint.names()) {
    const exporters::SafetensorsEntry& tensor = *checkpoint.find(name)->tensor;
    std::vector<std::string> dims;
    for (const int64_t size : tensor.shape) {
      dims.push_back(std::to_string(size));
    }
    const std::string dtype(exporters::dtype_name(tensor.dtype));
    document[name] = {{"dtype", dtype}, {"shape", tensor.shape}, {"bytes", tensor.nbytes}};
    rows.push_back({name, dtype, shape_text(dims), exporters::short_bytes_text(tensor.nbytes)});
  }
  if (json) {
    std::cout << document.dump(2) << "\n";
  } else {
    std::cout << table({"tensor", "dtype", "shape", "size"}, rows)
              << fmt::format("\n{} tensors, {}\n", rows.size(), exporters::short_bytes_text(checkpoint.nbytes()));
  }
}

void run(const Options& options) {
  if (fs::path(options.target).extension() == ".safetensors" ||
      exporters::target_kind(options.target) == exporters::TargetKind::kCheckpoint) {
    inspect_checkpoint(options.target, options.json);
    return;
  }
  const std::vector<Program> programs = open_programs(options.target);
  if (options.json) {
    ordered_json document = ordered_json::object();
    for (const Program& program : programs) {
      document[program.name] = to_json(program);
    }
    std::cout << document.dump(2) << "\n";
    return;
  }
  for (const Program& program : programs) {
    print(program);
  }
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show inputs, outputs, operators and sizes of an export");
  command->add_option("TARGET", options->target, "Export folder, program file, checkpoint folder or .safetensors")
      ->required();
  command->add_flag("--json", options->json, "Print as JSON");
  command->callback([options] { run(*options); });
}

}  // namespace hfx
