// Note [Control flow]
// A method is one list of instructions, among them JumpFalse, which goes to another one unless its condition holds. The
// graphs of a call stand in it one behind the other and share the method's values:
//
//     cond:  JumpFalse condition → else        while_loop:  carried = operands
//            first branch                            round: condition graph
//            results = what it gives                        JumpFalse condition → end
//            JumpFalse False → end                          body
//      else: second branch                                  carried = what it gives
//            results = what it gives                        JumpFalse False → round
//       end:                                           end:
//
// What a branch takes is bound to the operands themselves. What it gives is copied into tensors that the call alone
// writes to, with room for the largest that any branch gives. So a result never shares memory with an operand, a
// constant or another result, whatever the branches give back, and each value has one place wherever the jumps lead.
// (The runtime can also let one value show another's tensor, MoveCall; the place of a value would then depend on the
// way that was taken. Here it moves numbers only.) The price is one copy for each result.
#include "exporters/executorch/emit/control_flow.h"

#include "exporters/graph/node_check.h"

#include <algorithm>
#include <optional>

namespace exporters::executorch {
namespace {

// Value indices; nothing for constants.
using Operands = std::vector<std::optional<int32_t>>;

class ControlFlow {
 public:
  ControlFlow(const EdgeProgram& edge, const Node& node, const std::vector<Delegation>& delegations, ValueTable& outer,
              MethodContext& context)
      : edge_(edge),
        node_(node),
        parts_(edge.call(node)->call),
        branches_(edge.call(node)->branches),
        delegations_(delegations),
        outer_(outer),
        context_(context),
        method_(context.method) {}

  void emit() {
    if (parts_.kind == HigherOrderCall::Kind::kCond) {
      emit_cond();
    } else {
      emit_while();
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      outer_.bind(*node_.output(i), results_[i]);
    }
  }

 private:
  void emit_cond() {
    const Argument& condition = parts_.operands.front();
    Operands operands;
    for (size_t i = 1; i < parts_.operands.size(); ++i) {
      operands.push_back(operand(parts_.operands[i]));
    }
    for (size_t i = 0; i < node_.outputs().size(); ++i) {
      results_.push_back(add_result(i, {{&edge_, node_.output(i)}, output(0, i), output(1, i)}));
    }
    const size_t to_else = jump_unless(condition_index(condition, outer_));
    assign(run(0, operands), results_);
    const size_t to_end = jump();
    land(to_else);
    assign(run(1, operands), results_);
    land(to_end);
  }

  void emit_while() {
    const Operands operands = loop_operands();
    const size_t round = method_.instructions.size();
    GraphEmitter condition(*branches_[0], delegations_[0], context_);
    run(condition, *branches_[0], operands);
    const size_t to_end = jump_unless(condition_index(output(0, 0).argument, condition.table()));
    assign(readable(run(1, operands)), results_);
    land(jump(), round);
    land(to_end);
  }

  // ── Branches ──

  // Something that a graph of the call takes or gives.
  struct Place {
    const EdgeProgram* edge;
    Argument argument;
  };

  Place output(size_t branch, size_t i) const {
    return {branches_[branch].get(), branches_[branch]->graph().outputs()[i]};
  }
  Place placeholder(size_t branch, size_t i) const {
    return {branches_[branch].get(), branches_[branch]->graph().placeholders()[i]};
  }

  // Nothing for a constant: it is one of the branches, too, and stands in the method only if a kernel there asks for
  // it.
  std::optional<int32_t> operand(const Argument& argument) {
    const bool is_plain = argument.is_none() || argument.is<bool>() || argument.is<int64_t>() || argument.is<double>();
    ensure_at(node_, is_plain || argument.is_value(), " has an operand that is neither a tensor nor a number");
    const bool is_constant = argument.is_value() && edge_.constant(*argument.value()) != nullptr;
    return is_constant ? std::nullopt : std::optional(outer_.index(argument));
  }

