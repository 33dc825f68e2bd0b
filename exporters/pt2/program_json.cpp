#include "exporters/pt2/program_json.h"

#include "exporters/pt2/generic_hints.h"
#include "exporters/pt2/graph_json.h"
#include "exporters/pt2/guards_code.h"
#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"

#include <fmt/format.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_set>

namespace exporters::pt2 {
namespace {

using Json = nlohmann::json;

// One more than the largest k of a symbol "u<k>".
int64_t unbacked_count(const ExportedProgram& program) {
  int64_t count = 0;
  for (const auto& [name, range] : program.range_constraints) {
    int64_t index = 0;
    const char* end = name.data() + name.size();
    if (name.starts_with('u') && std::from_chars(name.data() + 1, end, index).ptr == end) {
      count = std::max(count, index + 1);
    }
  }
  return count;
}

Json range_json(const Range& range) {
  return {{"min_val", range.min == Range::kMin ? Json() : Json(range.min)},
          {"max_val", range.max == Range::kMax ? Json() : Json(range.max)}};
}

Json input_spec_json(const InputSpec& spec, const Value& placeholder) {
  const Json name = {{"name", spec.name}};
  switch (spec.kind) {
    case InputSpec::Kind::kUserInput:
      return {{"user_input", {{"arg", value_json(placeholder)}}}};
    case InputSpec::Kind::kParameter:
      return {{"parameter", {{"arg", name}, {"parameter_name", spec.target}}}};
    case InputSpec::Kind::kBuffer:
      return {{"buffer", {{"arg", name}, {"buffer_name", spec.target}, {"persistent", spec.persistent}}}};
    case InputSpec::Kind::kTensorConstant:
      return {{"tensor_constant", {{"arg", name}, {"tensor_constant_name", spec.target}}}};
    case InputSpec::Kind::kConstantInput:
      return {{"constant_input",
               {{"name", spec.name}, {"value", argument_json(spec.constant, nullptr, *placeholder.node())}}}};
    case InputSpec::Kind::kCustomObj:
    case InputSpec::Kind::kToken:
      break;
  }
  fail("Cannot save a program with the input '{}' into a .pt2 archive: only a pickle can hold it", spec.name);
}

// torch.export.load reads tensors, sizes, numbers and None among the outputs.
void check_output(const OutputSpec& spec, size_t index) {
  const auto* value = spec.argument.get_if<Value*>();
  const bool is_condition = value != nullptr && (*value)->kind() == Value::Kind::kSymBool;
  const bool is_text = spec.argument.is<std::string>();
  ensure(!is_condition && !is_text, "Cannot save a program whose output {} is a {}: torch.export.load reads none",
         index, is_text ? "string" : "condition on sizes");
}

Json output_spec_json(const OutputSpec& spec, size_t index, const Node& output) {
  const Json argument = argument_json(spec.argument, nullptr, output);
  if (spec.kind == OutputSpec::Kind::kUserOutput) {
    check_output(spec, index);
    return {{"user_output", {{"arg", argument}}}};
  }
  ensure(argument.contains("as_tensor"), "Output {} of the program is no tensor, and no user output either", index);
  const Json& name = argument["as_tensor"];
  switch (spec.kind) {
    case OutputSpec::Kind::kLossOutput:
      return {{"loss_output", {{"arg", name}}}};
    case OutputSpec::Kind::kBufferMutation:
      return {{"buffer_mutation", {{"arg", name}, {"buffer_name", spec.target}}}};
    case OutputSpec::Kind::kUserInputMutation:
      return {{"user_input_mutation", {{"arg", name}, {"user_input_name", spec.target}}}};
    case OutputSpec::Kind::kParameterMutation:
      return {{"parameter_mutation", {{"arg", name}, {"parameter_name", spec.target}}}};
    default:
      break;
  }
  fail("Cannot save a program with an effect token as its output {} into a .pt2 archive", index);
}

Json signature_json(const ExportedProgram& program) {
  Json inputs = Json::array();
  const std::vector<Value*> placeholders = program.graph->placeholders();
  for (size_t i = 0; i < placeholders.size(); ++i) {
    inputs.push_back(input_spec_json(program.signature.inputs[i], *placeholders[i]));
  }
  Json outputs = Json::array();
  for (size_t i = 0; i < program.signature.outputs.size(); ++i) {
    outputs.push_back(output_spec_json(program.signature.outputs[i], i, *program.graph->output_node()));
  }
  return {{"input_specs", std::move(inputs)}, {"output_specs", std::move(outputs)}};
}

// Names of the forward's arguments: those of the positional ones are known from their placeholders only.
Json argument_names(const ExportedProgram& program) {
  Json names = Json::array();
  const TreeSpec& args = program.in_spec.children[0];
  std::vector<std::string> leaves;
  for (const InputSpec& spec : program.signature.inputs) {
    if (spec.kind == InputSpec::Kind::kUserInput || spec.kind == InputSpec::Kind::kConstantInput) {
      leaves.push_back(spec.name);
    }
  }
  size_t leaf = 0;
  ensure(args.leaf_count() <= leaves.size(), "The program's in_spec has {} leaves, its signature {} user inputs",
         args.leaf_count(), leaves.size());
  for (const TreeSpec& argument : args.children) {
    names.push_back(argument.is_leaf() ? leaves[leaf] : "arg_" + std::to_string(names.size()));
    leaf += argument.leaf_count();
  }
  for (const std::string& key : program.in_spec.children[1].keys()) {
    names.push_back(key);
  }
  return names;
}

// Every module that a node comes from, outer ones before inner ones.
std::vector<std::string> module_paths(const Graph& graph) {
  std::vector<std::string> paths;
  std::set<std::string> seen = {""};
  for (const Node& node : graph) {
    for (const ModuleFrame& frame : node.module_stack()) {
      for (size_t dot = frame.path.find('.');; dot = frame.path.find('.', dot + 1)) {
        std::string path = frame.path.substr(0, dot);
        if (seen.insert(path).second) {
          paths.push_back(std::move(path));
        }
        if (dot == std::string::npos) {
          break;
        }
      }
    }
  }
  return paths;
}

Json module_call_graph_json(const ExportedProgram& program) {
  const TreeSpec& in_spec = program.in_spec;
  ensure(
      in_spec.children.size() == 2 && in_spec.children[1].type == "builtins.dict",
      "Cannot save a program into a .pt2 archive whose inputs are no call: a tuple of arguments and a dict of keyword "
      "arguments");
  Json entries = Json::array();
  entries.push_back({{"fqn", ""},
                     {"signature",
                      {{"inputs", Json::array()},
                       {"outputs", Json::array()},
                       {"in_spec", in_spec.dumps()},
                       {"out_spec", program.out_spec.dumps()},
                       {"forward_arg_names", argument_names(program)}}}});
  for (const std::string& path : module_paths(*program.graph)) {
    entries.push_back({{"fqn", path}, {"signature", nullptr}});
  }
  return entries;
}

// The expressions of the conditions that a graph asserts by itself.
std::set<std::string> asserted(const Graph& graph, SymText& numbers) {
  std::set<std::string> texts;
  for (const Node& node : graph) {
    if (!node.is_call("aten._assert_scalar.default")) {
      continue;
    }
    const Argument* condition = node.arg_count() > 0 ? &node.arg(0) : node.kwarg("self");
    const auto* value = condition != nullptr ? condition->get_if<Value*>() : nullptr;
    if (value != nullptr && (*value)->kind() == Value::Kind::kSymBool) {
      texts.insert(numbers.of(*value));
    }
  }
  return texts;
}

// As SymText spells what AssertNodes computes.
std::string comparison_text(const BoolExpr& condition) {
  const char* name = condition.kind() == BoolExpr::Kind::kEq   ? "Equality"
                     : condition.kind() == BoolExpr::Kind::kNe ? "Unequality"
                                                               : "LessThan";
  const bool is_comparison = condition.kind() != BoolExpr::Kind::kAnd && condition.kind() != BoolExpr::Kind::kOr;
  return is_comparison && !condition.as_bool() ? fmt::format("{}({}, Integer(0))", name, condition.operand().srepr())
                                               : std::string();
}

// Those that sizes and integers of the graph are made of. Of a condition that is read from a tensor (`item` of a bool)
// nothing but its truth is left.
std::unordered_set<Symbol> symbols_in(const Graph& graph) {
  std::unordered_set<Symbol> symbols;
  const auto add = [&](const Expr& expr) {
    for (const Symbol& symbol : expr.free_symbols()) {
      symbols.insert(symbol);
    }
  };
  const auto add_value = [&](const Value& value) {
    std::for_each(value.meta().sizes.begin(), value.meta().sizes.end(), add);
    add(value.sym());
  };
  for (const Node& node : graph) {
    for (const Value* output : node.outputs()) {
      add_value(*output);
      for (const Value* element : output->elements()) {
        add_value(*element);
      }
    }
  }
  return symbols;
}

class AssertCollector {
 public:
  AssertCollector(const ExportedProgram& program, SymText& numbers) : known_(asserted(*program.graph, numbers)) {
    const std::unordered_set<Symbol> used = symbols_in(*program.graph);
    for (const auto& [name, range] : program.range_constraints) {
      const Expr symbol{Symbol(name)};
      if (symbol.has_unbacked() && used.contains(Symbol(name))) {
        add_range(symbol, range);
      }
    }
  }

