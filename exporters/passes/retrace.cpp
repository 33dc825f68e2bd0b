#include "exporters/passes/retrace.h"

#include "exporters/fake/fake_tensor.h"
#include "exporters/graph/higher_order.h"
#include "exporters/graph/op_name.h"
#include "exporters/graph/print.h"
#include "exporters/graph/sym_op.h"
#include "exporters/interpreter/ivalue.h"
#include "exporters/passes/clone.h"
#include "exporters/passes/functionalize.h"
#include "exporters/passes/op_facts.h"
#include "exporters/passes/replay_arguments.h"
#include "exporters/passes/replay_symbols.h"
#include "exporters/passes/size_ops.h"
#include "exporters/support/error.h"
#include "exporters/symbolic/sym_node.h"
#include "exporters/trace/recorder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>

namespace exporters {
namespace {

using torch::jit::Stack;

constexpr int kDeepestDecomposition = 64;

// Records op calls, those of decompositions in place of the ops that the table takes apart.
class Decomposer : public Recorder {
 public:
  Decomposer(ExportedProgram& program, std::shared_ptr<ShapeEnv> env, const DecompositionTable& table)
      : Recorder(program, std::move(env)), graph_(*program.graph), table_(table) {}

  using Recorder::numbers;
  using Recorder::remember;

  void handle(const c10::OperatorHandle& op, Stack& stack) override {
    if (runs_for_real(op, stack)) {
      Recorder::handle(op, stack);
    } else {
      decompose(op, stack, {});
    }
  }

  /// `name`: of the node, if the op stays whole.
  void decompose(const c10::OperatorHandle& op, Stack& stack, const std::string& name) {
    const std::string target = target_from_op(op.operator_name());
    undefined_to_none(op, stack);
    if (!table_.decomposes(target)) {
      name_next(name);
      record_call(op, stack);
      return;
    }
    const OpScope scope(target);
    const Decomposition* decomposition = table_.find(target);
    if (decomposition != nullptr && !*decomposition) {
      run_patch(op, stack);
      return;
    }
    inside(target, [&] {
      if (decomposition == nullptr) {
        op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
      } else {
        apply(*decomposition, op, stack);
      }
    });
  }

 protected:
  Argument lifted(const at::Tensor& real) override {
    return real.dim() == 0 && real.unsafeGetTensorImpl()->is_wrapped_number() ? number(real) : value_of(real);
  }

  // A single number is no constant of the program but a call that makes it.
  Value* lift_constant(const at::Tensor& tensor) override {
    if (tensor.dim() != 0) {
      return Recorder::lift_constant(tensor);
    }
    Node* node = graph_.call("aten.full.default", {Argument::List{}, number(tensor)},
                             {{"dtype", tensor.scalar_type()}, {"device", tensor.device()}});
    Value* value = graph_.add_output(node);
    value->meta() = meta_of(tensor);
    return value;
  }

 private:
  // Kernels pass on an absent tensor as one that is not defined.
  static void undefined_to_none(const c10::OperatorHandle& op, Stack& stack) {
    for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i) {
      if (stack[i].isTensor() && !stack[i].toTensor().defined()) {
        stack[i] = c10::IValue();
      }
    }
  }

  static Argument number(const at::Tensor& tensor) {
    const at::Scalar scalar = tensor.item();
    if (scalar.isBoolean()) {
      return scalar.toBool();
    }
    if (scalar.isIntegral(false)) {
      return scalar.toLong();
    }
    return scalar.isComplex() ? Argument(scalar.toComplexDouble()) : Argument(scalar.toDouble());
  }

  template <typename Function>
  void inside(const std::string& target, Function&& function) {
    if (++depth_ > kDeepestDecomposition) {
      throw Error("The decomposition of " + target + " does not end: it calls the op itself", current_place().str());
    }
    try {
      const Scope scope(*this);
      function();
    } catch (const c10::Error& error) {
      throw Error("The decomposition of " + target + " failed: " + error.what_without_backtrace(),
                  current_place().str(), "Keep the op whole, or add another decomposition to the table.");
    }
    --depth_;
  }

  // An empty decomposition (retrace.h): what the patch in force does instead of the op.
  void run_patch(const c10::OperatorHandle& op, Stack& stack) {
    detail::OpReplacement* replacement = active_replacement(op);
    ensure(replacement != nullptr, "No patch of {} is in force", c10::toString(op.operator_name()));
    run_replacement(*replacement, stack);
  }

