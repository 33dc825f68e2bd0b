#include "exporters/pt2/graph_json.h"

#include "exporters/graph/op_name.h"
#include "exporters/pt2/metadata_json.h"
#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"

#include <ATen/core/function_schema.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unordered_set>

namespace exporters::pt2 {
namespace {

using Json = nlohmann::json;
using Kind = Value::Kind;

class GraphWriter {
 public:
  GraphWriter(const Graph& graph, const GraphSignature* signature, const GraphContext& context)
      : graph_(graph),
        signature_(signature),
        context_(context),
        asserts_(
            signature == nullptr ? std::vector<RuntimeAssert>() : context.asserts, context.metas,
            [this](std::string_view hint) { return fresh_name(hint); },
            metadata_json(Node(), context.root_class, calls_)) {}

  Json run() {
    add_inputs();
    for (const Node& node : graph_) {
      if (node.kind() == Node::Kind::kCall) {
        nodes_.push_back(node_json(node));
        add_due_asserts();
      }
    }
    asserts_.finish();
    Json outputs = Json::array();
    const Node& output = *graph_.output_node();
    for (const Argument& argument : graph_.outputs()) {
      outputs.push_back(argument_json(argument, nullptr, output));
    }
    const auto single = output.metadata().find(std::string(kGraphSingleTensorReturnKey));
    return {{"inputs", std::move(inputs_)},
            {"outputs", std::move(outputs)},
            {"nodes", std::move(nodes_)},
            {"tensor_values", std::move(tensors_)},
            {"sym_int_values", std::move(ints_)},
            {"sym_bool_values", std::move(bools_)},
            {"sym_float_values", std::move(floats_)},
            {"is_single_tensor_return", single != output.metadata().end() && single->second == "true"},
            {"custom_obj_values", Json::object()}};
  }

 private:
  void add_inputs() {
    const std::vector<Value*> placeholders = graph_.placeholders();
    for (size_t i = 0; i < placeholders.size(); ++i) {
      const InputSpec* spec = signature_ == nullptr ? nullptr : &signature_->inputs[i];
      if (spec != nullptr && spec->kind == InputSpec::Kind::kConstantInput) {
        inputs_.push_back(argument_json(spec->constant, nullptr, *placeholders[i]->node()));
      } else {
        inputs_.push_back(declare(placeholders[i]));
      }
    }
    add_due_asserts();
  }

  void add_due_asserts() {
    for (Json& node : asserts_.due()) {
      // Of the module that the conditions are checked in: nodes of others would end its call.
      if (!nodes_.empty()) {
        node["metadata"][kModuleStackKey] = nodes_.back()["metadata"][kModuleStackKey];
      }
      nodes_.push_back(std::move(node));
    }
    ints_.update(asserts_.ints());
    floats_.update(asserts_.floats());
    bools_.update(asserts_.bools());
  }

  std::string fresh_name(std::string_view hint) {
    std::string name(hint);
    for (int i = 1; graph_.find(name) != nullptr || !made_up_.insert(name).second; ++i) {
      name = fmt::format("{}_{}", hint, i);
    }
    return name;
  }

  // The value's description becomes part of the graph; gives the way to name it.
  Json declare(const Value* value) {
    asserts_.observe(*value);
    switch (value->kind()) {
      case Kind::kTensor:
        tensors_[value->name()] = context_.metas.tensor(value->meta());
        break;
      case Kind::kSymInt:
        ints_[value->name()] = context_.metas.size(value->sym());
        break;
      case Kind::kSymFloat:
        floats_[value->name()] = expression(value);
        break;
      case Kind::kSymBool:
        bools_[value->name()] = expression(value);
        break;
      case Kind::kTensorList:
        if (value->elements().empty()) {
          throw Error("torch.export.load cannot read a call that gives an empty list of tensors",
                      value->node()->describe());
        }
        for (const Value* element : value->elements()) {
          declare(element);
        }
        break;
      case Kind::kNone:
      case Kind::kOther:
        break;
    }
    return value_json(*value);
  }

  Json expression(const Value* value) const {
    return {{"as_expr", {{"expr_str", context_.numbers.of(value)}, {"hint", nullptr}}}};
  }

