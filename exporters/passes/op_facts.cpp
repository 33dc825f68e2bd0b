#include "exporters/passes/op_facts.h"

#include "exporters/graph/op_name.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/function_schema.h>

#include <algorithm>
#include <iterator>

namespace exporters {
namespace {

// Ops that have outputs and still are there for what they do. Those without outputs need no entry.
constexpr std::string_view kEffects[] = {
    "aten._assert_tensor_metadata.default",         "aten._functional_assert_async.msg",
    "aten._functional_assert_scalar.default",       "aten.functional_sym_constrain_range.default",
    "aten._functional_sym_constrain_range.default", "aten._functional_sym_constrain_range_for_size.default",
};

// Ops that update running statistics in training, of which their schemas say nothing.
struct Statistics {
  std::string_view target;
  std::string_view training;
  std::string_view statistics;
};
constexpr Statistics kStatistics[] = {
    {"aten.batch_norm.default", "training", "running_mean"},
    {"aten.native_batch_norm.default", "training", "running_mean"},
    {"aten._batch_norm_impl_index.default", "training", "running_mean"},
    {"aten.cudnn_batch_norm.default", "training", "running_mean"},
    {"aten.miopen_batch_norm.default", "training", "running_mean"},
    {"aten.instance_norm.default", "use_input_stats", "running_mean"},
};

const Argument* argument_named(const Node& node, const c10::FunctionSchema& schema, std::string_view name) {
  const auto index = schema.argumentIndexWithName(name);
  return index ? bind_arguments(node, schema)[*index] : nullptr;
}

bool is_set(const Argument* argument) { return argument != nullptr && !argument->is_none(); }

template <typename Predicate>
bool any_node(const Graph& graph, Predicate predicate) {
  for (const Node& node : graph) {
    if (predicate(node)) {
      return true;
    }
  }
  return false;
}

template <typename Predicate>
bool any_in_subgraphs(const Node& node, Predicate predicate) {
  return std::any_of(node.args().begin(), node.args().end(), [&](const Argument& argument) {
    const auto* subgraph = argument.get_if<GraphArgument>();
    return subgraph != nullptr && subgraph->graph != nullptr && any_node(*subgraph->graph, predicate);
  });
}

bool is_effect(const Node& node) { return node.kind() == Node::Kind::kCall && !is_pure(node); }

}  // namespace

bool is_pure(const Node& node) {
  if (node.kind() != Node::Kind::kCall || node.outputs().empty()) {
    return false;
  }
  if (is_higher_order_target(node.target())) {
    return !any_in_subgraphs(node, is_effect);
  }
  if (!is_dispatcher_target(node.target())) {
    return true;
  }
  const c10::OperatorHandle op = lookup_operator(node.target());
  return !op.schema().is_mutable() && !updates_statistics(node) && !op.hasTag(at::Tag::nondeterministic_seeded) &&
         std::find(std::begin(kEffects), std::end(kEffects), node.target()) == std::end(kEffects);
}

bool updates_statistics(const Node& node) {
  for (const Statistics& entry : kStatistics) {
    if (entry.target == node.target()) {
      const c10::OperatorHandle op = lookup_operator(node.target());
      const Argument* training = argument_named(node, op.schema(), entry.training);
      const bool may_train = training != nullptr && !(*training == Argument(false));
      return may_train && is_set(argument_named(node, op.schema(), entry.statistics));
    }
  }
  return false;
}

bool mutates_inputs(const Node& node) {
  if (node.kind() != Node::Kind::kCall) {
    return false;
  }
  if (is_higher_order_target(node.target())) {
    return any_in_subgraphs(node, mutates_inputs);
  }
  return is_dispatcher_target(node.target()) &&
         (lookup_operator(node.target()).schema().is_mutable() || updates_statistics(node));
}

bool is_functional(const Graph& graph) { return !any_node(graph, mutates_inputs); }

}  // namespace exporters
