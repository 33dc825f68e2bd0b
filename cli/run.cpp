#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/table.h"

#include "exporters/framework/target.h"
#include "exporters/framework/tensor_files.h"
#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"
#include "exporters/weights/safetensors.h"

#include <ATen/ops/mean.h>
#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <optional>

namespace hfx {
namespace {

struct Options {
  std::string target;
  std::vector<std::string> inputs;
  std::vector<std::string> forward;
  std::string task;
  std::string component;
  std::optional<std::string> output;
  bool json = false;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

NamedTensors tensors_of(const exporters::PyTree& result) {
  NamedTensors tensors = result.tensors();
  for (auto& [path, tensor] : tensors) {
    if (path.empty()) {
      path = "output";
    }
  }
  return tensors;
}

std::string shape_of(const at::Tensor& tensor) {
  std::vector<std::string> dims;
  for (const int64_t size : tensor.sizes()) {
    dims.push_back(std::to_string(size));
  }
  return shape_text(dims);
}

// The first values, so that two runs can be compared at a glance.
std::string first_values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).flatten();
  const int64_t shown = std::min<int64_t>(flat.numel(), 4);
  std::string text;
  for (int64_t i = 0; i < shown; ++i) {
    text += fmt::format("{}{:.5g}", i == 0 ? "" : ", ", flat.const_data_ptr<double>()[i]);
  }
  return shown < flat.numel() ? text + ", …" : text;
}

void print_json(const NamedTensors& outputs) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const auto& [path, tensor] : outputs) {
    document[path] = {{"dtype", std::string(exporters::dtype_name(tensor.scalar_type()))},
                      {"shape", tensor.sizes().vec()}};
  }
  std::cout << document.dump(2) << "\n";
}

void print_table(const NamedTensors& outputs) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [path, tensor] : outputs) {
    rows.push_back(
        {path, std::string(exporters::dtype_name(tensor.scalar_type())), shape_of(tensor), first_values(tensor)});
  }
  std::cout << table({"output", "dtype", "shape", "values"}, rows);
}

void run(const Options& options) {
  if (options.output) {
    check_output_file(*options.output, options.inputs, "outputs");
  }
  exporters::TargetOptions target;
  target.task = options.task;
  target.flags = exporters::read_flags(options.forward);
  target.component = options.component;
  const exporters::Runnable runnable = exporters::open_target(options.target, target);
  const NamedTensors outputs = tensors_of(runnable(exporters::read_tensors(options.inputs, runnable.input_dtype)));
  if (options.output) {
    exporters::save_safetensors(*options.output, outputs);
  }
  if (options.json) {
    print_json(outputs);
  } else {
    print_table(outputs);
  }
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Run a checkpoint, an export folder or a program file");
  command->add_option("TARGET", options->target, "Checkpoint folder (runs eagerly), export folder or program file")
      ->required();
  command->add_option("--inputs", options->inputs, "Inputs by name: .safetensors, .npz, or name=value")->required();
  command->add_option("--forward", options->forward, "Checkpoints: forward argument that is no tensor");
  command->add_option("--task", options->task, "Checkpoints: what the model is for");
  command->add_option("--component", options->component, "Export folders: which component, where there are several");
  command->add_option("-o,--output", options->output, "Write the outputs to this .safetensors file");
  command->add_flag("--json", options->json, "Print names, dtypes and shapes as JSON");
  command->callback([options] { run(*options); });
}

}  // namespace hfx