  Json node_json(const Node& node) {
    Json outputs = Json::array();
    for (const Value* output : node.outputs()) {
      outputs.push_back(declare(output));
    }
    Json result = {{"target", target_to_schema(node.target())},
                   {"inputs", inputs_json(node)},
                   {"outputs", std::move(outputs)},
                   {"metadata", metadata_json(node, context_.root_class, calls_)},
                   {"is_hop_single_tensor_return", nullptr},
                   {"name", node_name(node)}};
    if (is_higher_order_target(node.target())) {
      const auto single = node.metadata().find(std::string(kSingleTensorReturnKey));
      result["is_hop_single_tensor_return"] = single != node.metadata().end() && single->second == "true";
    }
    return result;
  }

  // FX gives the tuple that a call returns a name of its own, beside those of its parts.
  std::string node_name(const Node& node) {
    const auto& outputs = node.outputs();
    const bool is_taken = outputs.size() > 1 && outputs[0]->name() == node.name();
    return is_taken ? fresh_name(node.name() + "_tuple") : node.name();
  }

  Json inputs_json(const Node& node) {
    if (is_higher_order_target(node.target())) {
      return higher_order_inputs(node);
    }
    if (is_dispatcher_target(node.target())) {
      return op_inputs(node, lookup_operator(node.target()).schema());
    }
    // Python's operators name them so; who reads goes by the order.
    static constexpr const char* kOperands[] = {"a", "b", "c"};
    Json inputs = Json::array();
    for (size_t i = 0; i < node.arg_count(); ++i) {
      inputs.push_back(input(kOperands[i], argument_json(node.arg(i), nullptr, node), ArgumentKind::kPositional));
    }
    return inputs;
  }

  static Json input(const std::string& name, Json argument, ArgumentKind kind) {
    return {{"name", name}, {"arg", std::move(argument)}, {"kind", static_cast<int64_t>(kind)}};
  }

  static Json op_inputs(const Node& node, const c10::FunctionSchema& schema) {
    Json inputs = Json::array();
    for (size_t i = 0; i < node.arg_count(); ++i) {
      const c10::Argument& formal = schema.arguments()[i];
      inputs.push_back(input(formal.name(), argument_json(node.arg(i), formal.real_type().get(), node),
                             formal.kwarg_only() ? ArgumentKind::kKeyword : ArgumentKind::kPositional));
    }
    for (const auto& [name, argument] : node.kwargs()) {
      const auto index = schema.argumentIndexWithName(name);
      const c10::Type* type = index ? schema.arguments()[*index].real_type().get() : nullptr;
      inputs.push_back(input(name, argument_json(argument, type, node), ArgumentKind::kKeyword));
    }
    return inputs;
  }

  Json higher_order_inputs(const Node& node) const {
    Json inputs = Json::array();
    for (const Argument& argument : node.args()) {
      inputs.push_back(input("", higher_order_argument(argument, node), ArgumentKind::kPositional));
    }
    for (const auto& [name, argument] : node.kwargs()) {
      inputs.push_back(input(name, higher_order_argument(argument, node), ArgumentKind::kKeyword));
    }
    return inputs;
  }

  Json higher_order_argument(const Argument& argument, const Node& node) const {
    if (const auto* subgraph = argument.get_if<GraphArgument>()) {
      return {{"as_graph", {{"name", subgraph->name}, {"graph", graph_json(*subgraph->graph, nullptr, context_)}}}};
    }
    return argument_json(argument, nullptr, node);
  }

  const Graph& graph_;
  const GraphSignature* signature_;
  const GraphContext& context_;
  ModuleCalls calls_;
  AssertNodes asserts_;
  std::unordered_set<std::string> made_up_;
  Json inputs_ = Json::array();
  Json nodes_ = Json::array();
  Json tensors_ = Json::object();
  Json ints_ = Json::object();
  Json floats_ = Json::object();
  Json bools_ = Json::object();
};

}  // namespace

Json graph_json(const Graph& graph, const GraphSignature* signature, const GraphContext& context) {
  return GraphWriter(graph, signature, context).run();
}

}  // namespace exporters::pt2
