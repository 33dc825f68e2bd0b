#include "exporters/passes/clone.h"

#include <unordered_map>

namespace exporters {
namespace {

class GraphClone {
 public:
  GraphClone(const Graph& from, Graph& to) : from_(from), to_(to) {}

  void run() {
    for (const Node& node : from_) {
      if (node.is_placeholder()) {
        copy_value(*node.output(), *to_.add_placeholder(node.name(), node.output()->kind()));
        copy_place(node, *values_.at(node.output())->node());
      } else if (!node.is_output()) {
        copy_call(node);
      }
    }
    to_.set_outputs(mapped(from_.outputs()));
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
    values_.emplace(&from, &to);
  }

  static void copy_place(const Node& from, Node& to) {
    to.place() = from.place();
    to.module_stack() = from.module_stack();
    to.metadata() = from.metadata();
  }

  const Graph& from_;
  Graph& to_;
  std::unordered_map<const Value*, Value*> values_;
};

}  // namespace

std::shared_ptr<Graph> clone(const Graph& graph) {
  auto copy = std::make_shared<Graph>();
  GraphClone(graph, *copy).run();
  return copy;
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

}  // namespace exporters
