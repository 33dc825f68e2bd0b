#include "exporters/framework/stages.h"

#include "exporters/passes/fixes.h"
#include "exporters/patching/registry.h"

#include <algorithm>

namespace exporters {
namespace {

template <typename Predicate>
std::vector<StageEntry> patch_entries(std::string_view backend, Predicate wanted) {
  std::vector<StageEntry> entries;
  for (const auto& patch : registered_patches(backend)) {
    if (wanted(*patch)) {
      entries.push_back({"patch", patch->notes.name, patch->paths, patch->notes.reason, patch->notes.link});
    }
  }
  return entries;
}

template <typename Fixes>
std::vector<StageEntry> fix_entries(const char* kind, const Fixes& fixes) {
  std::vector<StageEntry> entries;
  for (const auto& entry : fixes) {
    entries.push_back({kind, entry.notes.name, {}, entry.notes.reason, entry.notes.link});
  }
  return entries;
}

}  // namespace

std::vector<StageEntry> op_patch_entries(std::string_view backend) {
  return patch_entries(backend, [](const Patch& patch) { return patch.is_op_patch(); });
}

std::vector<StageEntry> function_patch_entries(std::string_view backend, std::string_view prefix) {
  return patch_entries(backend, [&](const Patch& patch) {
    return !patch.is_op_patch() && std::any_of(patch.paths.begin(), patch.paths.end(),
                                               [&](const std::string& path) { return path.starts_with(prefix); });
  });
}

std::vector<StageEntry> node_fix_entries(std::string_view backend) {
  return fix_entries("node fix", registered_fx_node_fixes(backend));
}

std::vector<StageEntry> program_fix_entries(std::string_view backend) {
  return fix_entries("program fix", registered_fx_program_fixes(backend));
}

}  // namespace exporters
