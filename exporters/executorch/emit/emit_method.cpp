#include "exporters/executorch/emit/emit_method.h"

#include "exporters/executorch/edge/kernels.h"
#include "exporters/executorch/emit/value_table.h"
#include "exporters/executorch/emit/value_uses.h"
#include "exporters/graph/node_check.h"
#include "exporters/graph/op_name.h"

#include <algorithm>
#include <unordered_set>

namespace exporters::executorch {
namespace {

using InputKind = InputSpec::Kind;
using OutputKind = OutputSpec::Kind;

constexpr std::string_view kView = "aten.view_copy.default";

bool is_user_output(const OutputSpec& spec) {
  return spec.kind == OutputKind::kUserOutput || spec.kind == OutputKind::kLossOutput;
}

class MethodEmitter {
 public:
  MethodEmitter(const EdgeProgram& edge, const Delegation& delegation, const Partitioner* partitioner,
                const EmitOptions& options, Program& program)
      : edge_(edge),
        delegation_(delegation),
        partitioner_(partitioner),
        options_(options),
        program_(program),
        table_(edge, program, method_) {
    method_.name = options.method;
    memory_.plan_inputs = options.plan_inputs;
    memory_.plan_outputs = options.plan_outputs;
    memory_.plan_state = options.plan_state;
  }

  MethodMemory run() {
    add_inputs();
    for (const ScheduledStep& step : delegation_.steps) {
      if (const auto* node = std::get_if<const Node*>(&step)) {
        emit(**node);
      } else {
        emit(delegation_.partitions[std::get<size_t>(step)]);
      }
    }
    add_outputs();
    program_.methods.push_back(std::move(method_));
    return std::move(memory_);
  }

 private:
  // ── Inputs ──

  void add_inputs() {
    const std::vector<LeafInfo> leaves = edge_.program().input_leaves();
    for (const InputSpec& spec : edge_.program().signature.inputs) {
      const Value* placeholder = edge_.graph().find(spec.name);
      if (spec.kind == InputKind::kConstantInput) {
        method_.inputs.push_back(constant(spec.constant));
      } else if (spec.kind == InputKind::kUserInput) {
        const auto leaf = std::find_if(leaves.begin(), leaves.end(),
                                       [&](const LeafInfo& each) { return each.placeholder == spec.name; });
        method_.inputs.push_back(input(*placeholder, leaf == leaves.end() ? spec.name : leaf->path));
      }
    }
    // Buffers that the program writes to live in planned memory, with what they hold at first.
    for (const OutputSpec& spec : edge_.program().signature.outputs) {
      if (spec.kind == OutputKind::kBufferMutation || spec.kind == OutputKind::kParameterMutation) {
        add_state(spec.target);
      }
    }
  }

  int32_t input(const Value& placeholder, const std::string& path) {
    if (!placeholder.is_tensor()) {
      throw Error("the input '" + path + "' is a number, and ExecuTorch fixes numbers when a program is made", {},
                  "Make it a tensor, or export with the number as a constant.");
    }
    const int32_t index = method_.add(table_.tensor(placeholder, path));
    table_.bind(placeholder, index);
    return index;
  }

  int32_t constant(const Argument& argument) {
    if (const auto* truth = argument.get_if<bool>()) {
      return table_.boolean(*truth);
    }
    if (const auto* integer = argument.get_if<int64_t>()) {
      return table_.integer(*integer);
    }
    if (const auto* real = argument.get_if<double>()) {
      return table_.real(*real);
    }
    return table_.none();  // strings, too: the runtime takes none
  }

