#include "exporters/graph/higher_order.h"

#include "exporters/support/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace exporters {
namespace {

using Kind = HigherOrderCall::Kind;

[[noreturn]] void refuse_form(const Node& node, std::string_view form) {
  throw Error(fmt::format("The call has not the form {}", form), node.describe());
}

const GraphArgument& graph_at(const Node& node, size_t i, std::string_view form) {
  const auto* graph = i < node.arg_count() ? node.arg(i).get_if<GraphArgument>() : nullptr;
  if (graph == nullptr || graph->graph == nullptr) {
    refuse_form(node, form);
  }
  return *graph;
}

const Argument::List& list_at(const Node& node, size_t i, std::string_view form) {
  if (i >= node.arg_count() || !node.arg(i).is_list()) {
    refuse_form(node, form);
  }
  return node.arg(i).list();
}

void append(std::vector<Argument>& to, const Argument::List& from) { to.insert(to.end(), from.begin(), from.end()); }

void check_branch(const Node& node, const GraphArgument& branch, size_t inputs, size_t outputs) {
  const size_t takes = branch.graph->placeholders().size();
  const size_t gives = branch.graph->outputs().size();
  if (takes != inputs || gives != outputs) {
    throw Error(fmt::format("The subgraph '{}' takes {} inputs and gives {} outputs, the call has {} and {}",
                            branch.name, takes, gives, inputs, outputs),
                node.describe());
  }
}

HigherOrderCall read_cond(const Node& node) {
  constexpr std::string_view kForm = "cond(condition, true_graph, false_graph, [operands])";
  HigherOrderCall call;
  call.kind = Kind::kCond;
  call.branches = {&graph_at(node, 1, kForm), &graph_at(node, 2, kForm)};
  const Argument::List& operands = list_at(node, 3, kForm);
  call.operands = {node.arg(0)};
  append(call.operands, operands);
  for (const GraphArgument* branch : call.branches) {
    check_branch(node, *branch, operands.size(), node.outputs().size());
  }
  return call;
}

HigherOrderCall read_while_loop(const Node& node) {
  constexpr std::string_view kForm = "while_loop(condition_graph, body_graph, [carried], [additional])";
  HigherOrderCall call;
  call.kind = Kind::kWhile;
  call.branches = {&graph_at(node, 0, kForm), &graph_at(node, 1, kForm)};
  call.carried = list_at(node, 2, kForm).size();
  append(call.operands, list_at(node, 2, kForm));
  append(call.operands, list_at(node, 3, kForm));
  check_branch(node, *call.branches[0], call.operands.size(), 1);
  check_branch(node, *call.branches[1], call.operands.size(), call.carried);
  if (node.outputs().size() != call.carried) {
    refuse_form(node, kForm);
  }
  return call;
}

// op(settings…, graph, operands…): what the settings change has no effect on a run without autograd.
HigherOrderCall read_inline(const Node& node, size_t settings, std::string_view form) {
  HigherOrderCall call;
  call.branches = {&graph_at(node, settings, form)};
  call.operands.assign(node.args().begin() + static_cast<std::ptrdiff_t>(settings) + 1, node.args().end());
  if (call.operands.size() == 1 && call.operands[0].is_list()) {
    call.operands = Argument::List(call.operands[0].list());
  }
  check_branch(node, *call.branches[0], call.operands.size(), node.outputs().size());
  return call;
}

HigherOrderCall read_set_grad(const Node& node) {
  return read_inline(node, 1, "wrap_with_set_grad_enabled(enabled, graph, operands…)");
}

// Ops of the subgraph were recorded without the casts that autocast adds.
HigherOrderCall read_autocast(const Node& node) {
  constexpr std::string_view kForm = "wrap_with_autocast(device, dtype, enabled, cache, graph, operands…)";
  if (node.arg_count() < 4 || !node.arg(2).is<bool>()) {
    refuse_form(node, kForm);
  }
  if (node.arg(2).as<bool>()) {
    throw Error("Autocast inside a program cannot be run: its casts are not in the program", node.describe(),
                "Export the model without autocast, or in the lower dtype.");
  }
  return read_inline(node, 4, kForm);
}

HigherOrderCall read_invoke_subgraph(const Node& node) {
  constexpr std::string_view kForm = "invoke_subgraph(graph, name, operands…)";
  HigherOrderCall call;
  call.branches = {&graph_at(node, 0, kForm)};
  if (node.arg_count() < 2) {
    refuse_form(node, kForm);
  }
  call.operands.assign(node.args().begin() + 2, node.args().end());
  check_branch(node, *call.branches[0], call.operands.size(), node.outputs().size());
  return call;
}

struct Reader {
  std::string_view target;
  HigherOrderCall (*read)(const Node&);
  bool inlined = true;
};
constexpr Reader kReaders[] = {
    {"higher_order.cond", read_cond, false},
    {"higher_order.while_loop", read_while_loop, false},
    {"higher_order.wrap_with_set_grad_enabled", read_set_grad},
    {"higher_order.wrap_with_autocast", read_autocast},
    {"higher_order.invoke_subgraph", read_invoke_subgraph},
};

}  // namespace

bool only_runs_subgraph(const Node& node) {
  return std::any_of(std::begin(kReaders), std::end(kReaders),
                     [&](const Reader& reader) { return reader.target == node.target() && reader.inlined; });
}

HigherOrderCall read_higher_order(const Node& node) {
  std::vector<std::string_view> known;
  for (const Reader& reader : kReaders) {
    if (reader.target == node.target()) {
      return reader.read(node);
    }
    known.push_back(reader.target);
  }
  throw Error(fmt::format("The higher-order op cannot be run; those that can are {}", fmt::join(known, ", ")),
              node.describe(), "Export the model without it, for example with a loop that is traced.");
}

}  // namespace exporters
