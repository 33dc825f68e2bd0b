#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/settings.h"

#include "exporters/framework/target.h"
#include "exporters/framework/tensor_files.h"
#include "exporters/support/error.h"
#include "exporters/weights/safetensors.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <iostream>
#include <memory>

namespace hfx {
namespace {

struct Options {
  std::string target;
  std::vector<std::string> inputs;
  std::string ids;
  std::string output;
  std::string task;
  std::vector<std::string> set;
  bool stream = false;
  bool json = false;
};

exporters::NamedInputs inputs_of(const Options& options, const exporters::GenerationConfig& config) {
  exporters::NamedInputs inputs = exporters::read_tensors(options.inputs);
  if (!options.ids.empty()) {
    const int64_t end = config.eos_token_id.empty() ? 0 : config.eos_token_id.front();
    for (auto& prompt : exporters::read_prompts(options.ids, config.pad_token_id.value_or(end))) {
      for (const auto& [name, value] : inputs) {
        exporters::ensure(name != prompt.first, "'{}' is given by --inputs and by --ids", name);
      }
      inputs.push_back(std::move(prompt));
    }
  }
  return inputs;
}

std::vector<std::vector<int64_t>> rows_of(const at::Tensor& tokens) {
  const at::Tensor rows = tokens.contiguous();
  std::vector<std::vector<int64_t>> result;
  for (int64_t row = 0; row < rows.size(0); ++row) {
    const int64_t* begin = rows.const_data_ptr<int64_t>() + row * rows.size(1);
    result.emplace_back(begin, begin + rows.size(1));
  }
  return result;
}

std::string line_of(const std::vector<int64_t>& tokens) {
  std::string line;
  for (const int64_t token : tokens) {
    line += (line.empty() ? "" : " ") + std::to_string(token);
  }
  return line;
}

void run(const Options& options) {
  if (!options.output.empty()) {
    check_output_file(options.output, options.inputs, "sequences");
  }
  exporters::ensure(!options.stream || !options.json, "--stream prints tokens and --json one document: choose one");
  const exporters::Generator generator =
      exporters::open_generator(options.target, settings_of(options.set), options.task);
  const exporters::NamedInputs inputs = inputs_of(options, generator.config());
  int64_t steps = 0;
  const auto start = std::chrono::steady_clock::now();
  const at::Tensor sequences = generator.generate(inputs, [&](const at::Tensor& tokens) {
    ++steps;
    if (options.stream) {
      std::cout << line_of(rows_of(tokens.unsqueeze(0)).front()) << std::endl;
    }
    return true;
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!options.output.empty()) {
    exporters::save_safetensors(options.output, {{"sequences", sequences}});
  }
  if (options.json) {
    std::cout << nlohmann::ordered_json{{"sequences", rows_of(sequences)},
                                        {"new_tokens", steps},
                                        {"seconds", seconds.count()}}
                     .dump(2)
              << "\n";
  } else if (!options.stream) {
    for (const std::vector<int64_t>& row : rows_of(sequences)) {
      std::cout << line_of(row) << "\n";
    }
    std::cout << fmt::format("\n{} new tokens a row in {:.2f} s.\n", steps, seconds.count());
  }
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Generate tokens by a checkpoint or by an export for generation");
  command
      ->add_option("TARGET", options->target,
                   "Checkpoint folder (runs eagerly), or an export folder of hfx export --generation")
      ->required();
  command->add_option("--inputs", options->inputs,
                      "Inputs by name: .safetensors, .npz, or name=value: input_ids, attention_mask, position_ids");
  command->add_option("--ids", options->ids,
                      "Prompts as token ids: \"1, 2, 3\", or a list for each row: \"[[1, 2, 3], [4, 5]]\"");
  command->add_option("--set", options->set,
                      "Field of the generation config, over generation_config.json: max_new_tokens=32, do_sample=true, "
                      "temperature, top_k, top_p, min_p, seed, repetition_penalty, eos_token_id, …");
  command->add_option("--task", options->task,
                      "Checkpoints: what the model is for; default: the config's architecture");
  command->add_option("-o,--output", options->output,
                      "Write \"sequences\", prompts included, to this .safetensors file");
  command->add_flag("--stream", options->stream, "Print each step's tokens as they come, one for each row");
  command->add_flag("--json", options->json, "Print the sequences as JSON");
  command->callback([options] { run(*options); });
}

}  // namespace hfx
