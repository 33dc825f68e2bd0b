#include "exporters/passes/functionalize.h"

#include "exporters/graph/op_name.h"
#include "exporters/passes/dead_code.h"
#include "exporters/passes/emit.h"
#include "exporters/passes/inline_subgraphs.h"
#include "exporters/passes/inplace_ops.h"
#include "exporters/passes/op_facts.h"
#include "exporters/passes/view_ops.h"
#include "exporters/support/error.h"

#include <ATen/core/function_schema.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>

// Note [Storages and views]
// The pass walks the graph once, in order of execution, and keeps for each tensor value what memory it stands for: a
// storage, known by the value that first had it, or a view of another value. A write gives the storage a new version.
// A value is up to date when it was made at its storage's version; before a node takes one that is not, the view is
// taken again from the storage's current contents, and the node takes that one instead.

namespace exporters {
namespace {

struct Storage {
  Value* root = nullptr;     ///< the value that first had it
  Value* current = nullptr;  ///< its contents now, in the shape of the root
  uint64_t version = 0;
  const Node* unsure = nullptr;  ///< an op that may have given a value sharing this memory, or not
};

struct Tracked {
  Storage* storage = nullptr;
  Value* parent = nullptr;  ///< what it views; null for the root
  Node* view = nullptr;     ///< the call that takes the view
  size_t input = 0;         ///< which positional argument of the call is what it views
  Value* fresh = nullptr;   ///< the value as of `version`
  uint64_t version = 0;
};

// Begin and end of a tensor's elements in its storage.
std::pair<int64_t, int64_t> extent_in_storage(const at::Tensor& tensor) {
  int64_t elements = tensor.numel() == 0 ? 0 : 1;
  for (int64_t axis = 0; axis < tensor.dim() && elements > 0; ++axis) {
    elements += (tensor.size(axis) - 1) * tensor.stride(axis);
  }
  const auto size = static_cast<int64_t>(tensor.element_size());
  return {tensor.storage_offset() * size, (tensor.storage_offset() + elements) * size};
}

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  if (!a.has_storage() || !b.has_storage() || !a.is_alias_of(b)) {
    return false;
  }
  const auto [a_begin, a_end] = extent_in_storage(a);
  const auto [b_begin, b_end] = extent_in_storage(b);
  return a_begin < b_end && b_begin < a_end;
}

Value* same_output(const Value& value, const Node& copy) {
  if (value.list() != nullptr) {
    return copy.output(value.list()->output_index())->elements()[value.output_index()];
  }
  return copy.output(value.output_index());
}

class Functionalizer {
 public:
  explicit Functionalizer(ExportedProgram& program) : program_(program), graph_(*program.graph) {}

  void run() {
    for (Node& node : graph_) {
      if (!node.is_placeholder()) {
        visit(node);
      }
    }
    add_mutation_outputs();
    eliminate_dead_code(graph_);
  }

 private:
  // ── What memory a value stands for ──

  Tracked& tracked(Value* value) {
    const auto [entry, inserted] = tracked_.try_emplace(value);
    if (inserted) {
      Storage& storage = storages_.emplace_back();
      storage.root = storage.current = value;
      entry->second.storage = &storage;
      entry->second.fresh = value;
    }
    return entry->second;
  }

  void track_view(Value* value, Value* parent, Node* view, size_t input) {
    Storage* storage = tracked(parent).storage;
    tracked_[value] = {storage, parent, view, input, value, storage->version};
  }

  bool is_stale(Value* value) const {
    const auto entry = tracked_.find(value);
    return entry != tracked_.end() && entry->second.version != entry->second.storage->version;
  }

  // A chain of views is walked in a loop: programs from files may have long ones.
  Value* up_to_date(Value* value, const Node& reader) {
    if (!is_stale(value)) {
      const auto entry = tracked_.find(value);
      return entry == tracked_.end() ? value : entry->second.fresh;
    }
    std::vector<Value*> chain;
    for (Value* link = value; link != nullptr && is_stale(link); link = tracked_.at(link).parent) {
      chain.push_back(link);
    }
    for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
      refresh(*link, reader);
    }
    return tracked_.at(value).fresh;
  }

  void refresh(Value* value, const Node& reader) {
    Tracked& entry = tracked_.at(value);
    if (entry.version == entry.storage->version) {
      return;
    }
    if (entry.parent == nullptr) {
      entry.fresh = entry.storage->current;
      entry.version = entry.storage->version;
      return;
    }
    const Node* copy = view_again(entry, reader);
    // All views that the call gives: another piece of the same split need not be taken again.
    for (Value* output : entry.view->outputs()) {
      refresh_from(output, *copy);
      for (Value* element : output->elements()) {
        refresh_from(element, *copy);
      }
    }
  }

