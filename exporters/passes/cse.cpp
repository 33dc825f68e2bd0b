#include "exporters/passes/cse.h"

#include "exporters/passes/op_facts.h"
#include "exporters/support/error.h"

#include <c10/util/hash.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace exporters {
namespace {

struct ArgumentHash {
  template <typename T>
  size_t operator()(const T& value) const {
    return std::hash<T>()(value);
  }
  size_t operator()(std::monostate) const { return 0; }
  size_t operator()(double value) const { return std::hash<uint64_t>()(std::bit_cast<uint64_t>(value)); }
  size_t operator()(const c10::complex<double>& value) const {
    return c10::hash_combine((*this)(value.real()), (*this)(value.imag()));
  }
  size_t operator()(const GraphArgument& value) const { return std::hash<const void*>()(value.graph.get()); }
  size_t operator()(const Argument::List& items) const {
    size_t hash = items.size();
    for (const Argument& item : items) {
      hash = c10::hash_combine(hash, item.visit(*this));
    }
    return hash;
  }
};

struct CallHash {
  size_t operator()(const Node* node) const {
    size_t hash = std::hash<std::string>()(node->target());
    for (const Argument& argument : node->args()) {
      hash = c10::hash_combine(hash, argument.visit(ArgumentHash{}));
    }
    for (const auto& [name, argument] : node->kwargs()) {
      hash = c10::hash_combine(hash, std::hash<std::string>()(name));
      hash = c10::hash_combine(hash, argument.visit(ArgumentHash{}));
    }
    return hash;
  }
};

struct SameCall {
  bool operator()(const Node* a, const Node* b) const {
    return a->target() == b->target() && a->args() == b->args() && a->kwargs() == b->kwargs() &&
           same_outputs(a->outputs(), b->outputs());
  }
  static bool same_outputs(const std::vector<Value*>& a, const std::vector<Value*>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Value* x, const Value* y) {
      return x->kind() == y->kind() && x->elements().size() == y->elements().size();
    });
  }
};

bool is_returned(const Value* value) {
  const Node* output = value->node()->graph().output_node();
  // The output node was the first one, so it is the first of the users.
  const bool direct = value->has_users() && value->users().front() == output;
  return direct || std::any_of(value->elements().begin(), value->elements().end(), is_returned);
}

bool is_returned(const Node& node) {
  return std::any_of(node.outputs().begin(), node.outputs().end(),
                     [](const Value* value) { return is_returned(value); });
}

void replace(Node* node, Node* by) {
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    Value* from = node->output(i);
    Value* to = by->output(i);
    from->replace_all_uses_with(to);
    for (size_t j = 0; j < from->elements().size(); ++j) {
      from->elements()[j]->replace_all_uses_with(to->elements()[j]);
    }
  }
}

}  // namespace

size_t merge_common_subexpressions(Graph& graph) {
  const size_t before = graph.size();
  for (const Node& node : graph) {
    if (mutates_inputs(node)) {
      throw Error("Equal calls cannot be merged in a graph with in-place ops", node.describe(),
                  "Functionalize it first.");
    }
  }
  std::unordered_set<Node*, CallHash, SameCall> seen;
  for (Node& node : graph) {
    if (!is_pure(node)) {
      continue;
    }
    const auto [first, inserted] = seen.insert(&node);
    if (!inserted && !is_returned(node)) {
      replace(&node, *first);
      graph.erase(&node);
    }
  }
  return before - graph.size();
}

}  // namespace exporters
