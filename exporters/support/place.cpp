#include "exporters/support/place.h"

namespace exporters {
namespace {

struct Frame {
  std::string path;
  std::string module_class;
  SourceLocation location;
};

thread_local std::vector<Frame> frames;
thread_local std::string current_op;

// Only the last two components: a message must not carry the builder's folders. Empty for a default-made location.
std::string short_source(const SourceLocation& location) {
  if (location.line == 0) {
    return {};
  }
  std::string_view file = location.file;
  size_t cut = file.rfind('/');
  if (cut != std::string_view::npos && cut > 0) {
    cut = file.rfind('/', cut - 1);
  }
  if (cut != std::string_view::npos) {
    file.remove_prefix(cut + 1);
  }
  return std::string(file) + ":" + std::to_string(location.line);
}

}  // namespace

std::string Place::str() const {
  std::string text = module_path;
  for (const std::string* part : {&op, &source}) {
    if (!part->empty()) {
      text += (text.empty() ? "" : ", ") + *part;
    }
  }
  return text;
}

ModuleScope::ModuleScope(std::string_view name, std::string_view module_class, SourceLocation location) {
  std::string path = frames.empty() ? std::string() : frames.back().path;
  if (!path.empty() && !name.empty()) {
    path += '.';
  }
  path += name;
  frames.push_back({std::move(path), std::string(module_class), location});
}

ModuleScope::~ModuleScope() { frames.pop_back(); }

OpScope::OpScope(std::string_view op) : previous_(std::move(current_op)) { current_op = op; }

OpScope::~OpScope() { current_op = std::move(previous_); }

Place current_place() {
  Place place;
  place.op = current_op;
  if (!frames.empty()) {
    place.module_path = frames.back().path;
    place.module_class = frames.back().module_class;
    place.source = short_source(frames.back().location);
  }
  return place;
}

std::vector<ModuleFrame> current_module_stack() {
  std::vector<ModuleFrame> stack;
  stack.reserve(frames.size());
  for (const Frame& frame : frames) {
    stack.push_back({frame.path, frame.module_class});
  }
  return stack;
}

}  // namespace exporters
