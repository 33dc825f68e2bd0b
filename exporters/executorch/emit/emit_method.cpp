#include "exporters/executorch/emit/emit_method.h"

#include "exporters/executorch/emit/graph_emitter.h"
#include "exporters/support/error.h"

#include <algorithm>
#include <unordered_set>

namespace exporters::executorch {
namespace {

using InputKind = InputSpec::Kind;
using OutputKind = OutputSpec::Kind;

bool is_user_output(const OutputSpec& spec) {
  return spec.kind == OutputKind::kUserOutput || spec.kind == OutputKind::kLossOutput;
}

class MethodEmitter {
 public:
  MethodEmitter(const EdgeProgram& edge, const Delegation& delegation, const Partitioner* partitioner,
                const EmitOptions& options, Program& program)
      : edge_(edge), context_(partitioner, options, program), graph_(edge, delegation, context_) {
    method_.name = options.method;
    memory_.plan_inputs = options.plan_inputs;
    memory_.plan_outputs = options.plan_outputs;
    memory_.plan_state = options.plan_state;
  }

  MethodMemory run() {
    add_inputs();
    graph_.run();
    add_outputs();
    context_.program.methods.push_back(std::move(method_));
    return std::move(memory_);
  }

 private:
  // ── Inputs ──

  void add_inputs() {
    const std::vector<LeafInfo> leaves = edge_.program().input_leaves();
    for (const InputSpec& spec : edge_.program().signature.inputs) {
      const Value* placeholder = edge_.graph().find(spec.name);
      if (spec.kind == InputKind::kConstantInput) {
        method_.inputs.push_back(context_.plain.constant(spec.constant));
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
    const int32_t index = method_.add(largest_tensor(edge_, placeholder, path));
    table_.bind(placeholder, index);
    return index;
  }

  void add_state(const std::string& target) {
    const auto& inputs = edge_.program().signature.inputs;
    const auto spec =
        std::find_if(inputs.begin(), inputs.end(), [&](const InputSpec& each) { return each.target == target; });
    ensure(spec != inputs.end(), "the program writes to '{}', which it does not have", target);
    const Value* placeholder = edge_.graph().find(spec->name);
    TensorValue tensor = largest_tensor(edge_, *placeholder, target);
    tensor.constant = context_.program.add_constant(bytes_of(edge_.program().state.at(target)));
    const int32_t index = method_.add(std::move(tensor));
    table_.bind(*placeholder, index);
    memory_.state.emplace(index, target);
    state_.emplace(target, index);
  }

  // ── Outputs ──

  // Inputs, constants and state are not the program's to give away, and no two outputs are one tensor.
  int32_t output(const Argument& argument, std::unordered_set<int32_t>& given) {
    const int32_t index = table_.index(argument);
    const auto* value = argument.get_if<Value*>();
    if (value == nullptr || !(*value)->is_tensor()) {
      return index;
    }
    const bool is_own = !(*value)->node()->is_placeholder() && given.insert(index).second;
    return is_own ? index : context_.clone(index);
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
        from = context_.clone(from);  // it may be written before it is read
      }
      write_backs.emplace_back(to, from);
      if (is_input) {
        written_inputs.push_back(given.insert(from).second ? from : context_.clone(from));
      }
    }
    for (const auto& [to, from] : write_backs) {
      method_.call("aten::copy_", "", {to, from, context_.plain.boolean(false), to});
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
  MethodContext context_;
  GraphEmitter graph_;
  Method& method_ = context_.method;
  MethodMemory& memory_ = context_.memory;
  ValueTable& table_ = graph_.table();
  std::map<std::string, int32_t> state_;
  size_t next_leaf_ = 0;
};

}  // namespace

MethodMemory emit_method(const EdgeProgram& edge, const Delegation& delegation, const Partitioner* partitioner,
                         const EmitOptions& options, Program& program) {
  return MethodEmitter(edge, delegation, partitioner, options, program).run();
}

}  // namespace exporters::executorch
