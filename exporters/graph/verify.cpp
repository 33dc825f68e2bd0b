#include "exporters/graph/exported_program.h"
#include "exporters/graph/name_pool.h"
#include "exporters/graph/node_check.h"
#include "exporters/graph/schema_check.h"
#include "exporters/support/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace exporters {

/// One pass over a graph; a friend of it, since use counts are nobody else's business.
class GraphVerifier {
 public:
  explicit GraphVerifier(const Graph& graph) : graph_(graph) {}

  void run() {
    check_links();
    for (const Node& node : graph_) {
      check_node(node);
    }
    check_use_lists();
  }

 private:
  void check_links() const {
    size_t count = 0;
    bool calls_begun = false;
    const Node* previous = nullptr;
    for (const Node* node = graph_.head_; node != nullptr; node = node->next()) {
      ensure_at(*node, node->prev() == previous && !node->erased() && &node->graph() == &graph_,
                " is not linked into its graph");
      ensure_at(*node, !calls_begun || !node->is_placeholder(), " stands after calls; placeholders come first");
      ensure_at(*graph_.output_, node->is_output() == (node->next() == nullptr),
                " is not at the end of the graph, or something else is");
      calls_begun = calls_begun || !node->is_placeholder();
      previous = node;
      ++count;
    }
    ensure(count == graph_.size_, "A graph of {} nodes says that it has {}", count, graph_.size_);
  }

  void check_node(const Node& node) {
    check_inputs(node);
    if (!node.is_output()) {
      check_name(node.name(), node);
    }
    if (node.kind() == Node::Kind::kCall) {
      check_call(node);
      check_subgraphs(node);
    } else if (node.is_placeholder()) {
      ensure_at(node, node.outputs().size() == 1, " has {} outputs", node.outputs().size());
    }
    for (const Value* output : node.outputs()) {
      define(*output, node);
      for (const Value* element : output->elements()) {
        ensure_at(node, element->list() == output && element->is_tensor(), ": '{}' is no element of '{}'",
                  element->name(), output->name());
        define(*element, node);
      }
    }
  }

  void check_inputs(const Node& node) {
    for (const Value* value : node.inputs()) {
      ensure_at(node, value != nullptr, " takes a value that is not there");
      ensure_at(node, defined_.contains(value), " takes '{}' before it is defined", value->name());
      ++uses_[value][node.id()];
    }
  }

  static void check_subgraphs(const Node& node) {
    for (const Argument& argument : node.args()) {
      if (const auto* subgraph = argument.get_if<GraphArgument>(); subgraph != nullptr && subgraph->graph != nullptr) {
        try {
          verify(*subgraph->graph);
        } catch (const Error& error) {
          throw error.with_context(node.describe());
        }
      }
    }
  }

  void check_name(const std::string& name, const Node& node) {
    ensure_at(node, is_identifier(name), " has the name '{}', which is not an identifier", name);
    ensure_at(node, names_.insert(name).second, " has the name '{}', which something else has too", name);
  }

  void define(const Value& value, const Node& node) {
    ensure_at(node, value.node() == &node, " has an output '{}' of another node", value.name());
    if (&value != node.outputs().front() || value.name() != node.name()) {
      check_name(value.name(), node);
    }
    ensure_at(node, graph_.find(value.name()) == &value, ": '{}' is not what its graph finds under that name",
              value.name());
    if (value.is_tensor()) {
      check_meta(value, node);
    }
    defined_.insert(&value);
  }

  static void check_meta(const Value& value, const Node& node) {
    const TensorMeta& meta = value.meta();
    ensure_at(node, meta.dtype != c10::ScalarType::Undefined, ": '{}' has no dtype", value.name());
    ensure_at(node, meta.layout != c10::kStrided || meta.strides.size() == meta.sizes.size(),
              ": '{}' has {} sizes and {} strides", value.name(), meta.sizes.size(), meta.strides.size());
    for (const Expr& size : meta.sizes) {
      if (size.as_int().value_or(0) < 0) {
        fail_at(node, ": '{}' has a size of {}", value.name(), size.str());
      }
    }
  }

  void check_use_lists() const {
    for (const Value* value : defined_) {
      const auto used = uses_.find(value);
      const size_t count = used == uses_.end() ? 0 : used->second.size();
      bool same = value->users_.size() == count;
      for (auto it = value->users_.begin(); same && it != value->users_.end(); ++it) {
        const auto found = used->second.find(it->first);
        same = found != used->second.end() && found->second == it->second.second;
      }
      ensure_at(*value->node(), same, ": the use list of '{}' is not what the graph's nodes take", value->name());
    }
  }

  const Graph& graph_;
  std::unordered_set<const Value*> defined_;
  std::unordered_set<std::string> names_;
  std::unordered_map<const Value*, std::unordered_map<uint64_t, uint32_t>> uses_;
};

