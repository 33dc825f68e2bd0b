#include "cli/commands.h"
#include "cli/table.h"

#include "exporters/framework/registry.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace hfx {
namespace {

using exporters::Stage;
using exporters::StageEntry;

struct Options {
  std::string format;
  bool json = false;
  bool markdown = false;
};

std::string joined(const std::vector<std::string>& words, const char* separator = ", ") {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : separator) + word;
  }
  return text;
}

// What is there to be explained, and what is plain: a table's other entries, by name.
struct Listing {
  std::vector<const StageEntry*> explained;
  std::vector<std::string> plain;
};

Listing listing(const Stage& stage) {
  Listing result;
  for (const StageEntry& entry : stage.entries) {
    if (entry.reason.empty()) {
      result.plain.push_back(entry.name);
    } else {
      result.explained.push_back(&entry);
    }
  }
  return result;
}

void print_text(const std::vector<Stage>& stages) {
  for (const Stage& stage : stages) {
    std::cout << fmt::format("Stage {}: {}\n{}\nTo extend: {}\n", stage.number, stage.title, stage.what,
                             stage.how_to_extend);
    const Listing entries = listing(stage);
    std::vector<std::vector<std::string>> rows;
    for (const StageEntry* entry : entries.explained) {
      const std::string link = entry->link.empty() ? "" : " (" + entry->link + ")";
      rows.push_back({entry->kind, entry->name, joined(entry->targets), entry->reason + link});
    }
    if (!rows.empty()) {
      std::cout << "\n" << table({"kind", "name", "replaces", "reason"}, rows);
    }
    if (!entries.plain.empty()) {
      std::cout << fmt::format("\n{} {}:\n", entries.plain.size(), rows.empty() ? "entries" : "more")
                << paragraph(entries.plain);
    }
    std::cout << "\n";
  }
}

// One line of a markdown table; a bar would end the cell.
std::string cell(std::string text) {
  for (size_t i = text.find('|'); i != std::string::npos; i = text.find('|', i + 2)) {
    text.insert(i, "\\");
  }
  return text;
}

void print_markdown(const std::string& format, const std::vector<Stage>& stages) {
  std::cout << fmt::format(
      "# Stages of the format `{0}`\n\nMade by `hfx stages {0} --markdown` from the registries; a test compares this "
      "page "
      "with that output.\n",
      format);
  for (const Stage& stage : stages) {
    std::cout << fmt::format("\n## {}. {}\n\n{}\n\nTo extend: {}\n", stage.number, stage.title, stage.what,
                             stage.how_to_extend);
    const Listing entries = listing(stage);
    if (!entries.explained.empty()) {
      std::cout << "\n| kind | name | replaces | reason |\n|---|---|---|---|\n";
    }
    for (const StageEntry* entry : entries.explained) {
      std::vector<std::string> targets;
      for (const std::string& target : entry->targets) {
        targets.push_back("`" + target + "`");
      }
      const std::string link = entry->link.empty() ? "" : " [upstream](" + entry->link + ")";
      std::cout << fmt::format("| {} | `{}` | {} | {}{} |\n", entry->kind, entry->name, joined(targets),
                               cell(entry->reason), link);
    }
    if (!entries.plain.empty()) {
      std::cout << fmt::format("\n{} more: `{}`\n", entries.plain.size(), joined(entries.plain, "`, `"));
    }
  }
}

void print_json(const std::vector<Stage>& stages) {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const Stage& stage : stages) {
    nlohmann::ordered_json entries = nlohmann::ordered_json::array();
    for (const StageEntry& entry : stage.entries) {
      entries.push_back({{"kind", entry.kind},
                         {"name", entry.name},
                         {"targets", entry.targets},
                         {"reason", entry.reason},
                         {"link", entry.link}});
    }
    document.push_back({{"number", stage.number},
                        {"title", stage.title},
                        {"what", stage.what},
                        {"how_to_extend", stage.how_to_extend},
                        {"entries", std::move(entries)}});
  }
  std::cout << document.dump(2) << "\n";
}

void run(const Options& options) {
  const std::vector<Stage> stages = exporters::exporter_for(options.format).stages();
  if (options.json) {
    print_json(stages);
  } else if (options.markdown) {
    print_markdown(options.format, stages);
  } else {
    print_text(stages);
  }
}

}  // namespace

void add_stages_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("stages", "Show the stages of a format, with every patch and fix and its reason");
  command->add_option("FORMAT", options->format, "Format of the programs: onnx, executorch (.pte) or dynamo (.pt2)")
      ->required();
  CLI::Option* json = command->add_flag("--json", options->json, "Print as JSON");
  command->add_flag("--markdown", options->markdown, "Print as the page of the documentation")->excludes(json);
  command->callback([options] { run(*options); });
}

}  // namespace hfx
