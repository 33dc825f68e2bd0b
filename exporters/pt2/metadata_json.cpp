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

// "key,path,class" for each frame, joined by ';'.
std::string module_stack_text(const std::vector<ModuleFrame>& stack, const std::string& root_class) {
  std::vector<ModuleFrame> frames;
  if (stack.empty() || !stack.front().path.empty()) {
    frames.push_back({"", root_class});
  }
  frames.insert(frames.end(), stack.begin(), stack.end());

  std::string text;
  std::set<std::string_view> seen;
  for (const ModuleFrame& frame : frames) {
    if (!is_plain(frame.path) || !is_plain(frame.module_class) || !seen.insert(frame.path).second) {
      continue;
    }
    std::string key = "L__self__" + frame.path;
    std::replace(key.begin(), key.end(), '.', '_');
    text += fmt::format("{}{},{},{}", text.empty() ? "" : ";", key, frame.path, frame.module_class);
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
  metadata[kModuleStackKey] = module_stack_text(node.module_stack(), root_class);
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