  void run(GraphEmitter& emitter, const EdgeProgram& branch, const Operands& operands) {
    const std::vector<Value*> placeholders = branch.graph().placeholders();
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i]) {
        emitter.table().bind(*placeholders[i], *operands[i]);
      }
    }
    emitter.run();
  }

  // Emits a branch and gives what the results are to be.
  std::vector<int32_t> run(size_t branch, const Operands& operands) {
    GraphEmitter emitter(*branches_[branch], delegations_[branch], context_);
    run(emitter, *branches_[branch], operands);
    std::vector<int32_t> given;
    for (size_t i = 0; i < node_.outputs().size(); ++i) {
      given.push_back(index_as(*node_.output(i), output(branch, i).argument, emitter.table()));
    }
    return given;
  }

  // ── Results ──

  // The index of something that becomes a result, which has to be of its kind.
  int32_t index_as(const Value& result, const Argument& argument, ValueTable& table) {
    const auto* whole = argument.get_if<int64_t>();
    const bool is_real = whole != nullptr && result.kind() == Value::Kind::kSymFloat;
    const int32_t index = is_real ? context_.plain.real(static_cast<double>(*whole)) : table.index(argument);
    ensure_at(node_, method_.values[index].index() == empty_value(result).index(),
              " has a result '{}' that a branch gives as something else", result.name());
    return index;
  }

  EValue empty_value(const Value& result) const {
    switch (result.kind()) {
      case Value::Kind::kTensor:
        return TensorValue();
      case Value::Kind::kSymInt:
        return int64_t{0};
      case Value::Kind::kSymFloat:
        return 0.0;
      case Value::Kind::kSymBool:
        return false;
      case Value::Kind::kNone:
        return std::monostate();
      default:
        fail_at(node_, " gives '{}', which is neither a tensor nor a number", result.name());
    }
  }

  // Adds the value of result i, with room for each of the tensors that it may be.
  int32_t add_result(size_t i, const std::vector<Place>& sources) {
    const Value& result = *node_.output(i);
    if (!result.is_tensor()) {
      return method_.add(empty_value(result));
    }
    std::optional<TensorValue> room;
    for (const Place& source : sources) {
      const auto* value = source.argument.get_if<Value*>();
      ensure_at(node_, value != nullptr && (*value)->is_tensor(),
                " has a result '{}' that a branch gives as something else", result.name());
      const TensorValue tensor = largest_tensor(*source.edge, **value);
      room = room ? joined(*room, tensor, result) : tensor;
    }
    return method_.add(std::move(*room));
  }

  TensorValue joined(TensorValue room, const TensorValue& other, const Value& result) const {
    ensure_at(node_, room.dtype == other.dtype && room.sizes.size() == other.sizes.size(),
              " has a result '{}' that a branch gives in another dtype or rank", result.name());
    if (other.dynamism != ShapeDynamism::kStatic || other.sizes != room.sizes) {
      room.dynamism = ShapeDynamism::kBounded;
    }
    for (size_t axis = 0; axis < room.sizes.size(); ++axis) {
      room.sizes[axis] = std::max(room.sizes[axis], other.sizes[axis]);
    }
    return room;
  }

  void assign(const std::vector<int32_t>& from, const std::vector<int32_t>& to) {
    for (size_t i = 0; i < from.size(); ++i) {
      assign(from[i], to[i]);
    }
  }

  void assign(int32_t from, int32_t to) {
    if (from == to) {
      return;
    }
    if (method_.tensor(from) != nullptr) {
      context_.copy(from, to);
    } else {
      method_.instructions.emplace_back(MoveCall{from, to});
    }
  }

  // ── Loops ──

  // What is carried begins as a copy of its operand, to which the loop does not write.
  Operands loop_operands() {
    Operands operands;
    for (size_t i = 0; i < parts_.operands.size(); ++i) {
      if (i >= parts_.carried) {
        operands.push_back(operand(parts_.operands[i]));
        continue;
      }
      const int32_t start = index_as(*node_.output(i), parts_.operands[i], outer_);
      results_.push_back(add_result(i, {{&edge_, node_.output(i)},
                                        {&edge_, parts_.operands[i]},
                                        placeholder(0, i),
                                        placeholder(1, i),
                                        output(1, i)}));
      operands.emplace_back(results_.back());
      assign(start, results_.back());
    }
    return operands;
  }

  // A body may exchange what it carries: what is written before it is read again is kept elsewhere meanwhile.
  std::vector<int32_t> readable(std::vector<int32_t> next) {
    for (size_t i = 0; i < next.size(); ++i) {
      const bool is_carried = std::find(results_.begin(), results_.end(), next[i]) != results_.end();
      if (is_carried && next[i] != results_[i]) {
        next[i] = kept(next[i]);
      }
    }
    return next;
  }

  int32_t kept(int32_t value) {
    if (method_.tensor(value) != nullptr) {
      return context_.clone(value);
    }
    const int32_t result = method_.add(EValue(method_.values[value]));
    assign(value, result);
    return result;
  }

  // ── Jumps ──

  // The runtime takes a tensor for true when all of its elements are: one is all that it may have.
  int32_t condition_index(const Argument& argument, ValueTable& table) const {
    const auto* value = argument.get_if<Value*>();
    const bool is_truth = argument.is<bool>() || (value != nullptr && (*value)->kind() == Value::Kind::kSymBool);
    const bool is_tensor = value != nullptr && (*value)->is_tensor() && (*value)->meta().dtype == c10::kBool &&
                           (*value)->meta().numel() == Expr(1);
    ensure_at(node_, is_truth || is_tensor, " has a condition that is neither a bool nor a tensor of one bool");
    return table.index(argument);
  }

  // Where a jump leads is known when what it skips is there: land().
  size_t jump_unless(int32_t condition) {
    method_.instructions.emplace_back(JumpFalseCall{condition, 0});
    return method_.instructions.size() - 1;
  }

  size_t jump() { return jump_unless(context_.plain.boolean(false)); }

  void land(size_t jump) { land(jump, method_.instructions.size()); }
  void land(size_t jump, size_t destination) {
    std::get<JumpFalseCall>(method_.instructions[jump]).destination = static_cast<int32_t>(destination);
  }

  const EdgeProgram& edge_;
  const Node& node_;
  const HigherOrderCall& parts_;
  const std::vector<std::unique_ptr<const EdgeProgram>>& branches_;
  const std::vector<Delegation>& delegations_;
  ValueTable& outer_;
  MethodContext& context_;
  Method& method_;
  std::vector<int32_t> results_;
};

}  // namespace

void emit_control_flow(const EdgeProgram& edge, const Node& node, const std::vector<Delegation>& delegations,
                       ValueTable& outer, MethodContext& context) {
  ControlFlow(edge, node, delegations, outer, context).emit();
}

}  // namespace exporters::executorch
