#include "cli/commands.h"

#include "exporters/dynamo/exporter.h"
#ifdef HFX_WITH_EXECUTORCH
#include "exporters/executorch/exporter.h"
#endif
#include "exporters/onnx/exporter.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"
#include "exporters/support/version.h"

#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <new>

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

// A full disk or a closed pipe behind standard output is a failure like any other.
void flush_output() {
  std::cout.flush();
  if (!std::cout) {
    throw exporters::Error("cannot write to standard output");
  }
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
  try {
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
    return error.get_exit_code() == 0 ? app.exit(error) : report_usage(app, error);
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
