#include "exporters/pt2/graph_reader.h"

#include "exporters/graph/op_name.h"
#include "exporters/graph/sym_op.h"
#include "exporters/pt2/node_metadata.h"
#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"
#include "exporters/support/quote.h"

#include <ATen/core/function_schema.h>

#include <algorithm>
#include <limits>

namespace exporters::pt2 {
namespace {

constexpr int kMaxSubgraphDepth = 16;

template <typename T>
T known_code(std::optional<T> value, const Json& json, std::string_view what) {
  ensure(value.has_value(), "{} is no code of a {}", quote(json.dump()), what);
  return *value;
}

c10::ScalarType read_dtype(const Json& json) { return known_code(dtype_from_code(as_int(json)), json, "dtype"); }
c10::Layout read_layout(const Json& json) { return known_code(layout_from_code(as_int(json)), json, "layout"); }
c10::MemoryFormat read_memory_format(const Json& json) {
  return known_code(memory_format_from_code(as_int(json)), json, "memory format");
}

c10::Device read_device(const Json& json) {
  const std::string& type = as_text(member(json, "type"));
  const Json* index = find_member(json, "index");
  ensure(type.size() <= 32 && std::all_of(type.begin(), type.end(), [](char c) { return c >= 'a' && c <= 'z'; }),
         "{} is no device", quote(type));
  try {
    c10::Device device(type);
    if (index != nullptr) {
      const int64_t number = as_int(*index);
      ensure(0 <= number && number <= std::numeric_limits<c10::DeviceIndex>::max(), "{} is no index of a device",
             number);
      device.set_index(static_cast<c10::DeviceIndex>(number));
    }
    return device;
  } catch (const c10::Error& error) {
    fail("{} is no device: {}", quote(type), error.what_without_backtrace());
  }
}

std::vector<Expr> read_sizes(const Json& json, Symbols& symbols) {
  std::vector<Expr> sizes;
  for (const Json& size : as_array(json)) {
    sizes.push_back(symbols.read(size));
  }
  return sizes;
}

// One of the schema's kinds of arguments that hold no values.
using ConstantReader = Argument (*)(const Json&);
const std::unordered_map<std::string_view, ConstantReader>& constant_readers() {
  static const std::unordered_map<std::string_view, ConstantReader> table = {
      {"as_none", [](const Json&) { return Argument(); }},
      {"as_int", [](const Json& json) { return Argument(as_int(json)); }},
      {"as_float", [](const Json& json) { return Argument(as_double(json)); }},
      {"as_bool", [](const Json& json) { return Argument(as_bool(json)); }},
      {"as_string", [](const Json& json) { return Argument(as_text(json)); }},
      {"as_scalar_type", [](const Json& json) { return Argument(read_dtype(json)); }},
      {"as_memory_format", [](const Json& json) { return Argument(read_memory_format(json)); }},
      {"as_layout", [](const Json& json) { return Argument(read_layout(json)); }},
      {"as_device", [](const Json& json) { return Argument(read_device(json)); }},
      {"as_complex",
       [](const Json& json) {
         return Argument(c10::complex<double>(as_double(member(json, "real")), as_double(member(json, "imag"))));
       }},
  };
  return table;
}

// Lists, by the kind that their elements have.
const std::unordered_map<std::string_view, std::string_view>& list_elements() {
  static const std::unordered_map<std::string_view, std::string_view> table = {
      {"as_ints", "as_int"},           {"as_floats", "as_float"},
      {"as_bools", "as_bool"},         {"as_strings", "as_string"},
      {"as_tensors", "as_tensor"},     {"as_optional_tensors", "as_optional_tensor"},
      {"as_sym_ints", "as_sym_int"},   {"as_sym_floats", "as_sym_float"},
      {"as_sym_bools", "as_sym_bool"}, {"as_nested_tensors", "as_tensors"},
      {"as_int_lists", "as_ints"},     {"as_float_lists", "as_floats"},
  };
  return table;
}

// What the schema has and a program here has not, and why.
const std::unordered_map<std::string_view, std::string_view>& refused() {
  static const std::unordered_map<std::string_view, std::string_view> table = {
      {"as_custom_obj", "a custom object, which only a pickle holds; it cannot be read"},
      {"as_operator", "an operator, as the functional forms of custom ops do; it cannot be held"},
      {"as_string_to_argument", "a dictionary; it cannot be held"},
  };
  return table;
}

struct SymKind {
  Value::Kind kind;
  std::string_view table;
};
const std::unordered_map<std::string_view, SymKind>& sym_kinds() {
  static const std::unordered_map<std::string_view, SymKind> table = {
      {"as_sym_int", {Value::Kind::kSymInt, "sym_int_values"}},
      {"as_sym_float", {Value::Kind::kSymFloat, "sym_float_values"}},
      {"as_sym_bool", {Value::Kind::kSymBool, "sym_bool_values"}},
  };
  return table;
}

std::string text_or(const Json& json, std::string_view key, std::string fallback) {
  const Json* found = find_member(json, key);
  return found == nullptr ? std::move(fallback) : as_text(*found);
}

// The name that the file gives to a node, or to its first output: archives before schema 8.15 have no names of nodes.
std::string node_name(const Json& json) {
  std::string name = text_or(json, "name", {});
  const auto& outputs = as_array(member(json, "outputs"));
  if (name.empty() && !outputs.empty()) {
    const Tagged output = as_union(outputs.front());
    if (output.tag == "as_tensor") {
      name = as_text(member(output.value, "name"));
    } else if (sym_kinds().contains(output.tag)) {
      name = text_or(output.value, "as_name", {});
    }
  }
  return name;
}

struct Passed {
  std::string name;
  ArgumentKind kind = ArgumentKind::kUnknown;
  Argument argument;
};

using Keywords = std::vector<std::pair<std::string, Argument>>;

// Positional ones are matched by order, so behind one that is left out all are keywords, whatever the file says.
void order_by_schema(std::vector<Passed> passed, const c10::FunctionSchema& schema, std::vector<Argument>& args,
                     Keywords& kwargs) {
  std::vector<Passed*> bound(schema.arguments().size(), nullptr);
  for (Passed& one : passed) {
    const auto index = schema.argumentIndexWithName(one.name);
    ensure(index.has_value(), "has an argument {} that its op does not take", quote(one.name));
    ensure(bound[*index] == nullptr, "has two values for the argument {}", quote(one.name));
    bound[*index] = &one;
  }
  bool positional = true;
  for (size_t i = 0; i < bound.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    if (bound[i] == nullptr) {
      positional = false;
      continue;
    }
    const bool by_position = bound[i]->kind == ArgumentKind::kPositional ||
                             (bound[i]->kind == ArgumentKind::kUnknown && !formal.default_value().has_value());
    positional = positional && by_position && !formal.kwarg_only();
    if (positional) {
      args.push_back(std::move(bound[i]->argument));
    } else {
      kwargs.emplace_back(formal.name(), std::move(bound[i]->argument));
    }
  }
}

void order_as_passed(std::vector<Passed> passed, std::vector<Argument>& args, Keywords& kwargs) {
  for (Passed& one : passed) {
    if (one.kind == ArgumentKind::kKeyword && !one.name.empty()) {
      kwargs.emplace_back(std::move(one.name), std::move(one.argument));
    } else {
      ensure(kwargs.empty(), "passes an argument by position after one by keyword");
      args.push_back(std::move(one.argument));
    }
  }
}

}  // namespace

TensorMeta read_tensor_meta(const Json& json, Symbols& symbols) {
  TensorMeta meta;
  meta.dtype = read_dtype(member(json, "dtype"));
  meta.sizes = read_sizes(member(json, "sizes"), symbols);
  meta.strides = read_sizes(member(json, "strides"), symbols);
  meta.storage_offset = symbols.read(member(json, "storage_offset"));
  meta.device = read_device(member(json, "device"));
  meta.layout = read_layout(member(json, "layout"));
  meta.requires_grad = as_bool(member(json, "requires_grad"));
  return meta;
}

void GraphReader::read(const Json& json, const std::vector<std::string>& input_names) {
  json_ = &json;
  const auto& inputs = as_array(member(json, "inputs"));
  for (size_t i = 0; i < inputs.size(); ++i) {
    try {
      read_input(inputs[i], i, input_names);
    } catch (const Error& error) {
      throw error.with_context(fmt::format("input {} of the graph", i));
    }
  }
  for (const Json& node : as_array(member(json, "nodes"))) {
    read_node(node);
  }
  std::vector<Argument> outputs;
  for (const Json& output : as_array(member(json, "outputs"))) {
    try {
      outputs.push_back(argument(output));
    } catch (const Error& error) {
      throw error.with_context(fmt::format("output {} of the graph", outputs.size()));
    }
  }
  graph_.set_outputs(std::move(outputs));
  const Json* single = find_member(json, kGraphSingleTensorReturnKey);
  if (single != nullptr && as_bool(*single)) {
    graph_.output_node()->metadata()[std::string(kGraphSingleTensorReturnKey)] = "true";
  }
}

void GraphReader::read_input(const Json& json, size_t index, const std::vector<std::string>& input_names) {
  const Tagged input = as_union(json);
  const auto sym_kind = sym_kinds().find(input.tag);
  if (input.tag == "as_tensor") {
    const std::string& name = as_text(member(input.value, "name"));
    Value* value = graph_.add_placeholder(name);
    describe_tensor(name, value);
    define(name, value);
  } else if (sym_kind != sym_kinds().end()) {
    const std::string& name = as_text(member(input.value, "as_name"));
    Value* value = graph_.add_placeholder(name, sym_kind->second.kind);
    if (sym_kind->second.kind == Value::Kind::kSymInt) {
      value->sym() = symbols_.read(meta_of(sym_kind->second.table, name));
    }
    define(name, value);
  } else if (constant_readers().contains(input.tag)) {
    const std::string name =
        index < input_names.size() && !input_names[index].empty() ? input_names[index] : fmt::format("arg{}", index);
    graph_.add_placeholder(name, Value::Kind::kOther);
  } else {
    const auto reason = refused().find(input.tag);
    fail("It is {}",
         reason == refused().end() ? quote(input.tag) + ", which is not known" : std::string(reason->second));
  }
}

void GraphReader::read_node(const Json& json) {
  const std::string target = target_from_schema(as_text(member(json, "target")));
  const std::string name = node_name(json);
  try {
    Node* node = read_call(json, target, name);
    read_metadata(member(json, "metadata"), node);
    read_outputs(json, node);
  } catch (const Error& error) {
    throw error.with_context(fmt::format("{} {}", printable(target.substr(0, 200)), quote(name)));
  }
}

Node* GraphReader::read_call(const Json& json, const std::string& target, const std::string& name_hint) {
  std::vector<Passed> passed;
  for (const Json& input : as_array(member(json, "inputs"))) {
    Passed& one = passed.emplace_back();
    one.name = as_text(member(input, "name"));
    if (const Json* kind = find_member(input, "kind")) {
      one.kind = static_cast<ArgumentKind>(as_int(*kind));
    }
    one.argument = argument(member(input, "arg"));
  }
  std::vector<Argument> args;
  Keywords kwargs;
  if (is_dispatcher_target(target)) {
    order_by_schema(std::move(passed), lookup_operator(target).schema(), args, kwargs);
  } else {
    order_as_passed(std::move(passed), args, kwargs);
  }
  Node* node = graph_.call(target, std::move(args), std::move(kwargs), name_hint);
  const Json* single = find_member(json, kSingleTensorReturnKey);
  if (single != nullptr) {
    node->metadata()[std::string(kSingleTensorReturnKey)] = as_bool(*single) ? "true" : "false";
  }
  return node;
}

void GraphReader::read_outputs(const Json& json, Node* node) {
  for (const Json& output : as_array(member(json, "outputs"))) {
    read_output(output, node);
  }
}

void GraphReader::read_output(const Json& json, Node* node) {
  const Tagged output = as_union(json);
  const auto sym_kind = sym_kinds().find(output.tag);
  if (output.tag == "as_tensor") {
    const std::string& name = as_text(member(output.value, "name"));
    Value* value = graph_.add_output(node, Value::Kind::kTensor, name);
    describe_tensor(name, value);
    define(name, value);
  } else if (output.tag == "as_tensors") {
    Value* list = graph_.add_output(node, Value::Kind::kTensorList);
    for (const Json& tensor : as_array(output.value)) {
      const std::string& name = as_text(member(tensor, "name"));
      Value* element = graph_.add_element(list, name);
      describe_tensor(name, element);
      define(name, element);
    }
  } else if (sym_kind != sym_kinds().end()) {
    const std::string& name = as_text(member(output.value, "as_name"));
    Value* value = graph_.add_output(node, sym_kind->second.kind, name);
    if (sym_kind->second.kind == Value::Kind::kSymInt) {
      value->sym() = symbols_.read(meta_of(sym_kind->second.table, name));
    }
    define(name, value);
  } else {
    ensure(output.tag == "as_none", "gives {}, which a program cannot hold", quote(output.tag));
    graph_.add_output(node, Value::Kind::kNone);
  }
}

void GraphReader::read_metadata(const Json& json, Node* node) {
  for (const auto& [key, text] : as_object(json)) {
    node->metadata()[key] = as_text(text);
  }
  auto stack = node->metadata().find(std::string(kModuleStackKey));
  if (stack != node->metadata().end()) {
    node->module_stack() = module_stack_from_text(stack->second);
    node->metadata().erase(stack);
  }
  if (!node->module_stack().empty()) {
    const ModuleFrame& innermost = node->module_stack().back();
    node->place().module_path = printable(innermost.path);
    node->place().module_class = printable(short_class_name(innermost.module_class));
  }
  const auto trace = node->metadata().find(std::string(kStackTraceKey));
  if (trace != node->metadata().end()) {
    node->place().source = source_of_stack_trace(trace->second);
  }
}

Argument GraphReader::argument(const Json& json) {
  const Tagged tagged = as_union(json);
  return argument(tagged.tag, tagged.value);
}

Argument GraphReader::argument(std::string_view tag, const Json& json) {
  if (const auto constant = constant_readers().find(tag); constant != constant_readers().end()) {
    return constant->second(json);
  }
  if (tag == "as_tensor") {
    return value(as_text(member(json, "name")));
  }
  // A value by name, or a constant of the same kind.
  if (sym_kinds().contains(tag) || tag == "as_optional_tensor") {
    const Tagged inner = as_union(json);
    return inner.tag == "as_name" ? Argument(value(as_text(inner.value))) : argument(inner.tag, inner.value);
  }
  if (const auto element = list_elements().find(tag); element != list_elements().end()) {
    Argument::List items;
    items.reserve(as_array(json).size());
    for (const Json& item : as_array(json)) {
      items.push_back(argument(element->second, item));
    }
    return items;
  }
  if (tag == "as_graph") {
    return subgraph(json);
  }
  const auto reason = refused().find(tag);
  fail("takes {}", reason == refused().end() ? quote(tag) + ", which is not known" : std::string(reason->second));
}

Argument GraphReader::subgraph(const Json& json) {
  ensure(depth_ < kMaxSubgraphDepth, "has graphs in graphs deeper than {}", kMaxSubgraphDepth);
  GraphArgument result;
  result.name = as_text(member(json, "name"));
  result.graph = std::make_shared<Graph>();
  GraphReader(*result.graph, symbols_, depth_ + 1).read(member(json, "graph"));
  return result;
}

Value* GraphReader::value(const std::string& name) const {
  const auto found = values_.find(name);
  ensure(found != values_.end(), "takes {}, which nothing before it gives", quote(name));
  return found->second;
}

void GraphReader::define(const std::string& name, Value* value) {
  ensure(values_.emplace(name, value).second, "gives {}, which something before it gives too", quote(name));
}

void GraphReader::describe_tensor(const std::string& name, Value* value) {
  value->meta() = read_tensor_meta(meta_of("tensor_values", name), symbols_);
}

const Json& GraphReader::meta_of(std::string_view table, const std::string& name) const {
  const Json* values = find_member(*json_, table);
  const Json* found = values == nullptr ? nullptr : find_member(*values, name);
  ensure(found != nullptr, "gives {}, of which {} says nothing", quote(name), table);
  return *found;
}

}  // namespace exporters::pt2
