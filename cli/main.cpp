#include "cli/commands.h"
#include "cli/interrupt.h"

#include "exporters/dynamo/exporter.h"
#ifdef HFX_WITH_EXECUTORCH
#include "exporters/executorch/exporter.h"
#endif
#include "exporters/onnx/exporter.h"
#include "exporters/support/error.h"
#include "exporters/support/near.h"
#include "exporters/support/quote.h"
#include "exporters/support/version.h"

#include <c10/util/Exception.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <vector>

namespace {

// A script can tell a wrong command line from work that could not be done.
constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;

// One paragraph that ends like a sentence, whoever wrote the message.
int report(std::string message, int code = kFailure) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  message.erase(message.find_last_not_of(' ') + 1);
  if (!message.empty() && message.find_last_of(".!?") != message.size() - 1) {
    message += '.';
  }
  std::cerr << "hfx: error: " << exporters::printable(message) << "\n";
  return code;
}

// libtorch's libraries look for each other by the current folder.
void require_current_folder() {
  std::error_code code;
  const std::filesystem::path folder = std::filesystem::current_path(code);
  if (code || folder.empty()) {
    throw exporters::Error("the current folder no longer exists", {}, "Change to another one.");
  }
}

// A trace and its passes make and free millions of small pieces. glibc keeps those aside, and at each large request
// walks and joins all of them: a tenth of the cycles of an export of 400 layers. So they are joined as they are
// freed.
void join_freed_pieces() {
#ifdef M_MXFAST
  mallopt(M_MXFAST, 0);
#endif
}

// A full disk or a closed pipe behind standard output is a failure like any other.
void flush_output() {
  std::cout.flush();
  if (!std::cout) {
    throw exporters::Error("cannot write to standard output");
  }
}

// The first word that is no option, where no command has that name.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const bool has_word = argc > 1 && argv[1][0] != '-' && argv[1][0] != '\0';
  return has_word && app.get_subcommands().empty() ? argv[1] : "";
}

int report_unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  const std::string near = exporters::did_you_mean(word, names);
  return report(fmt::format("there is no command {}. {}", exporters::quote(word),
                            near.empty() ? fmt::format("Commands are: {}.", fmt::join(names, ", ")) : near),
                kWrongUsage);
}

int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = app.get_name();
  for (const CLI::App* subcommand : app.get_subcommands()) {
    command += " " + subcommand->get_name();
  }
  return report(std::string(error.what()) + " (" + command + " --help lists what there is)", kWrongUsage);
}

void print_version(bool json) {
  if (json) {
    std::cout << nlohmann::json{{"version", exporters::version()}}.dump(2) << "\n";
  } else {
    std::cout << "hfx " << exporters::version() << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  join_freed_pieces();
  CLI::App app("Export transformers checkpoints to programs that run without Python, and run them.", "hfx");
  bool version = false;
  bool json = false;
  app.add_flag("--version", version, "Print the version and exit");
  app.add_flag("--json", json, "With --version: print it as JSON");
  app.get_formatter()->column_width(34);
  hfx::add_export_command(app);
  hfx::add_run_command(app);
  hfx::add_generate_command(app);
  hfx::add_inspect_command(app);
  hfx::add_models_command(app);
  hfx::add_stages_command(app);
  hfx::add_operators_command(app);
  try {
    hfx::clean_up_when_interrupted();
    require_current_folder();
    exporters::register_dynamo_backend();
    exporters::onnx::register_onnx_backend();
#ifdef HFX_WITH_EXECUTORCH
    exporters::executorch::register_executorch_format();
#endif
    app.parse(argc, argv);
    if (version) {
      print_version(json);
    } else if (app.get_subcommands().empty()) {
      throw CLI::RequiredError("A command");
    }
    flush_output();
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      std::cout.flush();
      return std::cout ? 0 : report("cannot write to standard output");
    }
    const std::string word = unknown_command(app, argc, argv);
    return word.empty() ? report_usage(app, error) : report_unknown_command(app, word);
  } catch (const exporters::Error& error) {
    return report(error.what());
  } catch (const c10::Error& error) {
    return report(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return report("out of memory");
  } catch (const std::exception& error) {
    return report(error.what());
  }
}