  void add_state(const std::string& target) {
    const auto& inputs = edge_.program().signature.inputs;
    const auto spec =
        std::find_if(inputs.begin(), inputs.end(), [&](const InputSpec& each) { return each.target == target; });
    ensure(spec != inputs.end(), "the program writes to '{}', which it does not have", target);
    const Value* placeholder = edge_.graph().find(spec->name);
    TensorValue tensor = table_.tensor(*placeholder, target);
    tensor.constant = program_.add_constant(bytes_of(edge_.program().state.at(target)));
    const int32_t index = method_.add(std::move(tensor));
    table_.bind(*placeholder, index);
    memory_.state.emplace(index, target);
    state_.emplace(target, index);
  }

  // ── Calls ──

  void emit(const Node& node) {
    if (node.is_call(kView)) {
      emit_view(node);
      return;
    }
    if (const std::string_view kernel = find_sym_kernel(node.target()); !kernel.empty()) {
      emit_sym(node, kernel);
      return;
    }
    const Kernel* kernel = find_kernel(node);
    ensure_at(node, kernel != nullptr, ": ExecuTorch has no kernel for it");
    emit_kernel(node, *kernel);
  }

  void emit_sym(const Node& node, std::string_view kernel) {
    std::vector<int32_t> args;
    for (const Argument& argument : node.args()) {
      args.push_back(argument.is_value() ? table_.index(*argument.value()) : constant(argument));
    }
    args.push_back(table_.add_result(*node.value()));
    const size_t dot = kernel.find('.');
    method_.call(kernel.substr(0, dot), dot == std::string_view::npos ? std::string_view() : kernel.substr(dot + 1),
                 std::move(args));
  }

  // Every argument of the schema, outs included, then the results again: several as a list of tensors.
  void emit_kernel(const Node& node, const Kernel& kernel) {
    const std::vector<const Argument*> bound = bind_arguments(node, lookup_operator(node.target()).schema());
    const c10::FunctionSchema& op = lookup_operator(node.target()).schema();
    std::vector<int32_t> args;
    std::vector<int32_t> outs;
    for (const c10::Argument& formal : kernel.schema->arguments()) {
      if (formal.alias_info() != nullptr && formal.alias_info()->isWrite()) {
        outs.push_back(table_.add_result(*node.output(outs.size())));
        args.push_back(outs.back());
      } else {
        const auto position = op.argumentIndexWithName(formal.name());
        args.push_back(table_.argument(node, position ? bound[static_cast<size_t>(*position)] : nullptr, formal));
      }
    }
    args.push_back(outs.size() == 1 ? outs.front() : method_.add(TensorList{outs}));
    method_.call(kernel.name, kernel.overload, std::move(args));
  }

  // ── Views ──

  // Memory that is planned has its place before the program runs, so a view of fixed sizes is a second value there.
  bool is_planned(int32_t value) const {
    const auto base = memory_.aliases.find(value);
    const int32_t root = base == memory_.aliases.end() ? value : base->second;
    const bool is_input = std::find(method_.inputs.begin(), method_.inputs.end(), root) != method_.inputs.end();
    return !run_time_views_.contains(root) && !memory_.state.contains(root) && (options_.plan_inputs || !is_input);
  }

  void emit_view(const Node& node) {
    const Value& input = *node.arg(0).value();
    const int32_t base = table_.index(input);
    if (edge_.is_output(*node.output())) {
      emit_kernel(node, *find_kernel(node));  // the caller's memory, or planned apart from what else there is
      return;
    }
    TensorValue view = table_.tensor(*node.output());
    const TensorValue& shown = *method_.tensor(base);
    const bool both_fixed = is_static(node.output()->meta()) && is_static(input.meta());
    const bool is_constant = shown.constant && !memory_.state.contains(base);
    if (is_constant) {
      view.constant = shown.constant;
      table_.bind(*node.output(), method_.add(std::move(view)));
      return;
    }
    const int32_t result = method_.add(std::move(view));
    table_.bind(*node.output(), result);
    if (both_fixed && is_planned(base)) {
      const auto root = memory_.aliases.find(base);
      memory_.aliases.emplace(result, root == memory_.aliases.end() ? base : root->second);
      return;
    }
    run_time_views_.insert(result);
    method_.call(kViewKernel, "default", {base, table_.integers(node, node.arg(1)), result});
  }

