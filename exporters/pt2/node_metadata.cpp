#include "exporters/pt2/node_metadata.h"

#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <algorithm>
#include <cctype>

namespace exporters::pt2 {
namespace {

// Cuts at `separator`, but not inside of brackets: a class name may be "Outer[int, str]".
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c == separator && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string_view last_two_parts(std::string_view file) {
  size_t cut = file.rfind('/');
  if (cut != std::string_view::npos && cut > 0) {
    cut = file.rfind('/', cut - 1);
  }
  return cut == std::string_view::npos ? file : file.substr(cut + 1);
}

}  // namespace

std::vector<ModuleFrame> module_stack_from_text(std::string_view text) {
  std::vector<ModuleFrame> stack;
  if (text.empty()) {
    return stack;
  }
  for (const std::string_view frame : split(text, ';')) {
    const std::vector<std::string_view> fields = split(frame, ',');
    if (fields.size() != 3) {
      fail("A frame of nn_module_stack is not 'key,path,class': {}", quote(frame));
    }
    if (fields[0] != kNoModules) {
      stack.push_back({std::string(fields[1]), std::string(fields[2])});
    }
  }
  return stack;
}

// 'File "<path>", line <number>, in <function>' for each frame, outermost first.
std::string source_of_stack_trace(std::string_view trace) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  const size_t file = trace.rfind(kFile);
  const size_t line = file == std::string_view::npos ? file : trace.find(kLine, file);
  if (line == std::string_view::npos) {
    return {};
  }
  const std::string_view path = trace.substr(file + kFile.size(), line - file - kFile.size());
  const size_t begin = line + kLine.size();
  size_t end = begin;
  while (end < trace.size() && std::isdigit(static_cast<unsigned char>(trace[end])) != 0) {
    ++end;
  }
  return end == begin ? std::string()
                      : printable(last_two_parts(path)) + ":" + std::string(trace.substr(begin, end - begin));
}

std::string_view short_class_name(std::string_view qualified) {
  const size_t dot = qualified.find_last_of(".:");
  return dot == std::string_view::npos ? qualified : qualified.substr(dot + 1);
}

}  // namespace exporters::pt2