  void apply(const Decomposition& decomposition, const c10::OperatorHandle& op, Stack& stack) {
    const std::vector<c10::IValue> arguments = torch::jit::pop(stack, op.schema().arguments().size());
    const Results results = decomposition(DecompositionCall(op, arguments, env()));
    ensure(results.size() == op.schema().returns().size(), "The decomposition of {} gives {} results, not {}",
           c10::toString(op.operator_name()), results.size(), op.schema().returns().size());
    stack.insert(stack.end(), results.begin(), results.end());
  }

  Graph& graph_;
  const DecompositionTable& table_;
  int depth_ = 0;
};

bool is_number(const c10::IValue& value) { return value.isInt() || value.isSymInt(); }

class Retrace {
 public:
  Retrace(const ExportedProgram& from, const DecompositionTable& table)
      : from_(from),
        table_(table),
        to_(without_graph(from)),
        env_(std::make_shared<ShapeEnv>()),
        symbols_(from, env_),
        recorder_(to_, env_, table) {}

  ExportedProgram run() && {
    const at::NoGradGuard no_grad;
    add_placeholders();
    for (const Node& node : *from_.graph) {
      if (!node.is_placeholder() && !node.is_output()) {
        replay(node);
      }
    }
    add_outputs();
    recorder_.settle();
    take_facts();
    return std::move(to_);
  }

 private:
  static ExportedProgram without_graph(const ExportedProgram& program) {
    ExportedProgram result = program;
    result.graph = std::make_shared<Graph>();
    result.signature = {};
    return result;
  }

  // ── Placeholders and outputs ──

  void add_placeholders() {
    const std::vector<Value*> placeholders = from_.graph->placeholders();
    for (size_t i = 0; i < placeholders.size(); ++i) {
      values_.emplace(placeholders[i], recorder_.add_placeholder(from_.signature.inputs[i], *placeholders[i]));
      Node* copy = to_.graph->placeholders().back()->node();
      copy_place(*placeholders[i]->node(), *copy);
      if (!placeholders[i]->is_tensor() && placeholders[i]->kind() != Value::Kind::kSymInt) {
        copied_.emplace(placeholders[i], copy->output());
      }
    }
  }

  void add_outputs() {
    std::vector<Argument> outputs;
    for (OutputSpec spec : from_.signature.outputs) {
      spec.argument = mapped(spec.argument);
      outputs.push_back(spec.argument);
      to_.signature.outputs.push_back(std::move(spec));
    }
    to_.graph->set_outputs(std::move(outputs));
  }

  void take_facts() {
    for (const auto& [symbol, fresh] : symbols_.known()) {
      if (env_->simplify(fresh) != fresh) {
        throw Error("Taking the program apart would make its size " + symbol.name() + " " + env_->simplify(fresh).str(),
                    facts_place(), "Keep the op whole that does it.");
      }
    }
    to_.range_constraints = env_->range_constraints();
    add_inner(inner_ranges_, to_.range_constraints);
    to_.guards = env_->guards();
  }

  std::string facts_place() const { return env_->guards().empty() ? std::string() : env_->guards().back().place.str(); }

  // ── Calls ──

  void replay(const Node& node) {
    const ModuleScope module(node.place().module_path, node.place().module_class, SourceLocation());
    Node* before = to_.graph->output_node()->prev();
    try {
      if (is_higher_order_target(node.target())) {
        copy_whole(node);
      } else if (is_size_only(node)) {
        const Expr expected = symbols_.renamed(node.output()->sym());
        if (const std::optional<Expr> computed = computed_size(node)) {
          require_size(node.output()->name(), *computed, expected);
        }
        values_.emplace(node.output(), to_sym_int(expected, env_));
      } else if (!is_dispatcher_target(node.target()) || gives_number_of_data(node) || takes_copied(node)) {
        copy_whole(node);
      } else {
        call(node);
      }
    } catch (const Error& error) {
      throw error.with_context(node.describe());
    }
    for (Node* made = before == nullptr ? to_.graph->first() : before->next(); !made->is_output();
         made = made->next()) {
      if (!made->is_placeholder()) {
        copy_place(node, *made);
      }
    }
  }

  static void copy_place(const Node& from, Node& to) {
    to.place() = from.place();
    to.module_stack() = from.module_stack();
    to.metadata() = from.metadata();
  }

  // An integer that follows from sizes: computed anew where it is taken.
  bool is_size_only(const Node& node) const {
    const bool is_number = node.outputs().size() == 1 && node.output()->kind() == Value::Kind::kSymInt;
    if (!is_number || (is_dispatcher_target(node.target()) && !node.target().starts_with("aten.sym_"))) {
      return false;
    }
    return symbols_.knows(node.output()->sym());
  }

