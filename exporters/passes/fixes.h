#pragma once

#include "exporters/graph/exported_program.h"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {

/// Rewrites a node in place, or the graph around it; true when it changed something. It may insert and erase nodes, the
/// given one too.
using FxNodeFix = std::function<bool(Graph&, Node&)>;
/// Rewrites a program in place.
using FxProgramFix = std::function<void(ExportedProgram&)>;

/// What a registration says of itself.
struct FixNotes {
  std::string name;       ///< for reports and messages: "fix_alias"; required
  std::string reason;     ///< why the fix is there, one sentence; required
  std::string link = {};  ///< the upstream issue, where there is one
};

/// Adds a fix to a backend: a format ("onnx") or a format and a target ("executorch.xnnpack", whose exports also get
/// the fixes of "executorch", first). Thread-safe; takes effect for exports made from then on. Throws Error without a
/// name or a reason.
void register_fx_node_fix(std::string_view backend, FxNodeFix fix, FixNotes notes);
void register_fx_program_fix(std::string_view backend, FxProgramFix fix, FixNotes notes);

struct FxNodeFixEntry {
  std::string backend;
  FxNodeFix fix;
  FixNotes notes;
};
struct FxProgramFixEntry {
  std::string backend;
  FxProgramFix fix;
  FixNotes notes;
};
/// Those of a backend in the order they are applied.
std::vector<FxNodeFixEntry> registered_fx_node_fixes(std::string_view backend);
std::vector<FxProgramFixEntry> registered_fx_program_fixes(std::string_view backend);

/// Whether HFX_VERIFY is set in the environment, as it is when the tests run.
bool verify_fixes_by_default();

struct FixOptions {
  /// Verifies the program after every change of a fix: costs a walk of the graph each time.
  bool verify = verify_fixes_by_default();
};

/// Applies every node fix to every node, subgraphs included, until none changes anything; then removes dead code. Nodes
/// that a fix adds are looked at in the next walk. Gives the number of changes. Throws Error that names the fix and a
/// node where fixes don't settle, and, when asked to verify, the fix that left a broken program.
size_t apply_fx_node_fixes(std::string_view backend, ExportedProgram& program, FixOptions options = {});
/// Applies every program fix once, in order.
void apply_fx_program_fixes(std::string_view backend, ExportedProgram& program, FixOptions options = {});

}  // namespace exporters
