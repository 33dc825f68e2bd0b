#include "cli/commands.h"
#include "cli/models_page.h"
#include "cli/table.h"

#include "exporters/models/registry.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace hfx {
namespace {

void print_table() {
  std::vector<std::vector<std::string>> rows;
  for (const exporters::models::ModelEntry& entry : exporters::models::list()) {
    rows.push_back({std::string(entry.model_type), std::string(entry.architecture), std::string(entry.task)});
  }
  std::cout << table({"model type", "architecture", "task"}, rows);
}

void print_json() {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const exporters::models::ModelEntry& entry : exporters::models::list()) {
    document.push_back({{"model_type", entry.model_type}, {"architecture", entry.architecture}, {"task", entry.task}});
  }
  std::cout << document.dump(2) << "\n";
}

}  // namespace

void add_models_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("models", "List the supported architectures and tasks");
  command->add_flag("--json", *json, "Print as JSON");
  auto status = std::make_shared<bool>(false);
  command->add_flag("--status", *status, "Print what the tests of this version show of each family, as Markdown")
      ->excludes("--json");
  command->callback([json, status] {
    if (*status) {
      std::cout << kModelsPage;
    } else {
      *json ? print_json() : print_table();
    }
  });
}

}  // namespace hfx
