#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// A patch, fix or table entry of a stage.
struct StageEntry {
  std::string kind;                  ///< "patch", "node fix", "program fix", "translation", "IR fix"
  std::string name;                  ///< "patch_randperm"
  std::vector<std::string> targets;  ///< patches: the paths they replace
  std::string reason;                ///< why it is there
  std::string link;                  ///< the upstream issue, or empty
};

/// One numbered stage of an exporter.
struct Stage {
  int number = 0;
  std::string title;          ///< "Torch patches"
  std::string what;           ///< what the stage does
  std::string how_to_extend;  ///< which function adds an entry
  std::vector<StageEntry> entries;
};

// Entries from the registries, in the order they are used. `backend` alone: the stages of a format that it extends are
// listed by themselves.

/// Patches of torch ops.
std::vector<StageEntry> op_patch_entries(std::string_view backend);
/// Patches of functions and methods with such names: "models." or "exporters.".
std::vector<StageEntry> function_patch_entries(std::string_view backend, std::string_view prefix);
std::vector<StageEntry> node_fix_entries(std::string_view backend);
std::vector<StageEntry> program_fix_entries(std::string_view backend);

}  // namespace exporters
