#include "exporters/graph/print.h"
#include "exporters/graph/dtype.h"
#include "exporters/graph/graph.h"

#include <fmt/format.h>

#include <cmath>

namespace exporters {
namespace {

struct ArgumentText {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(const Value* value) const { return value->name(); }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    std::string text = fmt::format("{}", value);
    return std::isfinite(value) && text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(const std::string& value) const {
    std::string text = "'";
    for (char c : value) {
      if (static_cast<unsigned char>(c) < 0x20) {
        text += fmt::format("\\x{:02x}", c);
        continue;
      }
      text += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    }
    return text + "'";
  }
  std::string operator()(const c10::complex<double>& value) const {
    return fmt::format("({} + {}j)", (*this)(value.real()), (*this)(value.imag()));
  }
  std::string operator()(c10::ScalarType value) const { return fmt::format("torch.{}", dtype_name(value)); }
  std::string operator()(const c10::Device& value) const { return fmt::format("device('{}')", value.str()); }
  std::string operator()(c10::Layout value) const {
    return value == c10::kStrided ? "torch.strided" : fmt::format("layout({})", static_cast<int>(value));
  }
  std::string operator()(c10::MemoryFormat value) const {
    switch (value) {
      case c10::MemoryFormat::Contiguous:
        return "torch.contiguous_format";
      case c10::MemoryFormat::Preserve:
        return "torch.preserve_format";
      case c10::MemoryFormat::ChannelsLast:
        return "torch.channels_last";
      case c10::MemoryFormat::ChannelsLast3d:
        return "torch.channels_last_3d";
      default:
        return fmt::format("memory_format({})", static_cast<int>(value));
    }
  }
  std::string operator()(const GraphArgument& value) const { return value.name; }
  std::string operator()(const Argument::List& items) const {
    std::string text = "[";
    for (const Argument& item : items) {
      text += (text.size() > 1 ? ", " : "") + to_text(item);
    }
    return text + "]";
  }
};

// "x: f32[s0, 3]"
std::string declaration(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kTensor:
      return fmt::format("{}: {}", value.name(), to_text(value.meta()));
    case Value::Kind::kSymInt:
      return fmt::format("{}: Sym({})", value.name(), value.sym().str());
    case Value::Kind::kSymFloat:
      return value.name() + ": SymFloat";
    case Value::Kind::kSymBool:
      return value.name() + ": SymBool";
    case Value::Kind::kNone:
      return value.name() + ": None";
    case Value::Kind::kOther:
      return value.name() + ": Other";
    case Value::Kind::kTensorList:
      break;
  }
  std::string text = value.name() + ": [";
  for (const Value* element : value.elements()) {
    text += (element->output_index() > 0 ? ", " : "") + declaration(*element);
  }
  return text + "]";
}

void append_comma(std::string& text, const std::string& item, bool& first) {
  text += first ? item : ", " + item;
  first = false;
}

std::string call_text(const Node& node) {
  std::string text;
  bool first = true;
  for (const Value* output : node.outputs()) {
    append_comma(text, declaration(*output), first);
  }
  text += (first ? "" : " = ") + node.target() + "(";
  first = true;
  for (const Argument& argument : node.args()) {
    append_comma(text, to_text(argument), first);
  }
  for (const auto& [name, argument] : node.kwargs()) {
    append_comma(text, fmt::format("{} = {}", name, to_text(argument)), first);
  }
  return text + ")";
}

void append_subgraphs(const Node& node, const std::string& indent, std::string& text);

std::string graph_text(const Graph& graph, const std::string& indent, const std::string& name) {
  std::string text = indent + "def " + name + "(";
  bool first = true;
  for (const Value* input : graph.placeholders()) {
    append_comma(text, declaration(*input), first);
  }
  text += "):\n";
  std::string place;
  for (const Node& node : graph) {
    if (node.kind() != Node::Kind::kCall) {
      continue;
    }
    const Place& here = node.place();
    const std::string module =
        here.module_class.empty() ? here.module_path : fmt::format("{} ({})", here.module_path, here.module_class);
    if (module != place) {
      text += fmt::format("{}    # {}\n", indent, module.empty() ? "(root)" : module);
      place = module;
    }
    append_subgraphs(node, indent + "    ", text);
    text += fmt::format("{}    {}\n", indent, call_text(node));
  }
  text += indent + "    return (";
  first = true;
  for (const Argument& output : graph.outputs()) {
    append_comma(text, to_text(output), first);
  }
  return text + (graph.outputs().size() == 1 ? ",)\n" : ")\n");
}

void append_subgraphs(const Node& node, const std::string& indent, std::string& text) {
  for (const Argument& argument : node.args()) {
    if (const auto* subgraph = argument.get_if<GraphArgument>()) {
      text += graph_text(*subgraph->graph, indent, subgraph->name);
    }
  }
}

}  // namespace

std::string to_text(const Argument& argument) { return argument.visit(ArgumentText{}); }

std::string to_text(const TensorMeta& meta) {
  std::string text = fmt::format("{}[", dtype_abbreviation(meta.dtype));
  bool first = true;
  for (const Expr& size : meta.sizes) {
    append_comma(text, size.str(), first);
  }
  return text + "]";
}

std::string Graph::str() const { return graph_text(*this, "", "forward"); }

}  // namespace exporters