  // What such a node gives, where its operands are sizes themselves.
  std::optional<Expr> computed_size(const Node& node) const {
    if (node.is_call("aten.sym_size.int")) {
      const std::vector<Expr>& sizes = meta_of(values_.at(node.arg(0).value()).toTensor()).sizes;
      const auto* axis = node.arg(1).get_if<int64_t>();
      return axis == nullptr ? std::nullopt : std::optional(sizes.at(wrap_dim(*axis, sizes.size())));
    }
    const std::optional<SymOpInfo> op = find_sym_op(node.target());
    if (!op) {
      return std::nullopt;
    }
    std::vector<Expr> operands;
    for (const Argument& argument : node.args()) {
      const auto* integer = argument.get_if<int64_t>();
      const bool is_size = argument.is_value() && argument.value()->kind() == Value::Kind::kSymInt &&
                           !copied_.contains(argument.value());
      if (integer == nullptr && !is_size) {
        return std::nullopt;
      }
      operands.push_back(integer != nullptr ? Expr(*integer) : to_expr(values_.at(argument.value())));
    }
    return sym_op_on_sizes(*op, operands);
  }

  void require_size(const std::string& name, const Expr& computed, const Expr& expected) const {
    ensure(symbols_.agree(computed, expected), "The number '{}' is {}, in the program it is {}", name, computed.str(),
           expected.str());
  }

  // A float or a condition that is read from a tensor: a trace has none of those.
  static bool gives_number_of_data(const Node& node) {
    const bool is_read = node.is_call("aten.item.default") || node.is_call("aten._local_scalar_dense.default");
    return is_read && node.outputs().size() == 1 && node.output()->kind() != Value::Kind::kSymInt;
  }

  // Floats and conditions over sizes are no expressions that calls can be asked with, and numbers that depend on sizes
  // cannot stand for tensors in a call.
  bool takes_copied(const Node& node) const {
    const c10::FunctionSchema& schema = lookup_operator(node.target()).schema();
    const std::vector<const Argument*> bound = bind_arguments(node, schema);
    for (size_t i = 0; i < bound.size(); ++i) {
      bool copied = false;
      if (bound[i] != nullptr) {
        bound[i]->for_each_value([&](const Value* value) { copied = copied || copied_.contains(value); });
      }
      const bool is_tensor = unwrap_optional(*schema.arguments()[i].real_type()).kind() == c10::TypeKind::TensorType;
      if (copied || (bound[i] != nullptr && is_tensor && bound[i]->is_value() &&
                     bound[i]->value()->kind() == Value::Kind::kSymInt)) {
        return true;
      }
    }
    return false;
  }

  void call(const Node& node) {
    const c10::OperatorHandle op = lookup_operator(view_may_copy(node) ? "aten.reshape.default" : node.target());
    Stack stack =
        replay_arguments(node, op, [this](const Value* value) -> const c10::IValue& { return values_.at(value); });
    require_same_storage(node, stack);
    recorder_.decompose(op, stack, node.name());
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      take_result(*node.output(i), stack.at(i));
    }
  }

  // A view of a tensor whose strides a decomposition changed.
  bool view_may_copy(const Node& node) const {
    if (node.target() != "aten.view.default" || node.arg_count() == 0 || !node.arg(0).is_value()) {
      return false;
    }
    const Value* viewed = node.arg(0).value();
    return meta_of(values_.at(viewed).toTensor()).strides != symbols_.renamed(viewed->meta()).strides;
  }

  void require_same_storage(const Node& node, const Stack& stack) const {
    if (node.target() != "aten.as_strided.default") {
      return;
    }
    const TensorMeta now = meta_of(stack[0].toTensor());
    const TensorMeta then = symbols_.renamed(node.arg(0).value()->meta());
    ensure(now.strides == then.strides && now.storage_offset == then.storage_offset,
           "It views memory that a decomposition lays out in another way");
  }

