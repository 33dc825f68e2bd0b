#include "exporters/onnx/ir_fixes.h"

#include "exporters/support/error.h"

#include <algorithm>
#include <mutex>

namespace exporters::onnx {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<OnnxIrFixEntry> entries;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

EffectPlace place_of_node(const std::string& node) {
  const size_t slash = node.rfind('/');
  std::string path = slash == std::string::npos ? std::string() : node.substr(0, slash);
  std::replace(path.begin(), path.end(), '/', '.');
  return {node, std::move(path)};
}

void register_onnx_ir_fix(OnnxIrFix fix, FixNotes notes) {
  ensure(!notes.name.empty(), "an ONNX IR fix has no name");
  ensure(!notes.reason.empty(), "the ONNX IR fix '{}' gives no reason", notes.name);
  const std::lock_guard lock(registry().mutex);
  registry().entries.push_back({std::move(fix), std::move(notes)});
}

std::vector<OnnxIrFixEntry> ir_fixes() {
  const std::lock_guard lock(registry().mutex);
  return registry().entries;
}

void apply_ir_fixes(OnnxModel& model) {
  for (const OnnxIrFixEntry& entry : ir_fixes()) {
    for_each_graph(model.graph, [&](OnnxGraph& graph) {
      try {
        for (const std::string& node : entry.fix(graph)) {
          record_effect("IR fix", "onnx", entry.notes.name, place_of_node(node));
        }
      } catch (const Error& error) {
        throw error.with_context("the ONNX IR fix '" + entry.notes.name + "'");
      }
    });
  }
}

}  // namespace exporters::onnx
