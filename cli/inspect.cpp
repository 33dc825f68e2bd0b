#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/table.h"

#include "exporters/framework/exported_model.h"
#include "exporters/framework/registry.h"
#include "exporters/framework/target.h"
#include "exporters/graph/dtype.h"
#include "exporters/models/config.h"
#include "exporters/models/registry.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"
#include "exporters/weights/checkpoint.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <iostream>
#include <memory>

namespace hfx {
namespace {

namespace fs = std::filesystem;
using exporters::ProgramDescription;
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

// A component may have its program in a file of another name.
std::vector<std::string> files_of(const exporters::HfExporter& exporter, const fs::path& file) {
  return fs::exists(file) ? exporter.saved_files(file) : std::vector<std::string>();
}

std::vector<Program> open_programs(const fs::path& target) {
  std::vector<Program> programs;
  if (exporters::target_kind(target) == exporters::TargetKind::kProgramFile) {
    const exporters::HfExporter& exporter = exporters::exporter_for_file(target);
    programs.push_back({target.filename().string(), exporter.describe_program(*exporter.load_program(target)),
                        sizes_of(target.parent_path(), exporter.saved_files(target))});
    return programs;
  }
  const auto model = exporters::ExportedModel::from_pretrained(target);
  const exporters::HfExporter& exporter = exporters::exporter_for(model.export_format());
  for (const auto& [name, component] : model.components()) {
    programs.push_back(
        {name, exporter.describe_program(*component.program),
         sizes_of(target, files_of(exporter, target / exporter.program_file(name, *component.program)))});
  }
  return programs;
}

ordered_json to_json(const Program& program) {
  ordered_json result = description_json(program.description);
  result["ops"] = program.description.ops;
  for (const auto& [name, value] : program.description.facts) {
    result["facts"][name] = value;
  }
  for (const auto& [name, bytes] : program.files) {
    result["files"][name] = bytes;
  }
  return result;
}

void print(const Program& program) {
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
  std::cout << exporters::printable(program.name) << "\n\n"
            << description_text(program.description) << "\n"
            << table({"operator", "count"}, ops) << "\n"
            << table({"fact", "value"}, facts);
}

// What a checkpoint's config says it is, and what hfx can make of it.
struct CheckpointKind {
  std::string model_type;
  std::vector<std::string> architectures;  ///< as the config lists them
  std::vector<std::string> supported;      ///< "BertForMaskedLM (fill-mask)"
};

CheckpointKind kind_of(const fs::path& folder) {
  const auto config = exporters::models::ModelConfig::load(folder);
  CheckpointKind kind{config.model_type(), config.architectures(), {}};
  for (const exporters::models::ModelEntry& entry : exporters::models::list()) {
    if (entry.model_type == kind.model_type) {
      kind.supported.push_back(entry.task.empty() ? std::string(entry.architecture)
                                                  : fmt::format("{} ({})", entry.architecture, entry.task));
    }
  }
  return kind;
}

void print(const CheckpointKind& kind) {
  const auto or_none = [](const std::vector<std::string>& names) {
    return names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "));
  };
  std::cout << "\n"
            << table({"fact", "value"}, {{"model type", kind.model_type},
                                         {"architecture", or_none(kind.architectures)},
                                         {"hfx exports it as", or_none(kind.supported)}});
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
    if (fs::is_regular_file(folder / "config.json")) {
      print(kind_of(folder));
    }
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