  void take_result(const Value& original, const c10::IValue& result) {
    switch (original.kind()) {
      case Value::Kind::kTensor:
        return take_tensor(original, result.toTensor());
      case Value::Kind::kTensorList: {
        const std::vector<at::Tensor> tensors = result.toTensorVector();
        ensure(tensors.size() == original.elements().size(), "The op gives {} tensors, the program has {}",
               tensors.size(), original.elements().size());
        for (size_t i = 0; i < tensors.size(); ++i) {
          take_tensor(*original.elements()[i], tensors[i]);
        }
        values_.emplace(&original, result);
        return;
      }
      case Value::Kind::kSymInt: {
        const Expr fresh =
            result.isScalar() && !result.isInt() ? to_expr(result.toScalar().toSymInt()) : to_expr(result);
        symbols_.learn(original.sym(), fresh);
        require_size(original.name(), fresh, symbols_.renamed(original.sym()));
        values_.emplace(&original, to_sym_int(fresh, env_));
        return;
      }
      default:
        values_.emplace(&original, result);
    }
  }

  void take_tensor(const Value& original, const at::Tensor& tensor) {
    ensure(tensor.defined(), "The result '{}' is missing", original.name());
    const TensorMeta meta = meta_of(tensor);
    ensure(meta.dtype == original.meta().dtype, "The result '{}' is {}, in the program it is {}", original.name(),
           c10::toString(meta.dtype), c10::toString(original.meta().dtype));
    ensure(meta.dim() == original.meta().dim(), "The result '{}' has {} axes, in the program it has {}",
           original.name(), meta.dim(), original.meta().dim());
    for (int64_t axis = 0; axis < meta.dim(); ++axis) {
      symbols_.learn(original.meta().sizes[axis], meta.sizes[axis]);
      const Expr expected = symbols_.renamed(original.meta().sizes[axis]);
      ensure(symbols_.agree(meta.sizes[axis], expected),
             "Axis {} of the result '{}' is {}, in the program it is {}", axis, original.name(), meta.sizes[axis].str(),
             expected.str());
    }
    values_.emplace(&original, tensor);
  }

  // ── Nodes that are copied as they are ──

  Argument mapped(const Argument& argument) {
    if (const auto* value = argument.get_if<Value*>()) {
      return mapped(**value);
    }
    if (const auto* items = argument.get_if<Argument::List>()) {
      Argument::List list;
      for (const Argument& item : *items) {
        list.push_back(mapped(item));
      }
      return list;
    }
    if (const auto* subgraph = argument.get_if<GraphArgument>()) {
      return GraphArgument{subgraph->name, taken_apart(*subgraph)};
    }
    return argument;
  }

  Argument mapped(const Value& value) {
    if (const auto copied = copied_.find(&value); copied != copied_.end()) {
      return copied->second;
    }
    const c10::IValue& known = values_.at(&value);
    if (known.isTensor()) {
      return recorder_.value_of(known.toTensor());
    }
    if (is_number(known)) {
      return recorder_.numbers().argument(to_expr(known));
    }
    Argument::List list;
    for (const at::Tensor& tensor : known.toTensorVector()) {
      list.emplace_back(recorder_.value_of(tensor));
    }
    return list;
  }

  void copy_whole(const Node& node) {
    std::vector<Argument> args;
    for (const Argument& argument : node.args()) {
      args.push_back(mapped(argument));
    }
    std::vector<std::pair<std::string, Argument>> kwargs;
    for (const auto& [name, argument] : node.kwargs()) {
      kwargs.emplace_back(name, mapped(argument));
    }
    // `item` consists of this one call.
    const std::string target = node.is_call("aten.item.default") ? "aten._local_scalar_dense.default" : node.target();
    Node* copy = to_.graph->call(target, std::move(args), std::move(kwargs), node.name());
    for (const Value* output : node.outputs()) {
      Value* fresh = to_.graph->add_output(copy, output->kind());
      copied_result(*output, *fresh);
      for (const Value* element : output->elements()) {
        copied_result(*element, *to_.graph->add_element(fresh));
      }
    }
    if (node.is_call("higher_order.cond") || node.is_call("higher_order.while_loop")) {
      require_flow(*copy);
    }
  }

  // What goes into subgraphs, and what comes out, is what the program says of it.
  void require_flow(const Node& node) const {
    const HigherOrderCall call = read_higher_order(node);
    const bool is_loop = call.kind == HigherOrderCall::Kind::kWhile;
    const std::vector<Argument> passed(call.operands.begin() + (is_loop ? 0 : 1), call.operands.end());
    for (const GraphArgument* branch : call.branches) {
      const std::vector<Value*> placeholders = branch->graph->placeholders();
      for (size_t i = 0; i < passed.size(); ++i) {
        require_same(branch->name, passed[i], *placeholders[i]);
      }
      const bool gives_condition = is_loop && branch == call.branches.front();
      for (size_t i = 0; i < node.outputs().size() && !gives_condition; ++i) {
        require_same(branch->name, branch->graph->outputs()[i], *node.output(i));
      }
    }
  }

