#include "exporters/passes/fixes.h"

#include "exporters/passes/dead_code.h"
#include "exporters/patching/effects.h"
#include "exporters/patching/registry.h"
#include "exporters/support/error.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <unordered_set>

namespace exporters {
namespace {

// A fix may make work for others, and these for it; no sensible set of fixes needs that many walks.
constexpr int kMostWalks = 32;
// Changes for each node that there was, and some for small graphs: ends fixes that multiply nodes.
constexpr size_t kMostChangesPerNode = 64;
constexpr size_t kMostChangesBeside = 1024;

template <typename Entry>
class Registry {
 public:
  void add(Entry entry) {
    ensure(!entry.backend.empty(), "a fix belongs to a backend");
    ensure(!entry.notes.name.empty(), "a fix for '{}' has no name", entry.backend);
    ensure(!entry.notes.reason.empty(), "the fix '{}' for '{}' gives no reason", entry.notes.name, entry.backend);
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }

  std::vector<Entry> of(std::string_view backend) const {
    const std::lock_guard lock(mutex_);
    std::vector<Entry> found;
    for (const std::string& each : backend_chain(backend)) {
      std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(found),
                   [&](const Entry& entry) { return entry.backend == each; });
    }
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

template <typename Entry>
Registry<Entry>& registry() {
  static Registry<Entry> instance;
  return instance;
}

template <typename Entry>
std::string whose(const Entry& entry) {
  return "the fix '" + entry.notes.name + "' of backend '" + entry.backend + "'";
}

// The graph and the graphs inside it, each once, inner ones first.
void collect_graphs(Graph& graph, std::vector<Graph*>& graphs, std::unordered_set<const Graph*>& seen) {
  if (!seen.insert(&graph).second) {
    return;
  }
  for (const Node& node : graph) {
    for (const Argument& argument : node.args()) {
      const auto* inner = argument.get_if<GraphArgument>();
      if (inner != nullptr && inner->graph != nullptr) {
        collect_graphs(*inner->graph, graphs, seen);
      }
    }
  }
  graphs.push_back(&graph);
}

class NodeFixes {
 public:
  NodeFixes(std::string_view backend, ExportedProgram& program, FixOptions options)
      : program_(program), options_(options), fixes_(registered_fx_node_fixes(backend)) {}

  size_t run() {
    if (fixes_.empty()) {
      return 0;
    }
    std::unordered_set<const Graph*> seen;
    collect_graphs(*program_.graph, graphs_, seen);
    for (const Graph* graph : graphs_) {
      most_changes_ += kMostChangesPerNode * graph->size();
    }
    for (int walk = 0; walk_all(); ++walk) {
      if (walk >= kMostWalks) {
        fail_to_settle(*last_fix_, last_node_);
      }
    }
    return changes_;
  }

 private:
  bool walk_all() {
    bool changed = false;
    for (Graph* graph : graphs_) {
      if (walk(*graph)) {
        changed = true;
        eliminate_dead_code(*graph);
      }
    }
    return changed;
  }

  bool walk(Graph& graph) {
    const size_t before = changes_;
    uint64_t newest = 0;
    for (const Node& node : graph) {
      newest = std::max(newest, node.id());
    }
    for (Node& node : graph) {
      if (node.id() <= newest && node.kind() == Node::Kind::kCall) {
        fix(graph, node);
      }
    }
    return changes_ != before;
  }

  void fix(Graph& graph, Node& node) {
    for (const FxNodeFixEntry& entry : fixes_) {
      const Graph::InsertGuard here(graph, &node);
      if (!apply(entry, graph, node)) {
        continue;
      }
      ++changes_;
      last_fix_ = &entry;
      last_node_ = node.name();
      follow_outputs();
      record_effect("node fix", entry.backend, entry.notes.name, {node.name(), node.place().module_path});
      if (changes_ > most_changes_) {
        fail_to_settle(entry, node.name());
      }
      if (options_.verify) {
        check(entry);
      }
      if (node.erased()) {
        return;
      }
    }
  }

  // The signature names the same outputs as the graph, also where a fix put another value in an output's place.
  void follow_outputs() {
    const std::vector<Argument>& outputs = program_.graph->outputs();
    std::vector<OutputSpec>& specs = program_.signature.outputs;
    for (size_t i = 0; i < std::min(outputs.size(), specs.size()); ++i) {
      specs[i].argument = outputs[i];
    }
  }

  static bool apply(const FxNodeFixEntry& entry, Graph& graph, Node& node) {
    try {
      return entry.fix(graph, node);
    } catch (const Error& error) {
      throw error.with_context(whose(entry) + ", " + node.describe());
    }
  }

  void check(const FxNodeFixEntry& entry) const {
    try {
      verify(program_);
    } catch (const Error& error) {
      throw error.with_context("after " + whose(entry) + " changed '" + last_node_ + "'");
    }
  }

  [[noreturn]] static void fail_to_settle(const FxNodeFixEntry& entry, const std::string& node) {
    throw Error(whose(entry) + " does not settle: it changes the graph again and again", "node '" + node + "'",
                "A fix gives false when it leaves things as they are; two fixes must not undo each other.");
  }

  ExportedProgram& program_;
  FixOptions options_;
  std::vector<FxNodeFixEntry> fixes_;
  std::vector<Graph*> graphs_;
  size_t changes_ = 0;
  size_t most_changes_ = kMostChangesBeside;
  const FxNodeFixEntry* last_fix_ = nullptr;
  std::string last_node_;
};

}  // namespace

bool verify_fixes_by_default() {
  static const bool wanted = [] {
    const char* text = std::getenv("HFX_VERIFY");
    return text != nullptr && *text != '\0' && std::string_view(text) != "0";
  }();
  return wanted;
}

void register_fx_node_fix(std::string_view backend, FxNodeFix fix, FixNotes notes) {
  registry<FxNodeFixEntry>().add({std::string(backend), std::move(fix), std::move(notes)});
}

void register_fx_program_fix(std::string_view backend, FxProgramFix fix, FixNotes notes) {
  registry<FxProgramFixEntry>().add({std::string(backend), std::move(fix), std::move(notes)});
}

std::vector<FxNodeFixEntry> registered_fx_node_fixes(std::string_view backend) {
  return registry<FxNodeFixEntry>().of(backend);
}

std::vector<FxProgramFixEntry> registered_fx_program_fixes(std::string_view backend) {
  return registry<FxProgramFixEntry>().of(backend);
}

size_t apply_fx_node_fixes(std::string_view backend, ExportedProgram& program, FixOptions options) {
  return NodeFixes(backend, program, options).run();
}

void apply_fx_program_fixes(std::string_view backend, ExportedProgram& program, FixOptions options) {
  for (const FxProgramFixEntry& entry : registered_fx_program_fixes(backend)) {
    // A program fix does not say whether it did something; the text of the program does.
    const std::string before = effects_wanted() ? program.str() : std::string();
    try {
      entry.fix(program);
      if (options.verify) {
        verify(program);
      }
    } catch (const Error& error) {
      throw error.with_context(whose(entry));
    }
    if (effects_wanted() && program.str() != before) {
      record_effect("program fix", entry.backend, entry.notes.name, {});
    }
  }
}

}  // namespace exporters
