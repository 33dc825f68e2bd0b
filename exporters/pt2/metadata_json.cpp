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

// "key,path,class" for each frame. The key is another one for each call of a module; torch.export's is the path behind
// a root's name, and from the second call on its number.
std::string module_stack_text(const std::vector<ModuleFrame>& frames, const std::vector<int>& calls) {
  std::string text;
  for (size_t i = 0; i < frames.size(); ++i) {
    const std::string call = calls[i] == 0 ? std::string() : fmt::format("@{}", calls[i]);
    text += fmt::format("{}L__self__{}{},{},{}", text.empty() ? "" : ";", frames[i].path, call, frames[i].path,
                        frames[i].module_class);
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

std::vector<int> ModuleCalls::of(const std::vector<ModuleFrame>& frames) {
  size_t depth = 0;
  while (depth < frames.size() && depth < open_.size() && open_[depth].first == frames[depth].path) {
    ++depth;
  }
  open_.resize(depth);
  for (; depth < frames.size(); ++depth) {
    open_.emplace_back(frames[depth].path, counts_[frames[depth].path]++);
  }
  std::vector<int> calls;
  for (const auto& [path, call] : open_) {
    calls.push_back(call);
  }
  return calls;
}

nlohmann::json metadata_json(const Node& node, const std::string& root_class, ModuleCalls& calls) {
  nlohmann::json metadata = nlohmann::json::object();
  const std::vector<ModuleFrame> frames = frames_of(node, root_class);
  metadata[kModuleStackKey] = module_stack_text(frames, calls.of(frames));
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