  // A size that depends on data may stand for any other.
  void require_same(const std::string& branch, const Argument& given, const Value& expected) const {
    if (!given.is_value() || !expected.is_tensor()) {
      return;
    }
    const Value& value = *given.value();
    ensure(value.is_tensor(), "The subgraph '{}' has the tensor '{}' where '{}' is a number", branch, expected.name(),
           value.name());
    const TensorMeta& meta = value.meta();
    const TensorMeta& said = expected.meta();
    bool same = meta.dtype == said.dtype && meta.dim() == said.dim();
    for (int64_t axis = 0; same && axis < meta.dim(); ++axis) {
      same = meta.sizes[axis].has_unbacked() || said.sizes[axis].has_unbacked() ||
             symbols_.agree(meta.sizes[axis], said.sizes[axis]);
    }
    ensure(same, "The subgraph '{}' has '{}' as {}, where '{}' is {}", branch, value.name(), to_text(meta),
           expected.name(), to_text(said));
  }

  void copied_result(const Value& original, Value& fresh) {
    if (original.is_tensor()) {
      std::for_each(original.meta().sizes.begin(), original.meta().sizes.end(),
                    [&](const Expr& size) { symbols_.declare_missing(size); });
      fresh.meta() = symbols_.renamed(original.meta());
      const at::Tensor fake = make_fake(fresh.meta(), env_);
      recorder_.remember(fake, &fresh);
      recorder_.numbers().add_source(&fresh);
      values_.emplace(&original, fake);
    } else if (original.kind() == Value::Kind::kSymInt) {
      symbols_.declare_missing(original.sym());
      fresh.sym() = symbols_.renamed(original.sym());
      if (const auto symbol = fresh.sym().as_symbol()) {
        recorder_.numbers().add_source(*symbol, &fresh);
      }
      values_.emplace(&original, to_sym_int(fresh.sym(), env_));
    } else {
      copied_.emplace(&original, &fresh);
    }
  }

  // A subgraph is a program without state. What its ops ask about sizes the whole program relies on.
  std::shared_ptr<Graph> taken_apart(const GraphArgument& subgraph) {
    ExportedProgram program = program_of(*subgraph.graph);
    program.range_constraints = env_->range_constraints();
    add_inner(from_.range_constraints, program.range_constraints);
    program.hints = from_.hints;
    ExportedProgram result = run_decompositions(program, table_);
    ensure(result.state.empty(), "The subgraph '{}' has a constant of its own, which it cannot carry", subgraph.name);
    for (const Guard& guard : result.guards) {
      env_->require(guard.condition);
    }
    add_inner(result.range_constraints, inner_ranges_);
    return result.graph;
  }

  // Symbols that only subgraphs may have, such as the integers that a loop carries.
  using Ranges = std::map<std::string, Range>;
  static void add_inner(const Ranges& from, Ranges& to) {
    std::copy_if(from.begin(), from.end(), std::inserter(to, to.end()),
                 [](const auto& each) { return Expr(Symbol(each.first)).has_unbacked(); });
  }

  const ExportedProgram& from_;
  const DecompositionTable& table_;
  ExportedProgram to_;
  std::shared_ptr<ShapeEnv> env_;
  ReplaySymbols symbols_;
  Decomposer recorder_;
  std::unordered_map<const Value*, c10::IValue> values_;  // what stands for a value in calls
  std::unordered_map<const Value*, Value*> copied_;       // values that calls cannot take
  std::map<std::string, Range> inner_ranges_;             // of symbols of subgraphs
};

// Training norms write where no schema says so: they are spelled out, and nothing else is, before the program is made
// functional.
void spell_out_hidden_writes(ExportedProgram& program, const DecompositionTable& table) {
  DecompositionTable norms(/*composites=*/false);
  bool any = false;
  for (const Node& node : *program.graph) {
    const Decomposition* decomposition = updates_statistics(node) ? table.find(node.target()) : nullptr;
    if (decomposition != nullptr) {
      norms.add(node.target(), *decomposition);
      any = true;
    }
  }
  if (any) {
    program = Retrace(program, norms).run();
  }
}

}  // namespace

ExportedProgram retrace(const ExportedProgram& program, const DecompositionTable& table) {
  return Retrace(program, table).run();
}

ExportedProgram functional_form(const ExportedProgram& program, const DecompositionTable& table) {
  ExportedProgram result = clone(program);
  spell_out_hidden_writes(result, table);
  functionalize(result);
  return result;
}

}  // namespace exporters