  void refresh_from(Value* value, const Node& copy) {
    const auto entry = tracked_.find(value);
    if (entry != tracked_.end()) {
      entry->second.fresh = same_output(*value, copy);
      entry->second.version = entry->second.storage->version;
    }
  }

  Node* view_again(const Tracked& entry, const Node& reader) {
    const Tracked& parent = tracked_.at(entry.parent);
    Node* copy = Emit(graph_, reader).copy(*entry.view, entry.view->arg(entry.input).value(), parent.fresh);
    const bool other_strides = parent.fresh->meta().strides != entry.parent->meta().strides;
    if (other_strides && copy->is_call("aten.view.default")) {
      copy->set_target("aten.reshape.default");
      copy->value()->meta() = contiguous_meta(copy->value()->meta());
    }
    return copy;
  }

  // ── The walk ──

  void visit(Node& node) {
    ensure_no_writes_inside(node);
    // What the node reads and views is asked in terms of the values that the program had, before they are replaced.
    std::optional<Mutation> mutation;
    std::vector<Value*> written;
    Value* viewed = nullptr;
    AliasInfo alias;
    if (mutates_inputs(node)) {
      mutation = mutation_of(node);
      written = written_tensors(node, *mutation);
      if (node.is_call("aten.set_.source_Tensor")) {
        return become_other(node, written[0]);
      }
    } else {
      alias = aliasing_of(node, sample_);
      viewed = alias.aliasing == Aliasing::kView ? viewed_value(node, alias) : nullptr;
      if (alias.aliasing == Aliasing::kUnsure) {
        mark_unsure(node);
      }
    }
    Graph::InsertGuard guard(graph_, &node);
    take_current_inputs(node);
    if (mutation) {
      write(node, *mutation, written);
    } else if (viewed != nullptr) {
      for (Value* output : node.outputs()) {
        track_outputs(output, viewed, &node, alias.input);
      }
    }
  }

  void ensure_no_writes_inside(const Node& node) const {
    if (is_higher_order_target(node.target()) && mutates_inputs(node)) {
      throw Error("A subgraph writes to its inputs, which cannot be made functional", node.describe());
    }
  }

  static Value* tensor_of(const Argument& argument) {
    const auto* value = argument.get_if<Value*>();
    return value != nullptr && (*value)->is_tensor() ? *value : nullptr;
  }

  static Value* viewed_value(const Node& node, const AliasInfo& alias) {
    ensure(alias.input < node.arg_count(), "{} takes the tensor that it views by keyword", node.describe());
    return tensor_of(node.arg(alias.input));
  }

  void track_outputs(Value* output, Value* parent, Node* view, size_t input) {
    if (output->is_tensor()) {
      track_view(output, parent, view, input);
    }
    for (Value* element : output->elements()) {
      track_view(element, parent, view, input);
    }
  }

  void mark_unsure(const Node& node) {
    for (Value* input : node.inputs()) {
      if (input->is_tensor()) {
        tracked(input).storage->unsure = &node;
      }
    }
    for (Value* output : node.outputs()) {
      if (output->is_tensor()) {
        tracked(output).storage->unsure = &node;
      }
      for (Value* element : output->elements()) {
        tracked(element).storage->unsure = &node;
      }
    }
  }

  void take_current_inputs(Node& node) {
    std::unordered_set<Value*> seen;
    for (Value* input : node.inputs()) {
      if (!seen.insert(input).second) {
        continue;
      }
      if (input->kind() == Value::Kind::kTensorList) {
        spread_stale_list(node, input);
      } else if (Value* current = up_to_date(input, node); current != input) {
        node.replace_input(input, current);
      }
    }
  }

  // A list that is taken whole is written out once a piece of it is out of date.
  void spread_stale_list(Node& node, Value* list) {
    const std::vector<Value*>& elements = list->elements();
    if (std::none_of(elements.begin(), elements.end(), [&](Value* element) { return is_stale(element); })) {
      return;
    }
    Argument::List items;
    for (Value* element : elements) {
      items.emplace_back(up_to_date(element, node));
    }
    auto spread = [&](const Argument& argument) {
      const auto* value = argument.get_if<Value*>();
      return value != nullptr && *value == list ? Argument(items) : argument;
    };
    std::vector<Argument> args;
    std::transform(node.args().begin(), node.args().end(), std::back_inserter(args), spread);
    node.set_args(std::move(args));
  }

  // ── Writes ──

  void write(Node& node, Mutation mutation, const std::vector<Value*>& targets) {
    switch (mutation) {
      case Mutation::kNothing:
        return finish(node, targets);
      case Mutation::kMetadata:
        return become_view(node, targets[0], functional_target(node));
      case Mutation::kMemory:
        return exchange_memory(node, targets[0]);
      default:
        return write_values(node, mutation, targets);
    }
  }