namespace {

using InputKind = InputSpec::Kind;
using OutputKind = OutputSpec::Kind;

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const ExportedProgram& program) : program_(program) {}

  void run() {
    ensure(program_.graph != nullptr, "The program has no graph");
    verify(*program_.graph);
    check_inputs();
    check_outputs();
    check_tree_specs();
    check_symbols();
  }

 private:
  void check_inputs() {
    const std::vector<Value*> placeholders = program_.graph->placeholders();
    const std::vector<InputSpec>& specs = program_.signature.inputs;
    ensure(specs.size() == placeholders.size(), "The signature has {} inputs, the graph has {} placeholders",
           specs.size(), placeholders.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      ensure(specs[i].name == placeholders[i]->name(), "Input {} of the signature is '{}', placeholder {} is '{}'", i,
             specs[i].name, i, placeholders[i]->name());
      check_input(specs[i], *placeholders[i]);
    }
  }

  void check_input(const InputSpec& spec, const Value& placeholder) {
    switch (spec.kind) {
      case InputKind::kUserInput:
        user_inputs_.insert(spec.name);
        ++input_leaves_;
        return;
      case InputKind::kConstantInput:
        ++input_leaves_;
        return;
      case InputKind::kParameter:
      case InputKind::kBuffer:
        mutable_targets_.insert(spec.target);
        return check_state(spec, placeholder);
      case InputKind::kTensorConstant:
        return check_state(spec, placeholder);
      case InputKind::kCustomObj:
      case InputKind::kToken:
        return;
    }
  }

  void check_state(const InputSpec& spec, const Value& placeholder) const {
    const auto found = program_.state.find(spec.target);
    ensure(found != program_.state.end(), "The placeholder '{}' stands for '{}', which is not in the program's state",
           spec.name, spec.target);
    const at::Tensor& tensor = found->second.tensor;
    ensure(tensor.defined() && placeholder.is_tensor(),
           "'{}' of the program's state and its placeholder '{}' have to "
           "be tensors",
           spec.target, spec.name);
    const TensorMeta& meta = placeholder.meta();
    ensure(meta.dtype == tensor.scalar_type(), "The placeholder '{}' is of another dtype ({}) than '{}' ({})",
           spec.name, c10::toString(meta.dtype), spec.target, c10::toString(tensor.scalar_type()));
    bool same = meta.dim() == tensor.dim();
    for (int64_t axis = 0; same && axis < meta.dim(); ++axis) {
      same = meta.sizes[axis].as_int().value_or(tensor.size(axis)) == tensor.size(axis);
    }
    ensure(same, "The placeholder '{}' is of another shape than '{}' ([{}])", spec.name, spec.target,
           fmt::join(tensor.sizes(), ", "));
  }

  void check_outputs() {
    const std::vector<OutputSpec>& specs = program_.signature.outputs;
    const std::vector<Argument>& outputs = program_.graph->outputs();
    ensure(specs.size() == outputs.size(), "The signature has {} outputs, the graph has {}", specs.size(),
           outputs.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      ensure(specs[i].argument == outputs[i], "Output {} of the signature is not the graph's", i);
      check_output(specs[i], i);
    }
  }

  void check_output(const OutputSpec& spec, size_t index) {
    switch (spec.kind) {
      case OutputKind::kUserOutput:
      case OutputKind::kLossOutput:
        ++output_leaves_;
        return;
      case OutputKind::kUserInputMutation:
        ensure(user_inputs_.contains(spec.target), "Output {} mutates '{}', which is no user input", index,
               spec.target);
        return;
      case OutputKind::kBufferMutation:
      case OutputKind::kParameterMutation:
        ensure(mutable_targets_.contains(spec.target), "Output {} mutates '{}', which is no buffer or parameter", index,
               spec.target);
        return;
      case OutputKind::kToken:
        return;
    }
  }

  void check_tree_specs() const {
    // A program that was built by hand may leave in_spec alone; out_spec alone may be a bare leaf.
    ensure(program_.in_spec.is_leaf() || program_.in_spec.leaf_count() == input_leaves_,
           "in_spec has {} leaves, the signature {} user inputs", program_.in_spec.leaf_count(), input_leaves_);
    ensure(program_.out_spec.leaf_count() == output_leaves_, "out_spec has {} leaves, the signature {} user outputs",
           program_.out_spec.leaf_count(), output_leaves_);
  }

  void check_symbols() const {
    for (const Node& node : *program_.graph) {
      for (const Value* output : node.outputs()) {
        check_symbols_of(*output, node);
        for (const Value* element : output->elements()) {
          check_symbols_of(*element, node);
        }
      }
    }
  }

  void check_symbols_of(const Value& value, const Node& node) const {
    auto check = [&](const Expr& expr) {
      if (expr.is_int()) {
        return;
      }
      for (const Symbol& symbol : expr.free_symbols()) {
        ensure_at(node, program_.range_constraints.contains(symbol.name()), ": '{}' depends on {}, which has no range",
                  value.name(), symbol.name());
      }
    };
    if (value.is_tensor()) {
      std::for_each(value.meta().sizes.begin(), value.meta().sizes.end(), check);
      std::for_each(value.meta().strides.begin(), value.meta().strides.end(), check);
      check(value.meta().storage_offset);
    } else if (value.kind() == Value::Kind::kSymInt) {
      check(value.sym());
    }
  }

  const ExportedProgram& program_;
  std::set<std::string> user_inputs_;
  std::set<std::string> mutable_targets_;
  size_t input_leaves_ = 0;
  size_t output_leaves_ = 0;
};

}  // namespace

void verify(const Graph& graph) { GraphVerifier(graph).run(); }

void verify(const ExportedProgram& program) { ProgramVerifier(program).run(); }

}  // namespace exporters
