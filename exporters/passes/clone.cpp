#include "exporters/passes/clone.h"

#include "exporters/support/error.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace exporters {
namespace {

class GraphClone {
 public:
  GraphClone(const Graph& from, Graph& to) : from_(from), to_(to) {}

  void run() {
    for (const Value* placeholder : from_.placeholders()) {
      Value* copy = to_.add_placeholder(placeholder->name(), placeholder->kind());
      copy_value(*placeholder, *copy);
      copy_place(*placeholder->node(), *copy->node());
    }
    copy_calls();
    to_.set_outputs(mapped(from_.outputs()));
  }

  std::vector<Argument> run_in_place(const std::vector<Argument>& inputs) {
    const std::vector<Value*> placeholders = from_.placeholders();
    ensure(placeholders.size() == inputs.size(), "a subgraph of {} inputs is called with {}", placeholders.size(),
           inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      values_.emplace(placeholders[i], inputs[i]);
      rename_symbol(*placeholders[i], inputs[i]);
    }
    copy_calls();
    return mapped(from_.outputs());
  }

  Argument mapped(const Argument& argument) const {
    if (const auto* value = argument.get_if<Value*>()) {
      return values_.at(*value);
    }
    if (const auto* items = argument.get_if<Argument::List>()) {
      return Argument(mapped(*items));
    }
    if (const auto* subgraph = argument.get_if<GraphArgument>(); subgraph != nullptr && subgraph->graph != nullptr) {
      return GraphArgument{subgraph->name, clone(*subgraph->graph)};
    }
    return argument;
  }

 private:
  void copy_calls() {
    for (const Node& node : from_) {
      if (node.kind() == Node::Kind::kCall) {
        copy_call(node);
      }
    }
  }

  // A size that the subgraph knows by a name of its own is one of the surrounding graph.
  void rename_symbol(const Value& placeholder, const Argument& input) {
    const auto symbol = placeholder.kind() == Value::Kind::kSymInt ? placeholder.sym().as_symbol() : std::nullopt;
    const auto* value = input.get_if<Value*>();
    const auto* number = input.get_if<int64_t>();
    if (!symbol || (value == nullptr && number == nullptr)) {
      return;
    }
    const Expr size = value != nullptr ? (*value)->sym() : Expr(*number);
    if (size != Expr(*symbol)) {
      symbols_.emplace(*symbol, size);
    }
  }

  Expr renamed(const Expr& size) const {
    return size.substitute([this](Symbol symbol) -> std::optional<Expr> {
      const auto found = symbols_.find(symbol);
      return found == symbols_.end() ? std::nullopt : std::optional(found->second);
    });
  }

  std::vector<Argument> mapped(const std::vector<Argument>& arguments) const {
    std::vector<Argument> result;
    for (const Argument& argument : arguments) {
      result.push_back(mapped(argument));
    }
    return result;
  }

  void copy_call(const Node& node) {
    std::vector<std::pair<std::string, Argument>> kwargs;
    for (const auto& [name, argument] : node.kwargs()) {
      kwargs.emplace_back(name, mapped(argument));
    }
    Node* copy = to_.call(node.target(), mapped(node.args()), std::move(kwargs), node.name());
    copy_place(node, *copy);
    for (const Value* output : node.outputs()) {
      Value* fresh = to_.add_output(copy, output->kind(), output->name());
      copy_value(*output, *fresh);
      for (const Value* element : output->elements()) {
        copy_value(*element, *to_.add_element(fresh, element->name()));
      }
    }
  }

  void copy_value(const Value& from, Value& to) {
    to.meta() = from.meta();
    to.sym() = from.sym();
    if (!symbols_.empty()) {
      to.sym() = renamed(to.sym());
      to.meta().storage_offset = renamed(to.meta().storage_offset);
      for (auto* sizes : {&to.meta().sizes, &to.meta().strides}) {
        std::transform(sizes->begin(), sizes->end(), sizes->begin(),
                       [this](const Expr& size) { return renamed(size); });
      }
    }
    values_.emplace(&from, &to);
  }

  static void copy_place(const Node& from, Node& to) {
    to.place() = from.place();
    to.module_stack() = from.module_stack();
    to.metadata() = from.metadata();
  }

  const Graph& from_;
  Graph& to_;
  std::unordered_map<const Value*, Argument> values_;
  std::unordered_map<Symbol, Expr> symbols_;
};

}  // namespace

std::shared_ptr<Graph> clone(const Graph& graph) {
  auto copy = std::make_shared<Graph>();
  GraphClone(graph, *copy).run();
  return copy;
}

std::vector<Argument> copy_calls(const Graph& from, Graph& to, const std::vector<Argument>& inputs) {
  return GraphClone(from, to).run_in_place(inputs);
}

ExportedProgram clone(const ExportedProgram& program) {
  ExportedProgram copy = program;
  copy.graph = std::make_shared<Graph>();
  GraphClone values(*program.graph, *copy.graph);
  values.run();
  for (OutputSpec& output : copy.signature.outputs) {
    output.argument = values.mapped(output.argument);
  }
  return copy;
}

ExportedProgram program_of(const Graph& subgraph) {
  ExportedProgram program;
  program.graph = clone(subgraph);
  for (const Value* placeholder : program.graph->placeholders()) {
    program.signature.inputs.push_back({InputSpec::Kind::kUserInput, placeholder->name(), {}, true, {}});
  }
  for (const Argument& output : program.graph->outputs()) {
    program.signature.outputs.push_back({OutputSpec::Kind::kUserOutput, output, {}});
  }
  program.out_spec = TreeSpec::tuple(std::vector<TreeSpec>(program.signature.outputs.size()));
  return program;
}

}  // namespace exporters
