#pragma once

#include <CLI/App.hpp>

// One function per command: declares the options and what to run once they are parsed.
namespace hfx {

void add_export_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_models_command(CLI::App& app);
void add_stages_command(CLI::App& app);
void add_operators_command(CLI::App& app);

}  // namespace hfx
