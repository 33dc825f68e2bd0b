#include "exporters/passes/training_mode.h"

#include "exporters/graph/calls.h"
#include "exporters/graph/op_name.h"
#include "exporters/support/error.h"

#include <ATen/core/function_schema.h>
#include <fmt/format.h>

#include <algorithm>

namespace exporters {
namespace {

// How a call shows that it trains. Names are of schema arguments; an empty name asks nothing.
struct TrainingOp {
  std::string_view op;           ///< without the overload
  std::string_view flag;         ///< a bool; empty where the op trains always
  std::string_view probability;  ///< a rate of 0 changes nothing
  std::string_view statistics;   ///< without running statistics the batch's are used in evaluation too
  bool can_switch = true;        ///< outputs keep their shapes and meaning without the flag
};
constexpr TrainingOp kTrainingOps[] = {
    {"aten.dropout", "train", "p", ""},
    {"aten.dropout_", "train", "p", ""},
    {"aten.feature_dropout", "train", "p", ""},
    {"aten.feature_dropout_", "train", "p", ""},
    {"aten.alpha_dropout", "train", "p", ""},
    {"aten.alpha_dropout_", "train", "p", ""},
    {"aten.feature_alpha_dropout", "train", "p", ""},
    {"aten.feature_alpha_dropout_", "train", "p", ""},
    {"aten.native_dropout", "train", "p", ""},
    {"aten.batch_norm", "training", "", "running_mean"},
    {"aten.instance_norm", "use_input_stats", "", "running_mean"},
    {"aten.native_batch_norm", "training", "", "running_mean", false},
    {"aten._native_batch_norm_legit", "training", "", "running_mean", false},
    {"aten._native_batch_norm_legit_functional", "training", "", "running_mean", false},
    {"aten._batch_norm_with_update", "", "", "running_mean", false},
    {"aten._batch_norm_with_update_functional", "", "", "running_mean", false},
    {"aten.cudnn_batch_norm", "training", "", "running_mean", false},
    {"aten.miopen_batch_norm", "training", "", "running_mean", false},
    {"aten.rrelu", "training", "", ""},
    {"aten.rrelu_", "training", "", ""},
    {"aten.rrelu_with_noise", "training", "", ""},
    {"aten.rrelu_with_noise_", "training", "", ""},
    {"aten.rrelu_with_noise_functional", "training", "", ""},
    {"aten.lstm", "train", "dropout", ""},
    {"aten.gru", "train", "dropout", ""},
    {"aten.rnn_tanh", "train", "dropout", ""},
    {"aten.rnn_relu", "train", "dropout", ""},
    {"aten.scaled_dot_product_attention", "", "dropout_p", ""},
    {"aten._scaled_dot_product_attention_math", "", "dropout_p", ""},
    {"aten._scaled_dot_product_flash_attention", "", "dropout_p", ""},
    {"aten._scaled_dot_product_flash_attention_for_cpu", "", "dropout_p", ""},
    {"aten._scaled_dot_product_efficient_attention", "", "dropout_p", ""},
};

const TrainingOp* find_entry(const Node& node) {
  if (!is_dispatcher_target(node.target())) {
    return nullptr;
  }
  const std::string_view op = std::string_view(node.target()).substr(0, node.target().rfind('.'));
  const auto* found = std::find_if(std::begin(kTrainingOps), std::end(kTrainingOps),
                                   [op](const TrainingOp& entry) { return entry.op == op; });
  return found == std::end(kTrainingOps) ? nullptr : found;
}

const Argument* argument_of(const Node& node, std::string_view name) {
  const c10::OperatorHandle op = lookup_operator(node.target());
  const auto index = op.schema().argumentIndexWithName(name);
  return index ? bind_arguments(node, op.schema())[*index] : nullptr;
}

bool is_zero(const Argument* argument) {
  return argument == nullptr || *argument == Argument(0.0) || *argument == Argument(0);
}

bool trains(const Node& node) {
  const TrainingOp* entry = find_entry(node);
  if (entry == nullptr) {
    return false;
  }
  if (!entry->flag.empty()) {
    // An absent flag is the schema's default, false; None, of native_dropout, is true.
    const Argument* flag = argument_of(node, entry->flag);
    if (flag == nullptr || *flag == Argument(false)) {
      return false;
    }
  }
  if (!entry->probability.empty() && is_zero(argument_of(node, entry->probability))) {
    return false;
  }
  const Argument* statistics = entry->statistics.empty() ? nullptr : argument_of(node, entry->statistics);
  return entry->statistics.empty() || (statistics != nullptr && !statistics->is_none());
}

std::vector<Node*> find_all(const ExportedProgram& program) {
  std::vector<Node*> found;
  for_each_call(*program.graph, [&](Node& node) {
    if (trains(node)) {
      found.push_back(&node);
    }
  });
  return found;
}

std::string described(const std::vector<Node*>& nodes) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(nodes.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + nodes[i]->describe();
  }
  return nodes.size() > kShown ? fmt::format("{} and {} more", text, nodes.size() - kShown) : text;
}

void set_argument(Node& node, std::string_view name, const Argument& value) {
  const auto index = lookup_operator(node.target()).schema().argumentIndexWithName(name);
  if (index && static_cast<size_t>(*index) < node.arg_count()) {
    node.set_arg(static_cast<size_t>(*index), value);
    return;
  }
  auto kwargs = node.kwargs();
  for (auto& [key, argument] : kwargs) {
    if (key == name) {
      argument = value;
    }
  }
  node.set_kwargs(std::move(kwargs));
}

// Normalization layers count their batches in a buffer, which nothing else reads.
void remove_batch_counters(ExportedProgram& program) {
  for (const InputSpec& input : program.signature.inputs) {
    const Value* buffer = program.graph->find(input.name);
    if (input.kind != InputSpec::Kind::kBuffer || !input.target.ends_with("num_batches_tracked") || buffer == nullptr) {
      continue;
    }
    for (Node* user : buffer->users()) {
      const bool counts = user->is_call("aten.add_.Tensor") || user->is_call("aten.add_.Scalar");
      if (counts && !user->value()->has_users()) {
        program.graph->erase(user);
      }
    }
  }
}

}  // namespace

std::vector<const Node*> training_ops(const ExportedProgram& program) {
  const std::vector<Node*> found = find_all(program);
  return {found.begin(), found.end()};
}

void refuse_training_mode(const ExportedProgram& program) {
  const std::vector<Node*> found = find_all(program);
  if (!found.empty()) {
    throw Error("the program was traced in training mode: " + described(found) +
                    ". Its results would be random, or depend on the other rows of a batch",
                {}, "Call eval() on the module before the trace, or ask for the evaluation form (hfx export --eval).");
  }
}

size_t switch_to_evaluation(ExportedProgram& program) {
  const std::vector<Node*> found = find_all(program);
  for (const Node* node : found) {
    if (!find_entry(*node)->can_switch) {
      throw Error("the call has no form in evaluation mode", node->describe(),
                  "Call eval() on the module, and trace it again.");
    }
  }
  for (Node* node : found) {
    const TrainingOp& entry = *find_entry(*node);
    if (entry.flag.empty()) {
      set_argument(*node, entry.probability, 0.0);
    } else {
      set_argument(*node, entry.flag, false);
    }
  }
  if (!found.empty()) {
    remove_batch_counters(program);
  }
  return found.size();
}

}  // namespace exporters