  // ── Delegates ──

  void emit(const Partition& partition) {
    std::vector<int32_t> args;
    for (const Value* input : partition.inputs) {
      args.push_back(table_.index(*input));
    }
    for (const Value* output : partition.outputs) {
      args.push_back(table_.add_result(*output));
    }
    const auto delegate = static_cast<int32_t>(method_.delegates.size());
    method_.delegates.push_back(partitioner_->lower(partition, edge_, program_));
    method_.instructions.emplace_back(DelegateCall{delegate, std::move(args)});
  }

  // ── Outputs ──

  int32_t clone(int32_t source) {
    TensorValue copy = *method_.tensor(source);
    copy.constant.reset();
    copy.name.clear();
    const int32_t result = method_.add(std::move(copy));
    method_.call("aten::clone", "out", {source, table_.none(), result, result});
    return result;
  }

  // Inputs, constants and state are not the program's to give away, and no two outputs are one tensor.
  int32_t output(const Argument& argument, std::unordered_set<int32_t>& given) {
    const auto* value = argument.get_if<Value*>();
    if (value == nullptr) {
      return constant(argument);
    }
    const int32_t index = table_.index(**value);
    if (!(*value)->is_tensor()) {
      return index;
    }
    const bool is_own = !(*value)->node()->is_placeholder() && given.insert(index).second;
    return is_own ? index : clone(index);
  }

  void add_outputs() {
    std::unordered_set<int32_t> given;
    std::vector<int32_t> written_inputs;
    std::vector<std::pair<int32_t, int32_t>> write_backs;  // to, from
    std::vector<int32_t> results;
    for (const OutputSpec& spec : edge_.program().signature.outputs) {
      if (is_user_output(spec)) {
        results.push_back(output(spec.argument, given));
        name_output(results.back());
        continue;
      }
      const bool is_input = spec.kind == OutputKind::kUserInputMutation;
      ensure(is_input || state_.contains(spec.target), "an output is neither given nor written back: '{}'",
             spec.target);
      const int32_t to = is_input ? table_.index(*edge_.graph().find(spec.target)) : state_.at(spec.target);
      int32_t from = table_.index(*spec.argument.value());
      if (spec.argument.value()->node()->is_placeholder()) {
        from = clone(from);  // it may be written before it is read
      }
      write_backs.emplace_back(to, from);
      if (is_input) {
        written_inputs.push_back(given.insert(from).second ? from : clone(from));
      }
    }
    for (const auto& [to, from] : write_backs) {
      method_.call("aten::copy_", "", {to, from, table_.boolean(false), to});
    }
    method_.outputs = std::move(written_inputs);
    method_.outputs.insert(method_.outputs.end(), results.begin(), results.end());
  }

  void name_output(int32_t index) {
    const std::vector<LeafInfo> leaves = edge_.program().output_leaves();
    if (next_leaf_ < leaves.size()) {
      if (auto* tensor = std::get_if<TensorValue>(&method_.values[index])) {
        tensor->name = leaves[next_leaf_].path;
      }
      ++next_leaf_;
    }
  }

  const EdgeProgram& edge_;
  const Delegation& delegation_;
  const Partitioner* partitioner_;
  const EmitOptions& options_;
  Program& program_;
  Method method_;
  MethodMemory memory_;
  ValueTable table_;
  std::map<std::string, int32_t> state_;
  std::unordered_set<int32_t> run_time_views_;
  size_t next_leaf_ = 0;
};

}  // namespace

MethodMemory emit_method(const EdgeProgram& edge, const Delegation& delegation, const Partitioner* partitioner,
                         const EmitOptions& options, Program& program) {
  return MethodEmitter(edge, delegation, partitioner, options, program).run();
}

}  // namespace exporters::executorch
