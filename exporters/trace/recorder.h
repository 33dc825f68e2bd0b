#pragma once

#include "exporters/fake/dispatch_mode.h"
#include "exporters/graph/exported_program.h"
#include "exporters/patching/op_patch.h"
#include "exporters/trace/sym_values.h"
#include "exporters/trace/trace.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace exporters {

/// Records the ops of one forward into a program's graph. A DispatchMode: each op call is assessed, its arguments are
/// turned into graph arguments and fake tensors, its results inferred and recorded. A call of an op that a patch of
/// this thread replaces is not recorded itself: what the replacement calls is.
class Recorder : public DispatchMode {
 public:
  Recorder(ExportedProgram& program, std::shared_ptr<ShapeEnv> env);

  /// Placeholders, in the order of the calls; parameters and buffers come first.
  void add_state(const TracedState& state);
  /// The fake tensor that stands for a user input.
  at::Tensor add_input(const std::string& placeholder, const at::Tensor& sample, std::vector<Expr> sizes);
  void add_constant_input(const std::string& placeholder, Argument constant);
  /// A placeholder of a program that is traced again, under its own name. Gives what stands for it in calls: a fake
  /// tensor, a symbolic integer, or nothing where calls cannot take it. State is the program's own.
  c10::IValue add_placeholder(InputSpec spec, const Value& original);

  void handle(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;

  /// The graph's value for a tensor that the forward returned.
  Value* value_of(const at::Tensor& tensor);

  /// Applies what the ShapeEnv learnt by the end of the trace: metadata, numbers that became constants, unused numbers.
  void settle();

 protected:
  /// Calls the replacement; what it calls is recorded at the place of the call that it replaces.
  void run_replacement(detail::OpReplacement& replacement, torch::jit::Stack& stack);
  Argument argument_of(const c10::IValue& value, const c10::TypePtr& type);
  /// What stands in the graph for a tensor that holds data: the value of a lifted constant. Called once for a tensor,
  /// unless it is a number.
  virtual Argument lifted(const at::Tensor& real) { return value_of(real); }
  /// A constant as a value of the graph: a placeholder.
  virtual Value* lift_constant(const at::Tensor& tensor);
  /// Records one call whole, whatever its arguments are.
  void record_call(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  /// Ops on tensors that hold data: see Note [Tensors under construction].
  bool runs_for_real(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const;
  /// The hint for the name of the next node that is recorded; the op's name where empty.
  void name_next(std::string hint) { next_name_ = std::move(hint); }
  void remember(const at::Tensor& tensor, Value* value);
  SymValues& numbers() { return numbers_; }
  const std::shared_ptr<ShapeEnv>& env() const { return env_; }

 private:
  struct Call;

  std::string state_owner(const Value* value) const;
  std::string owner_among(c10::ArrayRef<c10::IValue> arguments) const;
  std::string node_of(const c10::IValue& result);
  void run_for_real(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  bool is_under_construction(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const;
  void place_facts_before();
  void read_arguments(Call& call);
  void refuse_written_constant(const Argument& argument) const;
  void infer_results(Call& call);
  void refuse_changed_shapes(const Call& call) const;
  void record(Call& call);
  void give_results(Call& call, torch::jit::Stack& stack);

  Argument tensor_argument(const at::Tensor& tensor);
  c10::IValue fake_argument(const c10::IValue& value);
  at::Tensor fake_of(const at::Tensor& tensor);
  Value* lift(const at::Tensor& real);
  Value* lift_constructed(const at::Tensor& real);
  Value* state_value(const at::Tensor& real);
  void add_results(Node* node, const c10::FunctionSchema& schema, const std::vector<c10::IValue>& results);
  void remember_result(Value* value, const at::Tensor& result);

  struct Known {
    at::Tensor tensor;  // kept alive, so that its address names it for the whole trace
    Value* value = nullptr;
    at::Tensor fake;
  };

  ExportedProgram& program_;
  Graph& graph_;
  std::shared_ptr<ShapeEnv> env_;
  SymValues numbers_;
  std::unordered_map<const c10::TensorImpl*, Known> known_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> under_construction_;
  std::unordered_map<const void*, Value*> state_by_data_;
  std::unordered_map<const Value*, std::string> state_names_;  // placeholder → fully qualified name
  std::unordered_set<const Value*> constants_;
  Node* first_user_input_ = nullptr;
  size_t user_input_count_ = 0;
  size_t lifted_count_ = 0;
  std::string next_name_;
};

}  // namespace exporters
