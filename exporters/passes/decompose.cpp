#include "exporters/passes/decompose.h"

#include "exporters/fake/infer.h"
#include "exporters/graph/op_name.h"
#include "exporters/passes/dead_code.h"
#include "exporters/passes/decompositions/families.h"
#include "exporters/passes/functionalize.h"
#include "exporters/passes/op_facts.h"
#include "exporters/passes/retrace.h"
#include "exporters/support/error.h"
#include "exporters/symbolic/sym_node.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>

namespace exporters {

// ── A call ──

std::optional<at::Tensor> DecompositionCall::optional_tensor(std::string_view name) const {
  if (!has(name)) {
    return std::nullopt;
  }
  at::Tensor tensor = this->tensor(name);
  return tensor.defined() ? std::optional(std::move(tensor)) : std::nullopt;
}

c10::SymInt DecompositionCall::sym(std::string_view name) const { return to_sym_int(sym_int(name), shared_env()); }

std::optional<c10::SymInt> DecompositionCall::optional_sym(std::string_view name) const {
  return has(name) ? std::optional(sym(name)) : std::nullopt;
}

std::vector<c10::SymInt> DecompositionCall::syms(std::string_view name) const {
  std::vector<c10::SymInt> result;
  for (const Expr& expr : sym_ints(name)) {
    result.push_back(to_sym_int(expr, shared_env()));
  }
  return result;
}

std::vector<int64_t> DecompositionCall::dims(std::string_view name, int64_t rank) const {
  std::vector<int64_t> result;
  if (has(name)) {
    for (const int64_t axis : value(name).isInt() ? std::vector<int64_t>{integer(name)} : integers(name)) {
      result.push_back(wrap_dim(axis, rank));
    }
  }
  if (result.empty()) {
    for (int64_t axis = 0; axis < rank; ++axis) {
      result.push_back(axis);
    }
  }
  return result;
}

std::vector<c10::IValue> DecompositionCall::inferred() const {
  torch::jit::Stack stack(arguments().begin(), arguments().end());
  infer(op(), stack, shared_env());
  return stack;
}

// ── The table ──

void DecompositionTable::add(std::string_view target, Decomposition decomposition) {
  lookup_operator(target);
  entries_.insert_or_assign(std::string(target), std::move(decomposition));
}

void DecompositionTable::keep(std::string_view target) {
  lookup_operator(target);
  entries_.insert_or_assign(std::string(target), std::nullopt);
}

const Decomposition* DecompositionTable::find(std::string_view target) const {
  const auto found = entries_.find(target);
  return found == entries_.end() || !found->second ? nullptr : &*found->second;
}

bool DecompositionTable::keeps(std::string_view target) const {
  const auto found = entries_.find(target);
  return found != entries_.end() && !found->second;
}

bool DecompositionTable::decomposes(std::string_view target) const {
  if (const auto found = entries_.find(target); found != entries_.end()) {
    return found->second.has_value();
  }
  if (!composites_ || !is_dispatcher_target(target)) {
    return false;
  }
  const c10::OperatorHandle op = lookup_operator(target);
  return !op.hasTag(at::Tag::core) && op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

std::vector<std::string> DecompositionTable::targets() const {
  std::vector<std::string> result;
  for (const auto& [target, decomposition] : entries_) {
    if (decomposition) {
      result.push_back(target);
    }
  }
  return result;
}

const DecompositionTable& core_aten_decompositions() {
  static const DecompositionTable table = [] {
    DecompositionTable result;
    for (const auto family : decompositions::all()) {
      for (const DecompositionEntry& entry : family()) {
        entry.function == nullptr ? result.keep(entry.target) : result.add(entry.target, entry.function);
      }
    }
    return result;
  }();
  return table;
}

// ── The pass ──

namespace {

// Writes inside decompositions become ops that are taken apart again; each round leaves fewer.
constexpr int kMostRounds = 8;

// A node that another round would change, or null.
const Node* unfinished(const Graph& graph, const DecompositionTable& table);

bool has_unfinished_subgraph(const Node& node, const DecompositionTable& table) {
  return std::any_of(node.args().begin(), node.args().end(), [&](const Argument& argument) {
    const auto* subgraph = argument.get_if<GraphArgument>();
    return subgraph != nullptr && subgraph->graph != nullptr && unfinished(*subgraph->graph, table) != nullptr;
  });
}

const Node* unfinished(const Graph& graph, const DecompositionTable& table) {
  for (const Node& node : graph) {
    const bool is_call = node.kind() == Node::Kind::kCall;
    if (is_call &&
        (mutates_inputs(node) || (is_higher_order_target(node.target()) ? has_unfinished_subgraph(node, table)
                                                                        : table.decomposes(node.target())))) {
      return &node;
    }
  }
  return nullptr;
}

// torch.export spells arithmetic with a number as the op on tensors.
struct Spelling {
  std::string_view scalar;
  const char* tensor;
};
constexpr Spelling kSpellings[] = {
    {"aten.add.Scalar", "aten.add.Tensor"},
    {"aten.sub.Scalar", "aten.sub.Tensor"},
    {"aten.mul.Scalar", "aten.mul.Tensor"},
    {"aten.div.Scalar", "aten.div.Tensor"},
};

void respell_arithmetic(Graph& graph) {
  for (Node& node : graph) {
    const auto spelling = std::find_if(std::begin(kSpellings), std::end(kSpellings),
                                       [&](const Spelling& each) { return node.is_call(each.scalar); });
    if (spelling == std::end(kSpellings)) {
      continue;
    }
    std::vector<Argument> args = node.args();
    std::vector<std::pair<std::string, Argument>> kwargs = node.kwargs();
    if (args.size() == 3) {
      kwargs.insert(kwargs.begin(), {"alpha", args.back()});
      args.pop_back();
    }
    node.set_target(spelling->tensor);
    node.set_args(std::move(args));
    node.set_kwargs(std::move(kwargs));
  }
}

}  // namespace

ExportedProgram run_decompositions(const ExportedProgram& program, const DecompositionTable& table) {
  verify(program);
  ExportedProgram result = functional_form(program, table);
  int round = 0;
  while (const Node* node = unfinished(*result.graph, table)) {
    if (++round > kMostRounds) {
      throw Error("The op cannot be taken apart", node->describe(), "Keep it whole: DecompositionTable::keep.");
    }
    result = retrace(result, table);
    functionalize(result);
  }
  eliminate_dead_code(*result.graph);
  respell_arithmetic(*result.graph);
  verify(result);
  return result;
}

}  // namespace exporters
