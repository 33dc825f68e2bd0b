#pragma once

#include "exporters/patching/op_patch.h"
#include "exporters/patching/patch_point.h"

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace exporters::detail {

/// What is in force on one thread: for each target its replacements, the innermost last.
class ActivePatches {
 public:
  std::unordered_map<const PatchPointBase*, std::vector<std::shared_ptr<Replacement>>> functions;
  std::unordered_map<c10::OperatorHandle, std::vector<std::shared_ptr<OpReplacement>>> ops;
  /// The op whose next call is the original's own.
  std::optional<c10::OperatorHandle> original;
  const NodeNamer* node_of = nullptr;
};

/// Null when there is none of that name. A plugin's points may not go away while a scope uses them.
const PatchPointBase* find_patch_point(std::string_view name);

}  // namespace exporters::detail
