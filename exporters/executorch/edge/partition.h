#pragma once

#include "exporters/executorch/edge/bounds.h"
#include "exporters/executorch/emit/program.h"
#include "exporters/graph/exported_program.h"
#include "exporters/graph/higher_order.h"
#include "exporters/passes/decompose.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace exporters::executorch {

class EdgeProgram;

/// A call of cond or while_loop. Its subgraphs are programs of their own: a placeholder for an operand that is a
/// constant outside is one inside, the others are inputs. Placeholders for the call's operands come first; constants
/// that the lowering made come behind them.
struct EdgeCall {
  HigherOrderCall call;
  std::vector<std::unique_ptr<const EdgeProgram>> branches;  ///< as in `call`
};

/// An edge program with what lowering asks of it.
class EdgeProgram {
 public:
  explicit EdgeProgram(ExportedProgram program);

  const ExportedProgram& program() const { return program_; }
  Graph& graph() const { return *program_.graph; }
  const Bounds& bounds() const { return bounds_; }

  void add_call(const Node& node, EdgeCall call) { calls_.emplace(&node, std::move(call)); }
  /// The call of subgraphs that a node is; null for other nodes.
  const EdgeCall* call(const Node& node) const;

  /// The parameter, buffer or constant that a value is, if nothing writes to it; else null.
  const StateTensor* constant(const Value& value) const;
  /// Whether the program gives the value to its caller or writes it back.
  bool is_output(const Value& value) const;

 private:
  ExportedProgram program_;
  Bounds bounds_;
  std::unordered_map<const Value*, const StateTensor*> constants_;
  std::unordered_map<const Node*, EdgeCall> calls_;
};

/// The bytes of a constant, contiguous: where they lie in a file, or in memory.
Bytes bytes_of(const StateTensor& state);

/// Calls that a backend runs as one.
struct Partition {
  std::vector<const Node*> nodes;  ///< in execution order
  std::vector<Value*> inputs;      ///< tensors that are no constants, in the order of first use
  std::vector<Value*> outputs;     ///< tensors that are used outside
};

/// What a delegate's side of the lowering is: which calls it takes, and how a partition becomes its blob.
class Partitioner {
 public:
  virtual ~Partitioner() = default;
  virtual std::string backend_id() const = 0;  ///< "XnnpackBackend"
  /// Composite ops that the backend takes whole: DecompositionTable::keep.
  virtual void keep_ops(DecompositionTable& table) const = 0;
  /// Rewrites the edge program into forms that the backend takes, before it is asked about calls.
  virtual void prepare(ExportedProgram&) const {}
  /// Why a call stays outside, in words; empty for one that the backend takes.
  virtual std::string refuse(const Node& node, const EdgeProgram& edge) const = 0;
  /// Whether a partition is worth a call of the backend.
  virtual bool is_worthwhile(const Partition& partition) const = 0;
  /// The same partitioner for delegates that run linear layers in int8: weights rounded at the export, with a scale for
  /// each output channel, inputs at run time, with a scale for each row. Null: the backend cannot.
  virtual std::shared_ptr<const Partitioner> with_int8_linear() const { return nullptr; }
  /// Adds the blob and its data to the program.
  virtual Delegate lower(const Partition& partition, const EdgeProgram& edge, Program& program) const = 0;
};

/// What runs in which order: a call by its kernel, or a partition by index.
using ScheduledStep = std::variant<const Node*, size_t>;

/// A call outside of every partition, and why.
struct Undelegated {
  const Node* node = nullptr;
  std::string reason;
};

struct Delegation {
  std::vector<Partition> partitions;
  std::vector<ScheduledStep> steps;
  std::vector<Undelegated> outside;  ///< calls on tensors only
  std::map<const Node*, std::vector<Delegation>> branches;  ///< of calls of subgraphs
};

/// Calls visit(const Delegation&) for the delegation, and for those of the subgraphs of its calls.
template <typename Visit>
void for_each_delegation(const Delegation& delegation, Visit&& visit) {
  visit(delegation);
  for (const auto& [node, branches] : delegation.branches) {
    for (const Delegation& branch : branches) {
      for_each_delegation(branch, visit);
    }
  }
}

/// Groups the calls that the partitioner takes. A call's level counts how often its inputs' chain changes between
/// calls that are taken and calls that are not; calls of one level that are taken are one partition. A path from a
/// partition back into it would change twice and so end on a higher level: there are no cycles, whatever the graph.
/// Linear, but for the ordering of steps by their places in the program. Null: no delegates. A call of subgraphs stays
/// outside; its subgraphs have partitions of their own.
Delegation partition(const EdgeProgram& edge, const Partitioner* partitioner);

}  // namespace exporters::executorch
