#include "exporters/onnx/optimize/passes.h"

#include <algorithm>

namespace exporters::onnx {
namespace {

using Perm = std::vector<int64_t>;

Perm composed(const Perm& inner, const Perm& outer) {
  Perm whole;
  for (const int64_t axis : outer) {
    whole.push_back(inner.at(static_cast<size_t>(axis)));
  }
  return whole;
}

bool is_identity(const Perm& perm) {
  return std::is_sorted(perm.begin(), perm.end());  // a permutation in order is the identity
}

class TransposeMerger {
 public:
  explicit TransposeMerger(GraphEditor& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    for (OnnxNode* node : graph_.nodes()) {
      const bool is_transpose = !graph_.is_erased(node) && node->domain.empty() && node->op_type == "Transpose";
      if (is_transpose && (merge(*node) || pull_up(*node))) {
        changed_.push_back(node->name);
      }
    }
    return std::move(changed_);
  }

 private:
  // Transpose of a Transpose.
  bool merge(OnnxNode& node) {
    OnnxNode* inner = graph_.producer(node.inputs[0], "Transpose");
    const Perm outer_perm = ints_attribute(node, "perm");
    const Perm inner_perm = inner == nullptr ? Perm() : ints_attribute(*inner, "perm");
    if (outer_perm.empty() || inner_perm.size() != outer_perm.size()) {
      return false;
    }
    const Perm whole = composed(inner_perm, outer_perm);
    if (is_identity(whole) && graph_.replace(node.outputs[0], inner->inputs[0])) {
      graph_.erase_unused(node);
      return true;
    }
    graph_.set_input(node, 0, inner->inputs[0]);
    set_attribute(node, "perm", whole);
    graph_.erase_unused(*inner);
    return true;
  }

  // Elementwise operators between two Transposes: the second moves above them, where it meets the first. The walk goes
  // along values that nobody else takes, so that all walks together are linear.
  bool pull_up(OnnxNode& node) {
    const Perm perm = ints_attribute(node, "perm");
    std::vector<OnnxNode*> chain;
    std::string value = node.inputs[0];
    while (graph_.has_one_use(value)) {
      OnnxNode* maker = graph_.producer(value);
      if (maker == nullptr || !(is_unary_elementwise(*maker) || is_binary_elementwise(*maker))) {
        return false;
      }
      chain.push_back(maker);
      const auto next = way_up(*maker);
      if (!next) {
        return false;
      }
      value = *next;
      OnnxNode* first = graph_.producer(value, "Transpose");
      if (first != nullptr) {
        const Perm before = ints_attribute(*first, "perm");
        return before.size() == perm.size() && is_identity(composed(before, perm)) && rewrite(node, chain, before);
      }
    }
    return false;
  }

  // The operand that holds the elements: the one that is no number, or either where both are Transposes.
  std::optional<std::string> way_up(const OnnxNode& node) {
    if (node.inputs.size() == 1) {
      return node.inputs[0];
    }
    const bool first_is_number = graph_.facts(node.inputs[0]).rank() == 0u;
    const bool second_is_number = graph_.facts(node.inputs[1]).rank() == 0u;
    if (first_is_number != second_is_number) {
      return node.inputs[first_is_number ? 1 : 0];
    }
    return graph_.producer(node.inputs[0], "Transpose") != nullptr ? std::optional(node.inputs[0]) : std::nullopt;
  }

  // Every operand of the last node of the chain is a number or the same Transpose of something.
  bool rewrite(OnnxNode& node, const std::vector<OnnxNode*>& chain, const Perm& before) {
    OnnxNode& top = *chain.back();
    std::vector<std::string> inputs = top.inputs;
    for (std::string& input : inputs) {
      OnnxNode* transpose = graph_.producer(input, "Transpose");
      if (transpose != nullptr && ints_attribute(*transpose, "perm") == before) {
        input = transpose->inputs[0];
      } else if (graph_.facts(input).rank() != 0u) {
        return false;
      }
    }
    const std::string bottom = chain.front()->outputs[0];
    const std::vector<std::string> former = top.inputs;
    graph_.set_inputs(top, std::move(inputs));
    for (OnnxNode* each : chain) {
      permute_facts(*each, ints_attribute(node, "perm"));
    }
    if (!graph_.replace(node.outputs[0], bottom)) {
      // The Transpose stays, over nothing to undo: as an Identity it is harmless.
      node.op_type = "Identity";
      node.attributes.clear();
    } else {
      graph_.erase_unused(node);
    }
    for (const std::string& input : former) {
      if (OnnxNode* maker = graph_.producer(input)) {
        graph_.erase_unused(*maker);
      }
    }
    return true;
  }

  void permute_facts(const OnnxNode& node, const Perm& perm) {
    ValueFacts facts = graph_.facts(node.outputs[0]);
    if (facts.dims && facts.dims->size() == perm.size()) {
      std::vector<OnnxDim> dims;
      for (const int64_t axis : perm) {
        dims.push_back(facts.dims->at(static_cast<size_t>(axis)));
      }
      facts.dims = std::move(dims);
    } else {
      facts.dims.reset();
    }
    graph_.declare(node.outputs[0], std::move(facts));
  }

  GraphEditor& graph_;
  std::vector<std::string> changed_;
};

}  // namespace

std::vector<std::string> merge_transposes(GraphEditor& graph) { return TransposeMerger(graph).run(); }

}  // namespace exporters::onnx
