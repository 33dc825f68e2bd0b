#include "exporters/pt2/metadata_json.h"

#include "exporters/pt2/schema.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string_view>

namespace exporters::pt2 {
namespace {

// The schema separates with these, and has no escapes.
bool is_plain(std::string_view text) { return text.find_first_of(",;()[]") == std::string_view::npos; }

std::vector<ModuleFrame> frames_of(const Node& node, const std::string& root_class) {
  std::vector<ModuleFrame> frames;
  std::set<std::string_view> seen;
  auto add = [&](const ModuleFrame& frame) {
    if (is_plain(frame.path) && is_plain(frame.module_class) && seen.insert(frame.path).second) {
      frames.push_back(frame);
    }
  };
  if (node.module_stack().empty() || !node.module_stack().front().path.empty()) {
    add({"", root_class});
  }
  std::for_each(node.module_stack().begin(), node.module_stack().end(), add);
  return frames;
}

// "key,path,class" for each frame. The key only has to be different for each; torch.export's is the path behind a
// root's name.
std::string module_stack_text(const std::vector<ModuleFrame>& frames) {
  std::string text;
  for (const ModuleFrame& frame : frames) {
    text += fmt::format("{}L__self__{},{},{}", text.empty() ? "" : ";", frame.path, frame.path, frame.module_class);
  }
  return text;
}

// As Python's traceback spells a line.
std::string stack_trace_text(const Place& place) {
  const size_t colon = place.source.rfind(':');
  if (colon == std::string::npos) {
    return {};
  }
  return fmt::format("File \"{}\", line {}, in {}", place.source.substr(0, colon), place.source.substr(colon + 1),
                     place.module_class.empty() ? "forward" : place.module_class);
}

}  // namespace

nlohmann::json metadata_json(const Node& node, const std::string& root_class) {
  nlohmann::json metadata = nlohmann::json::object();
  metadata[kModuleStackKey] = module_stack_text(frames_of(node, root_class));
  if (std::string trace = stack_trace_text(node.place()); !trace.empty()) {
    metadata[kStackTraceKey] = std::move(trace);
  }
  for (const auto& [key, text] : node.metadata()) {
    if (key != kSingleTensorReturnKey) {
      metadata[key] = text;
    }
  }
  return metadata;
}

}  // namespace exporters::pt2