  void write_values(Node& node, Mutation mutation, const std::vector<Value*>& targets) {
    for (Value* target : targets) {
      check_writable(node, *tracked(target).storage);
    }
    Emit emit(graph_, node);
    const bool owns_memory = !targets.empty() && tracked(targets[0]).parent == nullptr;
    const std::vector<Value*> contents = functional_results(emit, node, mutation, owns_memory, sample_);
    const auto is_resized = [&](size_t i) {
      return mutation == Mutation::kOutputs && contents[i]->meta().sizes != targets[i]->meta().sizes;
    };
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!is_resized(i)) {
        write_back(emit, node, targets[i], contents[i]);
      }
    }
    finish(node, targets);
    for (size_t i = 0; i < targets.size(); ++i) {
      if (is_resized(i)) {
        take_place(node, targets[i], contents[i]);
      }
    }
  }

  // The results of the op are the tensors that it wrote to.
  void finish(Node& node, const std::vector<Value*>& targets) {
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      node.output(i)->replace_all_uses_with(targets[i]);
    }
    graph_.erase(&node);
  }

  void check_writable(const Node& node, const Storage& storage) const {
    if (storage.unsure != nullptr) {
      throw Error("The op writes to memory that may be shared with the result of " + storage.unsure->describe(),
                  node.describe(), "Clone one of the two before writing.");
    }
    const InputSpec* input =
        storage.root->node()->is_placeholder() ? program_.signature.find_input(storage.root->name()) : nullptr;
    if (input != nullptr && input->kind == InputSpec::Kind::kTensorConstant) {
      throw Error("The op writes to the constant '" + input->target + "'", node.describe(),
                  "Make it a buffer of the module, or clone it before writing.");
    }
    if (input != nullptr && program_.state.contains(input->target)) {
      refuse_shared_state(node, *input);
    }
  }

  // What is written to one of two buffers that share memory would have to be seen in the other.
  void refuse_shared_state(const Node& node, const InputSpec& written) const {
    const at::Tensor& tensor = program_.state.at(written.target).tensor;
    for (const InputSpec& other : program_.signature.inputs) {
      const auto state = program_.state.find(other.target);
      const Value* placeholder = graph_.find(other.name);
      if (other.name == written.name || state == program_.state.end() || placeholder == nullptr ||
          !placeholder->has_users() || !share_memory(tensor, state->second.tensor)) {
        continue;
      }
      throw Error(fmt::format("The op writes to '{}', with which '{}' shares its memory", written.target, other.target),
                  node.describe(), "Keep one of them in the module, and take views of it in the forward.");
    }
  }

  // From the written view up to the storage, each viewed tensor is rebuilt around what was written.
  void write_back(Emit& emit, const Node& node, Value* target, Value* contents) {
    std::vector<std::pair<Value*, Value*>> rebuilt = {{target, contents}};
    Value* view = target;
    while (Value* parent = tracked_.at(view).parent) {
      Value* base = up_to_date(parent, node);
      contents = write_through(emit, *tracked_.at(view).view, *view, base, contents);
      rebuilt.emplace_back(parent, contents);
      view = parent;
    }
    Storage& storage = *tracked_.at(view).storage;
    storage.current = contents;
    ++storage.version;
    for (const auto& [value, current] : rebuilt) {
      Tracked& entry = tracked_.at(value);
      entry.fresh = current;
      entry.version = storage.version;
    }
  }

  // x.unsqueeze_(0): what reads x from here on reads the view.
  void become_view(Node& node, Value* target, std::string view) {
    refuse_input(node, target, "changes the shape");
    node.set_target(std::move(view));
    rename_after(node, target, node.value());
    track_view(node.value(), target, &node, 0);
  }

  void refuse_input(const Node& node, const Value* target, std::string_view what) const {
    if (target->node()->is_placeholder()) {
      throw Error(fmt::format("The op {} of the program's input '{}' in place", what, target->name()), node.describe(),
                  "Use the op without the underscore.");
    }
  }

  // What reads one value from here on reads the other.
  static void rename_after(Node& node, Value* from, Value* to) {
    for (Node* later = node.next(); later != nullptr; later = later->next()) {
      later->replace_input(from, to);
    }
  }

  // From here on the tensor is another one. Views of what it was would see neither.
  void take_place(Node& node, Value* target, Value* contents) {
    refuse_input(node, target, "changes the size");
    const Storage* storage = tracked(target).storage;
    const bool has_views = std::any_of(tracked_.begin(), tracked_.end(), [&](const auto& entry) {
      return entry.second.storage == storage && entry.second.parent != nullptr;
    });
    if (has_views) {
      throw Error("The op changes the size of a tensor that has views", node.describe(),
                  "Give it a tensor of the right size.");
    }
    rename_after(node, target, contents);
  }

  // x.set_(y): what reads x from here on reads y.
  void become_other(Node& node, Value* target) {
    refuse_input(node, target, "changes the memory");
    Value* source = node.arg_count() > 1 ? tensor_of(node.arg(1)) : nullptr;
    ensure(source != nullptr, "{} does not take the memory of a tensor of the program", node.describe());
    rename_after(node, target, source);
    finish(node, {source});
  }

  void exchange_memory(Node& node, Value* target) {
    refuse_input(node, target, "changes the memory");
    if (!node.is_call("aten.resize_.default") && !node.is_call("aten.resize_as_.default")) {
      throw Error("The op gives the tensor other memory, which cannot be made functional", node.describe(),
                  "Replace it in the model, or with a patch of that op.");
    }
    resize(node, target);
  }

  // Less memory than before is a view of it. More of it begins with what was there, as `aten.resize` does.
  void resize(Node& node, Value* target) {
    const TensorMeta old = tracked(target).fresh->meta();
    const TensorMeta meta = node.value()->meta();
    const bool in_rows = old.strides == contiguous_meta(old).strides && meta.strides == contiguous_meta(meta).strides;
    const auto old_count = old.numel().as_int();
    const auto count = meta.numel().as_int();
    const Argument sizes = node.is_call("aten.resize_.default") ? node.arg(1) : sizes_of(node, node.arg(1).value());
    if (in_rows && old.numel() == meta.numel()) {
      node.set_kwargs({});
      node.set_args({node.arg(0), sizes});
      return become_view(node, target, "aten.view.default");
    }
    if (in_rows && old_count && count && *count < *old_count) {
      Argument::List strides;
      for (const Expr& stride : meta.strides) {
        strides.emplace_back(*stride.as_int());
      }
      node.set_kwargs({});
      node.set_args({node.arg(0), sizes, std::move(strides)});
      return become_view(node, target, "aten.as_strided.default");
    }
    if (in_rows && old_count && count) {
      Value* grown = Emit(graph_, node).call("aten.resize.default", {node.arg(0), sizes}, meta);
      take_place(node, target, grown);
      return finish(node, {grown});
    }
    throw Error("The op resizes a tensor by sizes that are not known, or whose elements do not lie in rows",
                node.describe(), "Make a new tensor, or take a slice.");
  }

  Argument sizes_of(const Node& node, Value* tensor) { return Emit(graph_, node).sizes(tensor); }

  // ── The signature ──

  void add_mutation_outputs() {
    std::vector<OutputSpec> specs;
    const std::vector<Value*> placeholders = graph_.placeholders();
    for (size_t i = 0; i < placeholders.size(); ++i) {
      const auto entry = tracked_.find(placeholders[i]);
      if (entry != tracked_.end() && entry->second.storage->version > 0) {
        specs.push_back(mutation_spec(program_.signature.inputs[i], entry->second.storage->current));
      }
    }
    const std::vector<Argument>& outputs = graph_.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      OutputSpec spec = program_.signature.outputs[i];
      spec.argument = outputs[i];
      specs.push_back(std::move(spec));
    }
    std::vector<Argument> arguments;
    for (const OutputSpec& spec : specs) {
      arguments.push_back(spec.argument);
    }
    graph_.set_outputs(std::move(arguments));
    program_.signature.outputs = std::move(specs);
  }

  OutputSpec mutation_spec(const InputSpec& input, Value* contents) const {
    using Kind = OutputSpec::Kind;
    const Kind kind = input.kind == InputSpec::Kind::kParameter ? Kind::kParameterMutation
                      : input.kind == InputSpec::Kind::kBuffer  ? Kind::kBufferMutation
                                                                : Kind::kUserInputMutation;
    const std::string& target = kind == Kind::kUserInputMutation ? input.name : input.target;
    for (const OutputSpec& known : program_.signature.outputs) {
      ensure(known.kind != kind || known.target != target,
             "'{}' is written to in place although the program returns its new value already", target);
    }
    return {kind, contents, target};
  }

  int64_t sample_size(const Expr& expr) const {
    return expr.evaluate([&](Symbol symbol) {
      const auto hint = program_.hints.find(symbol.name());
      // Without a sample: a size that few others are equal to.
      return hint != program_.hints.end() ? hint->second : static_cast<int64_t>(2 + symbol.name().size() * 5);
    });
  }

  ExportedProgram& program_;
  Graph& graph_;
  SampleSize sample_ = [this](const Expr& expr) { return sample_size(expr); };
  std::deque<Storage> storages_;
  std::unordered_map<Value*, Tracked> tracked_;
};

}  // namespace

void functionalize(ExportedProgram& program) {
  inline_subgraphs(*program.graph);
  if (!is_functional(*program.graph)) {
    Functionalizer(program).run();
  }
}

}  // namespace exporters