  void add(const Guard& guard) { add(guard.condition, guard.place.str()); }
  std::vector<RuntimeAssert> take() { return std::move(asserts_); }

 private:
  void add_range(const Expr& symbol, const Range& range) {
    const std::string text = symbol.srepr();
    if (range.min != Range::kMin && !known_.contains(fmt::format("GreaterThan({}, Integer({}))", text, range.min))) {
      add(ge(symbol, range.min), {});
    }
    if (range.max != Range::kMax && !known_.contains(fmt::format("LessThan({}, Integer({}))", text, range.max))) {
      add(le(symbol, range.max), {});
    }
  }

  void add(const BoolExpr& condition, const std::string& place) {
    if (known_.insert(comparison_text(condition)).second) {
      asserts_.push_back({condition, fmt::format("Runtime assertion failed for expression {}{}", condition.str(),
                                                 place.empty() ? "" : " (" + place + ")")});
    }
  }

  std::set<std::string> known_;
  std::vector<RuntimeAssert> asserts_;
};

}  // namespace

std::string program_json(const ExportedProgram& program, bool has_sample_inputs) {
  const std::map<std::string, int64_t> hints = generic_hints(program);
  MetaJson metas(hints);
  SymText numbers(unbacked_count(program));
  const InputGuards guards = input_guards(program);
  AssertCollector asserts(program, numbers);
  const std::unordered_set<Symbol> used = symbols_in(*program.graph);
  for (const Guard* guard : guards.on_data) {
    // That a size which nothing has any more is equal to another one says nothing of the others.
    const std::vector<Symbol> symbols = guard->condition.free_symbols();
    const bool is_definition =
        guard->condition.kind() == BoolExpr::Kind::kEq &&
        std::any_of(symbols.begin(), symbols.end(), [&](const Symbol& symbol) { return !used.contains(symbol); });
    if (!is_definition) {
      asserts.add(*guard);
    }
  }
  if (!has_sample_inputs) {
    for (const Guard& guard : program.guards) {
      asserts.add(guard);
    }
  }
  const GraphContext context{metas, numbers, program.module_class, asserts.take()};
  Json graph = graph_json(*program.graph, &program.signature, context);

  Json ranges = Json::object();
  for (const auto& [name, range] : program.range_constraints) {
    ranges[name] = range_json(range);
  }
  for (const std::string& name : numbers.made_up()) {
    ranges[name] = range_json({0, 1});
  }
  const Json result = {{"graph_module",
                        {{"graph", std::move(graph)},
                         {"signature", signature_json(program)},
                         {"module_call_graph", module_call_graph_json(program)},
                         {"metadata", Json::object()},
                         {"treespec_namedtuple_fields", Json::object()}}},
                       {"opset_version", {{"aten", kAtenOpset}}},
                       {"range_constraints", std::move(ranges)},
                       {"schema_version", {{"major", kSchemaMajor}, {"minor", kSchemaMinor}}},
                       {"verifiers", {"TRAINING"}},
                       {"torch_version", TORCH_VERSION},
                       {"guards_code", guards.code}};
  return json_text(result);
}

}  // namespace exporters::pt2
