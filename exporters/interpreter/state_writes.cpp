#include "exporters/interpreter/state_writes.h"

#include "exporters/graph/op_name.h"

#include <ATen/core/function_schema.h>

#include <algorithm>
#include <unordered_set>

namespace exporters {
namespace {

class StateWrites {
 public:
  explicit StateWrites(const ExportedProgram& program) {
    const std::vector<Value*> placeholders = program.graph->placeholders();
    for (size_t i = 0; i < placeholders.size(); ++i) {
      if (!program.signature.inputs[i].target.empty()) {
        shared_.insert(placeholders[i]);
      }
    }
  }

  bool any(const Graph& graph) {
    for (const Node& node : graph) {
      if (node.kind() != Node::Kind::kCall) {
        continue;
      }
      if (is_higher_order_target(node.target()) ? writes_inside(node) : writes(node)) {
        return true;
      }
    }
    return false;
  }

 private:
  bool is_shared(const Argument& argument) const {
    bool any = false;
    argument.for_each_value([&](const Value* value) { any = any || shared_.contains(value); });
    return any;
  }

  void share(const Node& node) {
    for (const Value* output : node.outputs()) {
      shared_.insert(output);
      shared_.insert(output->elements().begin(), output->elements().end());
    }
  }

  // A subgraph that gets a tensor of the state may do anything to it.
  bool writes_inside(const Node& node) {
    const bool takes_state = std::any_of(node.args().begin(), node.args().end(),
                                         [&](const Argument& argument) { return is_shared(argument); });
    if (!takes_state) {
      return false;
    }
    share(node);
    return std::any_of(node.args().begin(), node.args().end(), [](const Argument& argument) {
      const auto* subgraph = argument.get_if<GraphArgument>();
      return subgraph != nullptr && subgraph->graph != nullptr && has_writes(*subgraph->graph);
    });
  }

  static bool has_writes(const Graph& graph) {
    for (const Node& node : graph) {
      if (node.kind() == Node::Kind::kCall && is_dispatcher_target(node.target()) &&
          (lookup_operator(node.target()).schema().is_mutable() || is_training_norm(node))) {
        return true;
      }
    }
    return false;
  }

  bool writes(const Node& node) {
    if (!is_dispatcher_target(node.target())) {
      return false;
    }
    const c10::OperatorHandle op = lookup_operator(node.target());
    const std::vector<const Argument*> bound = bind_arguments(node, op.schema());
    for (size_t i = 0; i < bound.size(); ++i) {
      const c10::AliasInfo* alias = op.schema().arguments()[i].alias_info();
      if (alias != nullptr && alias->isWrite() && bound[i] != nullptr && is_shared(*bound[i])) {
        return true;
      }
    }
    if (may_give_back(op) && !bound.empty() && bound[0] != nullptr && is_shared(*bound[0])) {
      share(node);
    }
    return is_training_norm(node);
  }

  // A view by its schema, or a composite op, which may give its first argument back without saying so.
  static bool may_give_back(const c10::OperatorHandle& op) {
    const auto& returns = op.schema().returns();
    const bool is_view =
        std::any_of(returns.begin(), returns.end(), [](const c10::Argument& r) { return r.alias_info() != nullptr; });
    return is_view || op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  }

  // Schemas of norms say nothing of the running statistics that they update.
  static bool is_training_norm(const Node& node) {
    const c10::FunctionSchema& schema = lookup_operator(node.target()).schema();
    const auto statistics = schema.argumentIndexWithName("running_mean");
    if (!statistics) {
      return false;
    }
    const std::vector<const Argument*> bound = bind_arguments(node, schema);
    const bool has_statistics = bound[*statistics] != nullptr && !bound[*statistics]->is_none();
    for (const char* name : {"training", "train", "use_input_stats"}) {
      if (const auto flag = schema.argumentIndexWithName(name)) {
        return has_statistics && !(bound[*flag] != nullptr && *bound[*flag] == Argument(false));
      }
    }
    return false;
  }

  std::unordered_set<const Value*> shared_;  // with a tensor of the state
};

}  // namespace

bool writes_to_state(const ExportedProgram& program) {
  using Kind = OutputSpec::Kind;
  const bool by_signature =
      std::any_of(program.signature.outputs.begin(), program.signature.outputs.end(), [](const OutputSpec& output) {
        return output.kind == Kind::kBufferMutation || output.kind == Kind::kParameterMutation;
      });
  return by_signature || StateWrites(program).any(*program.graph);
}

}  // namespace exporters
