#include "cli/commands.h"

#include "exporters/onnx/exporter.h"
#include "exporters/support/error.h"
#include "exporters/support/version.h"

#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>

#include <iostream>
#include <new>

namespace {

// As sysexits.h has them: a script can tell a wrong call from wrong data.
constexpr int kFailure = 1;

int report(const std::string& message) {
  std::cerr << "hfx: error: " << message << "\n";
  return kFailure;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Export transformers checkpoints to programs that run without Python, and run them.", "hfx");
  app.set_version_flag("--version", "hfx " + std::string(exporters::version()));
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  hfx::add_export_command(app);
  hfx::add_run_command(app);
  hfx::add_inspect_command(app);
  hfx::add_models_command(app);
  try {
    exporters::onnx::register_onnx_backend();
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
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
